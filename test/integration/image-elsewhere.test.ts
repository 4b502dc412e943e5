/**
 * The program's image in an engine elsewhere, with pods that are played from here, through the forwarded
 * endpoint. The engine's host stands still, its clock is set, and the image is replaced: no pod restarts.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { after, before, describe, test } from "node:test";
import { repositoryRoot } from "../../scripts/setup/paths.mjs";
import { ElsewhereEngine } from "../support/elsewhere-engine.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { reasonForNoPrivileged } from "../support/privileged.js";
import { CommandProcess, type Exit, runProgram } from "../support/shim-process.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

const busybox = "registry.k8s.io/e2e-test-images/busybox:1.29-2";
const image = "dockershim.test/image:elsewhere";
/** Longer than all limits of a probe; DOCKERSHIM_TEST_STILL_SECONDS=60 for the time of a pause. */
const stillMs = Number(process.env["DOCKERSHIM_TEST_STILL_SECONDS"] ?? "8") * 1000;

/** The clock of a Node.js program is what the file says ahead. */
const clock = `
const { readFileSync } = require("node:fs");
const Real = Date;
const ahead = () => Number(readFileSync(__dirname + "/ahead", "utf8"));
globalThis.Date = class extends Real {
  constructor(...given) { if (given.length === 0) super(Real.now() + ahead()); else super(...given); }
  static now() { return Real.now() + ahead(); }
};
`;

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: disk, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
  containers:
    - name: web
      image: ${busybox}
      command: [sh, -c, "mount | grep -q 'tmpfs on /memory' && echo page > /disk/index.html && exec httpd -f -p 8080 -h /disk"]
      volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]
      livenessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1, timeoutSeconds: 4, failureThreshold: 1}
      readinessProbe: {exec: {command: [test, -d, /memory]}, periodSeconds: 1}
`;

await inNamespaces(import.meta.url, ["dockerd"], () => {
  describe("the image in a virtual machine", () => {
    const engine = new ElsewhereEngine();
    let directory = "";
    let forward: CommandProcess | undefined;

    before(async () => {
      await engine.start();
      directory = await mkdtemp(join(tmpdir(), "dockershim-image-"));
      await engine.json("POST", "/images/load", await testImageArchive({ reference: busybox, marker: "vm" }));
      const environment = { ...process.env, DOCKER_HOST: engine.endpoint };
      const script = join(repositoryRoot, "scripts/image.mjs");
      await promisify(execFile)(process.execPath, [script, image], { env: environment });
      await writeFile(join(shared(), "clock.cjs"), clock);
      await setClockAhead(0);
      await writeFile(join(directory, "pod.yaml"), manifest);
    });
    after(async () => {
      await forward?.end("SIGKILL");
      await engine.kill();
      await rm(directory, { recursive: true, force: true });
      await rm("/var/lib/dockershim", { recursive: true, force: true });
    });

    /** A directory that is /run/engine in the virtual machine. */
    const shared = (): string => dirname(engine.socket);
    const endpoint = (): string => `unix://${join(directory, "cri.sock")}`;
    const setClockAhead = (milliseconds: number): Promise<void> =>
      writeFile(join(shared(), "ahead"), String(milliseconds));
    const here = (...words: readonly string[]): Promise<Exit> =>
      runProgram([...words], { DOCKER_HOST: engine.endpoint });
    const pod = (...[verb = "", ...words]: readonly string[]): Promise<Exit> =>
      here("pod", verb, `--endpoint=${endpoint()}`, ...words);
    const play = (...words: readonly string[]): Promise<Exit> =>
      here("play", `--endpoint=${endpoint()}`, ...words, join(directory, "pod.yaml"));

    async function startServer(): Promise<void> {
      const { Id: id } = (await engine.json("POST", "/containers/create?name=dockershim", {
        Image: image,
        Cmd: ["--compose-labels"],
        Env: [
          "DOCKERSHIM_DOCKER_ENDPOINT=unix:///run/engine/docker.sock",
          "NODE_OPTIONS=--require=/run/engine/clock.cjs",
        ],
        HostConfig: {
          ...{ Privileged: true, PidMode: "host", NetworkMode: "host", CgroupnsMode: "host" },
          Binds: [
            ...["/run:/run", "/sys/fs/cgroup:/sys/fs/cgroup", "/var/log/pods:/var/log/pods"],
            ...["/run/engine:/run/engine", "/var/lib/dockershim:/var/lib/dockershim:rshared"],
          ],
        },
      })) as { readonly Id: string };
      await engine.json("POST", `/containers/${id}/start`);
    }

    /** Containers of pods, with when they were started. */
    async function started(): Promise<Readonly<Record<string, string>>> {
      const filters = encodeURIComponent(JSON.stringify({ label: ["io.kubernetes.pod.name"] }));
      const listed = (await engine.json("GET", `/containers/json?filters=${filters}`)) as readonly {
        readonly Id: string;
        readonly Labels: Readonly<Record<string, string>>;
      }[];
      const times = listed.map(async ({ Id: id, Labels: labels }) => {
        assert.equal(labels["com.docker.compose.project"], "default_web");
        const { State } = (await engine.json("GET", `/containers/${id}/json`)) as {
          readonly State: { readonly StartedAt: string };
        };
        return [id, State.StartedAt] as const;
      });
      return Object.fromEntries((await Promise.all(times)).sort());
    }

    test("the image is made in the engine that the docker command would use", async () => {
      const made = (await engine.json("GET", `/images/${image}/json`)) as {
        readonly Config: { readonly Entrypoint: readonly string[] | null };
      };
      assert.deepEqual(made.Config.Entrypoint, ["/opt/dockershim/entrypoint"]);
    });

    test("a pod is played from here and reached from here, and nothing restarts it", async (context) => {
      const reason = await reasonForNoPrivileged((...call) => engine.json(...call));
      if (reason !== false) {
        context.skip(reason);
        return;
      }
      await startServer();
      forward = CommandProcess.start([
        ...["forward", `--listen=${endpoint()}`, `--docker-endpoint=${engine.endpoint}`],
      ]);
      await forward.untilPrinted(/leads to container/);
      await until("the server answers", async () => (await pod("ps")).code === 0);
      const played = await play("--detach", "--wait=60s");
      assert.equal(played.code, 0, played.stderr);
      const before = await started();
      assert.equal(Object.keys(before).length, 2);

      const executed = await pod("exec", "web", "--", "cat", "/disk/index.html");
      assert.deepEqual([executed.code, executed.stdout], [0, "page\n"], executed.stderr);
      const copied = await pod("cp", "web:/disk/index.html", join(directory, "page"));
      assert.equal(copied.code, 0, copied.stderr);
      assert.equal(await readFile(join(directory, "page"), "utf8"), "page\n");

      const continueAll = await stopAll(engine.pids);
      await delay(stillMs);
      await setClockAhead(60_000);
      continueAll();
      await until("the server answers again", async () => (await pod("ps")).code === 0);
      await delay(3_000);
      assert.deepEqual(await started(), before, await supervisorLog());

      await engine.json("DELETE", "/containers/dockershim?force=1");
      await startServer();
      await until("the new server answers", async () => (await pod("ps")).code === 0);
      await delay(3_000);
      assert.deepEqual(await started(), before, await supervisorLog());
      const shown = await pod("ps");
      assert.match(shown.stdout, /web +1\/1 +Running +0 /, await supervisorLog());
      assert.doesNotMatch(shown.stdout, /dockershim/, "its own container is none of the CRI's");
      // The supervisor is back: it restarts what ends.
      const filters = encodeURIComponent(JSON.stringify({ name: ["^/k8s_web_web_"] }));
      const [{ Id: web } = { Id: "" }] = (await engine.json(
        "GET",
        `/containers/json?filters=${filters}`,
      )) as { Id: string }[];
      await engine.json("POST", `/containers/${web}/kill`);
      await until("the container was restarted", async () =>
        /web +1\/1 +Running +1 /.test((await pod("ps")).stdout),
      );

      const down = await play("--down");
      assert.equal(down.code, 0, down.stderr);
      assert.deepEqual(await started(), {});
      assert.deepEqual(await readdir(join(shared(), "data/volumes/dockershim-play/_data")), []);
    });

    async function supervisorLog(): Promise<string> {
      const plays = "/var/lib/dockershim/play/plays.d";
      const [one = ""] = await readdir(plays);
      return readFile(join(plays, one, "supervisor.log"), "utf8");
    }
  });
});

/** Processes and all below them stand still until the answer is called. */
async function stopAll(first: readonly number[]): Promise<() => void> {
  const stopped = new Set<number>();
  const signal = (pid: number, name: NodeJS.Signals): void => {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended.
    }
  };
  // Processes start others until they are stopped themselves.
  for (let count = -1; count !== stopped.size;) {
    count = stopped.size;
    for (const pid of [...first, ...(await processesBelow(first))]) {
      if (!stopped.has(pid)) signal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
  return () => {
    // nsenter stops again as long as its child is stopped.
    for (const pid of [...stopped].reverse()) signal(pid, "SIGCONT");
  };
}

async function processesBelow(first: readonly number[]): Promise<readonly number[]> {
  const children = new Map<number, number[]>();
  for (const name of await readdir("/proc")) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, "utf8").catch(() => "") : "";
    const parent = Number(stat.slice(stat.lastIndexOf(")") + 4).split(" ", 1)[0]);
    if (stat !== "") children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const found: number[] = [];
  const open = [...first];
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    const below = children.get(pid) ?? [];
    found.push(...below);
    open.push(...below);
  }
  return found;
}
