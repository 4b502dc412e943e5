/**
 * Runs a program of dist and writes its code cache with the functions that were used: more of them would take longer to read than they
 * save. quick.cjs plays a first pod up and down, against a stand-in for a CRI server; its files below play's directories are those of a
 * directory of its own. dockershim.cjs begins to serve, on a stand-in for an engine without containers.
 *
 * Arguments: a directory with parts of src as CommonJS, the program without its ending, the file to write, a directory to be made.
 */
import { Client, Server, ServerCredentials, credentials } from "@grpc/grpc-js";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A name that no pod of this host has: its cgroup would be removed. */
const MANIFEST = `
apiVersion: v1
kind: Pod
metadata: { name: build-${randomUUID()}, labels: { app: web } }
spec:
  containers:
    - name: web
      image: example.com/web:1
      command: [sh, -c, "exit 0"]
      env: [{ name: A, value: b }]
      ports: [{ containerPort: 8080 }]
      resources: { limits: { memory: 64Mi, cpu: 500m } }
      volumeMounts: [{ name: data, mountPath: /data }]
  volumes: [{ name: data, emptyDir: {} }]
`;
/** As in src/play/pod-config/pod-paths.ts. */
const PLAY_DIRECTORIES = /^\/var\/(lib\/dockershim\/play|log\/pods)(?=\/|$)/;

/** @typedef {Record<string, any>} Message any, because scripts are not compiled: the types of messages are in src/domain */

/** The answers to one pod with one container, each as the RPC's messages want them. */
function answers() {
  /** @type {{ config?: Message, container?: Message, isStarted?: boolean }} */
  const pod = {};
  const created = { created_at: "1700000000000000000" };
  /** @type {((event: Message) => void)[]} */
  const watchers = [];
  const sandbox = () => ({ ...pod.config, id: "sandbox", state: 0, ...created });
  const container = () => ({
    ...{ ...pod.container, ...created, id: "container", pod_sandbox_id: "sandbox", image_ref: "image" },
    ...{ state: pod.isStarted === true ? 1 : 0, started_at: created.created_at },
  });
  return {
    watchers,
    unary: {
      Version: () => ({
        version: "0.1.0",
        runtime_name: "stand-in",
        runtime_version: "1",
        runtime_api_version: "v1",
      }),
      Status: () => ({ status: { conditions: [{ type: "RuntimeReady", status: true }] }, info: {} }),
      ListPodSandbox: () => ({ items: pod.config === undefined ? [] : [sandbox()] }),
      RunPodSandbox: (/** @type {Message} */ { config }) => {
        pod.config = config;
        return { pod_sandbox_id: "sandbox" };
      },
      PodSandboxStatus: () => ({ status: { ...sandbox(), network: { ip: "10.0.0.2" } } }),
      ImageStatus: () => ({ image: { id: "image", repo_tags: ["example.com/web:1"], size: "1" } }),
      CreateContainer: (/** @type {Message} */ { config }) => {
        pod.container = config;
        return { container_id: "container" };
      },
      StartContainer: () => {
        pod.isStarted = true;
        for (const send of watchers)
          send({ container_id: "container", container_event_type: 1, pod_sandbox_status: sandbox() });
        return {};
      },
      ListContainers: () => ({ containers: pod.container === undefined ? [] : [container()] }),
      ContainerStatus: () => ({ status: container() }),
      StopContainer: () => ({}),
      StopPodSandbox: () => ({}),
      RemovePodSandbox: () => {
        delete pod.config;
        delete pod.container;
        return {};
      },
    },
  };
}

/**
 * A call without a handler is answered UNIMPLEMENTED.
 * @param {string} socket
 */
async function serve(socket) {
  const { unary, watchers } = answers();
  /** @type {Record<string, any>} */
  const handlers = {
    GetContainerEvents: (/** @type {any} */ call) => watchers.push((event) => call.write(event)),
  };
  for (const [name, answer] of Object.entries(unary))
    handlers[name] = (/** @type {any} */ call, /** @type {any} */ done) => {
      done(null, answer(call.request));
    };
  const server = new Server();
  for (const [name, method] of criMethods()) {
    const handler = handlers[name];
    if (handler === undefined) continue;
    const type = method.responseStream ? "serverStream" : "unary";
    server.register(method.path, handler, method.responseSerialize, method.requestDeserialize, type);
  }
  await new Promise((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error) reject(error);
      else resolve(undefined);
    });
  });
}

/**
 * `require` of a program whose files below play's directories are below `directory`.
 * @param {NodeJS.Require} require
 * @param {string} directory
 */
function redirected(require, directory) {
  const place = (/** @type {unknown} */ value) =>
    typeof value === "string" && PLAY_DIRECTORIES.test(value) ? join(directory, value) : value;
  return (/** @type {string} */ name) => {
    const module = require(name);
    if (name !== "node:fs" && name !== "node:fs/promises") return module;
    const functions = Object.entries(module).map(([key, value]) => [
      key,
      typeof value === "function" && /^[a-z]/.test(key)
        ? (/** @type {unknown[]} */ ...args) => value.apply(module, args.map(place))
        : value,
    ]);
    return Object.fromEntries(functions);
  };
}

/** As an engine without containers and images answers; `true` for what has no answer, such as the stream of events. */
function engineAnswer(/** @type {string} */ url) {
  if (/\/(_ping|version)$/.test(url))
    return { ApiVersion: "1.44", MinAPIVersion: "1.24", Version: "25.0.0", Os: "linux" };
  if (url.endsWith("/info"))
    return { ID: "build", Driver: "overlay2", CgroupDriver: "cgroupfs", CgroupVersion: "2", OSType: "linux" };
  if (/\/events\b/.test(url)) return true;
  return /\/(containers|images)\/json\b/.test(url) ? [] : undefined;
}

/** @param {string} socket */
async function serveEngine(socket) {
  const engine = createServer((request, response) => {
    const answer = engineAnswer(request.url ?? "");
    response.writeHead(answer === undefined ? 404 : 200, {
      "Content-Type": "application/json",
      "Api-Version": "1.44",
    });
    if (answer === true) response.flushHeaders();
    else response.end(JSON.stringify(answer ?? { message: "there is none" }));
  });
  await new Promise((resolve) => engine.listen(socket, () => resolve(undefined)));
}

/** @param {() => Promise<unknown>} action */
async function untilDone(action) {
  for (;;) {
    try {
      return await action();
    } catch {
      await sleep(20);
    }
  }
}

const [parts = "", path = "", target = "", directory = ""] = process.argv.slice(2);
const require = createRequire(path);
/** @type {import("../../src/main/cached-program.js")} */
const { readProgram } = require(join(parts, "main/cached-program.cjs"));
/** @type {import("../../src/client/cri-messages.js")} */
const { criMethods } = require(join(parts, "client/cri-messages.cjs"));

async function play() {
  const [socket, manifest] = [join(directory, "cri.sock"), join(directory, "pod.yaml")];
  writeFileSync(manifest, MANIFEST);
  for (const parent of ["var/lib/dockershim", "var/log"])
    mkdirSync(join(directory, parent), { recursive: true });
  await serve(socket);
  const program = readProgram(path);
  for (const flag of ["--wait", "--down"]) {
    process.argv = [process.execPath, path, "play", "--endpoint", `unix://${socket}`, flag, manifest];
    await program.run(redirected(require, directory)).ended;
    if (process.exitCode !== 0) throw new Error(`play ${flag} of the first pod fails`);
  }
  return program;
}

async function serveFirstCalls() {
  const [engine, socket] = [join(directory, "engine.sock"), join(directory, "cri.sock")];
  for (const name of Object.keys(process.env))
    if (/^(DOCKER|NOTIFY_SOCKET|LISTEN_)/.test(name)) delete process.env[name];
  await serveEngine(engine);
  const flags = [`--docker-endpoint=unix://${engine}`, `--container-runtime-endpoint=unix://${socket}`];
  const own = [
    `--state-dir=${join(directory, "state")}`,
    "--network-plugin=no-op",
    "--streaming-bind-addr=127.0.0.1:0",
  ];
  process.argv = [process.execPath, path, "serve", ...flags, ...own];
  const program = readProgram(path);
  program.run();
  const client = new Client(`unix:${socket}`, credentials.createInsecure());
  const methods = new Map(criMethods());
  for (const name of ["Version", "Status", "ListPodSandbox", "ListContainers", "ListImages"]) {
    const method = methods.get(name);
    const call = () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          method.path,
          method.requestSerialize,
          method.responseDeserialize,
          {},
          (error, answer) => {
            if (error) reject(error);
            else resolve(answer);
          },
        );
      });
    await untilDone(call);
  }
  return program;
}

mkdirSync(directory);
process.stdout.write = () => true;
const { cacheFile } = await (basename(path) === "quick" ? play() : serveFirstCalls());
const content = cacheFile();
if (content !== undefined) writeFileSync(target, content);
process.exit();
