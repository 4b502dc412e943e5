/**
 * Runs a first pod up and down by dist/quick.cjs, and writes the code cache with the functions that were used: more of them would take
 * longer to read than they save. The CRI server is a stand-in, and files below play's directories are those of a directory of its own.
 *
 * Arguments: src/main/quick-start.ts and src/client/cri-messages.ts as CommonJS, the program, the file to write, an empty directory.
 */
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

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

const [quickStart = "", messages = "", program = "", target = "", directory = ""] = process.argv.slice(2);
const require = createRequire(program);
const { readProgram } = require(quickStart);
/** @type {import("../../src/client/cri-messages.js")} */
const { criMethods } = require(messages);
const [socket, manifest] = [join(directory, "cri.sock"), join(directory, "pod.yaml")];
writeFileSync(manifest, MANIFEST);
for (const parent of ["var/lib/dockershim", "var/log"])
  mkdirSync(join(directory, parent), { recursive: true });
await serve(socket);
const { cacheFile, run } = readProgram(program, target);
process.stdout.write = () => true;
for (const flag of ["--wait", "--down"]) {
  process.argv = [process.execPath, program, "play", "--endpoint", `unix://${socket}`, flag, manifest];
  await run(redirected(require, directory)).ended;
  if (process.exitCode !== 0) throw new Error(`play ${flag} of the first pod fails`);
}
const content = cacheFile();
if (content !== undefined) writeFileSync(target, content);
process.exit();
