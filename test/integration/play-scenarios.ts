/** What `dockershim play` and `dockershim pod` do on every CRI server, as tests. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { connectCri } from "../support/cri-client.js";
import { fetchOnEngineHost, onEngineHost } from "../support/engine-host.js";
import { programWords } from "../support/program-words.js";
import { CommandProcess, runProgram, type Exit } from "../support/shim-process.js";
import { until } from "../support/wait.js";

/** A CRI server with the image of the tests. */
export interface PlayServer {
  readonly endpoint: string;
  readonly image: string;
  /** Part of all names. */
  readonly run: string;
  newDirectory(): Promise<string>;
}

/** One pod of `dockershim pod ps --output json`. */
interface ListedPod {
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly readyContainers: number;
  readonly restarts: number;
  readonly lastExit?: { readonly code: number };
  readonly addresses: readonly string[];
  readonly sandbox: string;
  readonly madeBy: string;
  readonly containers: readonly {
    readonly name: string;
    readonly id: string;
    readonly state: string;
    readonly attempt: number;
  }[];
}

/** The scenarios wait for probes and back-offs most of the time; each has pods and directories of its own. */
export const playsAtOnce = 3;

const forever = 'command: [sh, -c, "trap exit TERM; while :; do sleep 0.1; done"]';

/** Defines the tests. `server` is asked when they run. */
export function playScenarios(server: () => PlayServer): void {
  const play = (...argv: readonly string[]): Promise<Exit> =>
    runProgram(["play", `--endpoint=${server().endpoint}`, ...argv]);
  const pod = (verb: string, ...argv: readonly string[]): Promise<Exit> =>
    runProgram(["pod", verb, `--endpoint=${server().endpoint}`, ...argv]);
  const named = (name: string): string => `${name}-${server().run}`;

  /** Writes the manifests, whose pods are removed after the test. */
  async function manifest(t: TestContext, text: string): Promise<string> {
    const path = join(await server().newDirectory(), "manifests.yaml");
    t.after(async () => {
      const { code, stderr } = await play("--down", path);
      assert.equal(code, 0, stderr);
    });
    await write(path, text);
    return path;
  }

  async function write(path: string, text: string): Promise<void> {
    await writeFile(path, text.replaceAll("RUN", server().run).replaceAll("IMAGE", server().image));
  }

  async function up(path: string, ...flags: readonly string[]): Promise<Exit> {
    const exit = await play("--wait", ...flags, path);
    assert.equal(exit.code, 0, exit.stderr);
    return exit;
  }

  /** A directory of the engine's host that pods mount at /data; `at` is where this process finds a file of it. */
  async function dataDirectory(): Promise<{ volume: string; mount: string; at: (file: string) => string }> {
    const directory = await server().newDirectory();
    await mkdir(onEngineHost(directory), { recursive: true });
    return {
      volume: `volumes: [{name: data, hostPath: {path: ${directory}, type: Directory}}]`,
      mount: "volumeMounts: [{name: data, mountPath: /data}]",
      at: (file) => onEngineHost(join(directory, file)),
    };
  }

  /** Starts play, which is ended after the test at the latest. */
  function attach(t: TestContext, ...argv: readonly string[]): CommandProcess {
    const process = CommandProcess.start(["play", `--endpoint=${server().endpoint}`, ...argv]);
    t.after(() => process.end("SIGKILL"));
    return process;
  }

  async function listed(name: string): Promise<ListedPod | undefined> {
    const { code, stdout, stderr } = await pod("ps", "--output=json");
    assert.equal(code, 0, stderr);
    const { pods } = JSON.parse(stdout) as { readonly pods: readonly ListedPod[] };
    return pods.find((each) => each.name === named(name));
  }

  async function present(name: string): Promise<ListedPod> {
    return (await listed(name)) ?? assert.fail(`no pod ${named(name)}`);
  }

  test("a pod runs, is ready by its probes, and is gone after --down", async (t) => {
    const path = await manifest(
      t,
      `
apiVersion: v1
kind: Pod
metadata: {name: ready-RUN}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: IMAGE
    command: [sh, -c, "mkdir -p /www; echo page > /www/index.html; sleep 1; exec httpd -f -p 8080 -h /www"]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
  - name: other
    image: IMAGE
    ${forever}
    readinessProbe: {exec: {command: [test, -d, /tmp]}, periodSeconds: 1}
`,
    );
    const { stdout } = await up(path);
    assert.match(stdout, new RegExp(`default/${named("ready")} +Running +2/2 +0 `));
    const { phase, addresses, madeBy } = await present("ready");
    assert.deepEqual([phase, madeBy], ["Running", "play"]);
    assert.equal(await fetchOnEngineHost(`http://${addresses[0]}:8080/`, 10_000), "page\n");
    const again = await up(path);
    assert.match(again.stderr, new RegExp(`default/${named("ready")}: already running`));
    assert.equal((await play("--down", path)).code, 0);
    assert.equal(await listed("ready"), undefined);
  });

  test("probes: liveness by exec and by HTTP restart a container, startup by TCP holds the others off", async (t) => {
    const path = await manifest(
      t,
      `
apiVersion: v1
kind: Pod
metadata: {name: probes-RUN}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: exec
    image: IMAGE
    command: [sh, -c, "touch /tmp/ok; trap exit TERM; sleep 3; rm /tmp/ok; while :; do sleep 0.1; done"]
    livenessProbe: {exec: {command: [test, -e, /tmp/ok]}, periodSeconds: 1, failureThreshold: 2}
  - name: http
    image: IMAGE
    command: [sh, -c, "mkdir -p /www; touch /www/ok; httpd -p 8080 -h /www; sleep 3; rm /www/ok; exec sleep 1000"]
    livenessProbe: {httpGet: {port: 8080, path: /ok}, periodSeconds: 1, failureThreshold: 1}
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`,
    );
    const attached = attach(t, "--fast", path);
    for (const name of ["exec", "http"]) {
      await attached.untilPrinted(new RegExp(`Container ${name} failed liveness probe, will be restarted`));
      await attached.untilPrinted(new RegExp(`(?:: Started container ${name}[^]*){2}`));
    }
    await attached.end("SIGINT");
    const { restarts } = await present("probes");
    assert.equal(restarts >= 2, true);
  });

  test("init containers and sidecars: in order, and a sidecar ends after the last container", async (t) => {
    const { volume, mount, at } = await dataDirectory();
    const path = await manifest(
      t,
      `
apiVersion: v1
kind: Pod
metadata: {name: order-RUN}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 10
  ${volume}
  initContainers:
  - {name: first, image: IMAGE, command: [sh, -c, "echo first >> /data/log"], ${mount}}
  - name: side
    image: IMAGE
    restartPolicy: Always
    command: [sh, -c, "echo side >> /data/log; trap 'echo end >> /data/log; exit' TERM; while :; do sleep 0.1; done"]
    startupProbe: {exec: {command: [grep, -q, side, /data/log]}, periodSeconds: 1}
    ${mount}
  - {name: second, image: IMAGE, command: [sh, -c, "echo second >> /data/log"], ${mount}}
  containers: [{name: main, image: IMAGE, command: [sh, -c, "sleep 1; echo main >> /data/log"], ${mount}}]
`,
    );
    const exit = await play(path);
    assert.equal(exit.code, 0, exit.stderr);
    assert.equal(await readFile(at("log"), "utf8"), "first\nside\nsecond\nmain\nend\n");
    assert.equal((await present("order")).phase, "Succeeded");
  });

  test("volumes: objects, a sub path, memory and data that outlive a sandbox", async (t) => {
    const text = (value: string): string => `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings-RUN}
data: {key: ${value}}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes-RUN}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: settings, configMap: {name: settings-RUN}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: data, emptyDir: {}}
  containers:
  - name: a
    image: IMAGE
    ${forever}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: data, mountPath: /settings/nested/data}
    - {name: memory, mountPath: /memory}
    - {name: data, mountPath: /data, subPath: below}
`;
    const path = await manifest(t, text("one"));
    const inside = async (command: string): Promise<string> => {
      const exit = await pod("exec", named("volumes"), "--", "sh", "-c", command);
      return `${exit.stdout}${exit.stderr}`;
    };
    const attached = attach(t, path);
    await attached.untilPrinted(/Started container a/);
    await until("the pod", async () => (await listed("volumes"))?.phase === "Running");
    assert.equal(await inside("cat /settings/key; grep -c ' /memory tmpfs ' /proc/mounts"), "one1\n");
    assert.equal(
      await inside("touch /settings/x 2> /dev/null || echo read-only; touch /data/x"),
      "read-only\n",
    );
    await attached.end("SIGINT");
    await write(path, text("two"));
    await up(path);
    const look = "cat /settings/key; ls /data /settings/nested/data";
    const seen = "two/data:\nx\n\n/settings/nested/data:\nbelow\n";
    assert.equal(await inside(look), seen);
    const sandbox = (await present("volumes")).sandbox;
    await stopSandbox(server().endpoint, sandbox);
    await up(path);
    assert.notEqual((await present("volumes")).sandbox, sandbox);
    assert.equal(await inside(look), seen);
  });

  test("Services: pods find one another by name", async (t) => {
    const path = await manifest(
      t,
      `
apiVersion: v1
kind: Service
metadata: {name: web-RUN}
spec: {selector: {app: web-RUN}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client-RUN}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: a, image: IMAGE, ${forever}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-RUN, labels: {app: web-RUN}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: a, image: IMAGE, command: [sh, -c, "mkdir -p /www; echo web > /www/index.html; exec httpd -f -p 8080 -h /www"]}
`,
    );
    await up(path);
    const address = `http://${named("web")}.default.svc.cluster.local:8080/`;
    const page = await until("the page", async () => {
      const exit = await pod("exec", named("client"), "--", "wget", "-q", "-O", "-", address);
      return exit.code === 0 ? exit.stdout : undefined;
    });
    assert.equal(page, "web\n");
  });

  test("pod logs, exec, attach, cp, port-forward, top, describe and events", async (t) => {
    const script =
      "echo one; echo two; mkdir -p /www; echo page > /www/index.html; httpd -p 8080 -h /www; exec cat";
    const path = await manifest(
      t,
      `
apiVersion: v1
kind: Pod
metadata: {name: verbs-RUN}
spec:
  terminationGracePeriodSeconds: 1
  # Created before the container that the commands take.
  initContainers: [{name: side, restartPolicy: Always, image: IMAGE, command: [sleep, "1000"]}]
  containers: [{name: web, image: IMAGE, stdin: true, command: [sh, -c, "${script}"]}]
`,
    );
    await up(path);
    const name = named("verbs");
    assert.match((await pod("ps")).stdout, new RegExp(`default +${name} +2/2 +Running +0 `));
    await until("both lines", async () => (await pod("logs", name)).stdout === "one\ntwo\n");
    assert.equal((await pod("logs", name, "--tail=1", "--prefix")).stdout, `[pod/${name}/web] two\n`);
    assert.match((await pod("logs", name, "-c", "none")).stderr, /no container "none"; it has: /);

    const failed = await pod("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 7");
    const defaulted = 'Defaulted container "web" out of: web, side (init)\n';
    assert.deepEqual([failed.code, failed.stdout, failed.stderr], [7, "out\n", `${defaulted}err\n`]);
    assert.equal((await input("12345", "exec", "-i", name, "--", "wc", "-c")).trim(), "5");
    const program = programWords(["pod", "exec", `--endpoint=${server().endpoint}`, "-it"]).join(" ");
    const shell = `stty rows 33 columns 99; ${program} ${name} -- sh -c "tty; sleep 1; stty size"; stty -a`;
    const { stdout: terminal } = await promisify(execFile)("script", ["-qec", shell, "/dev/null"]);
    // Afterwards the terminal is as before.
    assert.match(terminal, /\/dev\/pts\/0\s+33 99\s[^]* icanon/);

    const directory = await server().newDirectory();
    await mkdir(join(directory, "tree"));
    await writeFile(join(directory, "tree", "a"), "a".repeat(200_000));
    const to = await pod("cp", join(directory, "tree"), `${name}:/tmp/copied`);
    assert.equal(to.code, 0, to.stderr);
    const from = await pod("cp", `${name}:/tmp/copied`, join(directory, "back"));
    assert.equal(from.code, 0, from.stderr);
    assert.equal((await readFile(join(directory, "back", "a"), "utf8")).length, 200_000);
    assert.equal((await pod("cp", `${name}:/no/such`, join(directory, "none"))).code, 1);

    const forward = CommandProcess.start([
      ...["pod", "port-forward", `--endpoint=${server().endpoint}`, name, ":8080"],
    ]);
    t.after(() => forward.end("SIGKILL"));
    await forward.untilPrinted(/127\.0\.0\.1:\d+/);
    const port = /127\.0\.0\.1:(\d+)/.exec(forward.output)?.[1] ?? "";
    const page = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(10_000) });
    assert.equal(await page.text(), "page\n");
    await forward.end("SIGINT");

    const top = await pod("top", name, "--containers");
    assert.match(top.stdout, /web +\d+m +[1-9]\d*Mi/, top.stderr);
    assert.match((await pod("describe", name)).stdout, /State: +running/);
    assert.match((await pod("events", name)).stdout, /container web \(attempt 0\) started/);
    assert.match(await input("said\n", "attach", "-i", name), /said/);
    const down = await pod("down", name);
    assert.equal(down.code, 0, down.stderr);
    assert.match((await pod("describe", name)).stderr, /not found/);
  });

  /** The output of a command of `dockershim pod` with that standard input. */
  async function input(text: string, verb: string, ...argv: readonly string[]): Promise<string> {
    const [node, ...words] = programWords(["pod", verb, `--endpoint=${server().endpoint}`, ...argv]);
    const child = spawn(node, words, { stdio: ["pipe", "pipe", "inherit"] });
    // Servers detach at the end of the input.
    if (verb === "attach") child.stdin.write(text);
    else child.stdin.end(text);
    let out = "";
    child.stdout.on("data", (chunk: Buffer) => {
      out += chunk.toString();
      // It does not end by itself.
      if (verb === "attach" && out.includes(text.trim())) child.kill("SIGINT");
    });
    await new Promise((resolve) => child.once("close", resolve));
    return out;
  }
}

/** As after a reboot, when the runtime has no running sandbox any more. */
async function stopSandbox(endpoint: string, id: string): Promise<void> {
  using cri = connectCri(endpoint.replace("unix://", ""));
  await cri.StopPodSandbox({ pod_sandbox_id: id });
}
