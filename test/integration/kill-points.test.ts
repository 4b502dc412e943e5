/**
 * The shim is killed before each of its steps, in the set-up and the tear-down of pods and containers, and at random
 * moments. The next shim shows every pod complete or not ready, no log has a gap, and removal leaves nothing.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { docker, inspectContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import type { ShimOptions } from "../support/shim-process.js";
import { long } from "../support/test-bed.js";
import { openFiles } from "../support/processes.js";
import { until } from "../support/wait.js";
import { command } from "./kubenet-support.js";
import { NetworkNode, type PluginName } from "./pod-network-support.js";

const plugins: readonly PluginName[] = long ? ["cni", "kubenet"] : ["cni"];
/** For each plugin. */
const randomKills = long ? 150 : 2;
/** Longer than the life of a pod takes here. */
const longestDelayMs = 3_000;
const killPoints = fileURLToPath(new URL("../support/kill-points.mjs", import.meta.url));

/** Prints numbers in order, so that a log shows whether a line was lost or written twice. */
const counting = ["sh", "-c", "trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"];

/** What the killed calls act on. */
interface Subject {
  readonly config: ReturnType<NetworkNode["podConfig"]>;
  readonly pod?: Pod;
  readonly containerId?: string;
}

type Call = (node: NetworkNode, subject: Subject) => Promise<unknown>;
type Scenario = readonly [name: string, prepare: "nothing" | "pod" | "created" | "running", call: Call];

const scenarios: readonly Scenario[] = [
  ["RunPodSandbox", "nothing", ({ cri }, { config }) => cri.RunPodSandbox({ config })],
  ["CreateContainer", "pod", async (_node, { pod }) => pod?.create({ command: counting })],
  [
    "StartContainer",
    "created",
    ({ cri }, { containerId = "" }) => cri.StartContainer({ container_id: containerId }),
  ],
  [
    "StopContainer",
    "running",
    ({ cri }, { containerId = "" }) => cri.StopContainer({ container_id: containerId, timeout: "5" }),
  ],
  [
    "RemoveContainer",
    "running",
    ({ cri }, { containerId = "" }) => cri.RemoveContainer({ container_id: containerId }),
  ],
  ["StopPodSandbox", "running", async (_node, { pod }) => pod?.stop()],
  ["RemovePodSandbox", "running", async (_node, { pod }) => pod?.remove()],
];

await withOwnEngine(import.meta.url, [], () => {
  for (const plugin of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);
      let orders: string;
      let options: Partial<ShimOptions>;
      let mountsBefore: readonly string[] = [];
      let filesBefore: readonly string[] = [];
      let nonce = 0;

      before(async () => {
        orders = await node.bed.newDirectory();
        options = {
          nodeFlags: ["--import", killPoints],
          environment: { DOCKERSHIM_TEST_KILL_POINTS: orders },
        };
        await node.restart(options);
        // Files that stay open after the life of a pod are no leak.
        await live();
        mountsBefore = await mounts();
        filesBefore = await filesOfShim();
      });

      /** Milestones at which a shim was killed in StopPodSandbox; RemovePodSandbox takes them first. */
      const tried = new Set<string>();

      for (const scenario of scenarios) {
        const [name] = scenario;
        test(`${name}, killed before each step`, async (context) => {
          const recorded = await stepsOf(scenario);
          assert.notDeepEqual(recorded, [""]);
          const milestones = [...recorded.keys()].filter(
            (index) => isMilestone(recorded, index) && !tried.has(kindOf(recorded[index])),
          );
          // Without --long every third milestone, and each of a call with few.
          const chosen = long
            ? [...recorded.keys()]
            : milestones.filter((_, index) => milestones.length < 5 || index % 3 === 0);
          if (name === "StopPodSandbox") for (const step of recorded) tried.add(kindOf(step));
          assert.notEqual(chosen.length, 0);
          context.diagnostic(`${String(chosen.length)} of ${String(recorded.length)} steps`);
          for (const index of chosen) {
            const at = `before step ${String(index)} of ${name}, ${recorded[index] ?? ""}`;
            await killBefore(scenario, index);
            await assertCompleteOrGone(at);
            await assertNothingLeft();
          }
        });
      }

      test(`${String(randomKills)} kills at random moments in the life of a pod`, async () => {
        for (let round = 0; round < randomKills; round += 1) {
          void live().catch(() => undefined); // It fails with the shim.
          await sleep(((round + Math.random()) / randomKills) * longestDelayMs);
          await node.shim.kill();
          await node.start(options);
          await assertCompleteOrGone(`random kill ${String(round)}`);
          await assertNothingLeft();
        }
      });

      async function live(): Promise<void> {
        const pod = await node.runPod(dns());
        const id = await pod.start({ command: counting });
        await pod.exec(id, "true");
        await node.cri.StopContainer({ container_id: id, timeout: "5" });
        await node.cri.RemoveContainer({ container_id: id });
        await pod.stop();
        await pod.remove();
      }

      /** The steps of a call that is not killed. */
      async function stepsOf([, prepare, call]: Scenario): Promise<readonly string[]> {
        const subject = await makeSubject(prepare);
        await giveOrder("record");
        await call(node, subject);
        const steps = (await readFile(join(orders, "journal"), "utf8")).trimEnd().split("\n");
        await withdrawOrder();
        await assertNothingLeft();
        return steps;
      }

      async function killBefore([, prepare, call]: Scenario, index: number): Promise<void> {
        const subject = await makeSubject(prepare);
        await giveOrder(String(index));
        const answered = call(node, subject).then(
          () => true,
          () => false,
        );
        // One step less than the first time is possible, where two of them are side by side.
        await Promise.race([answered, node.shim.exited]);
        await withdrawOrder();
        await node.shim.kill();
        await node.start(options);
      }

      async function giveOrder(text: string): Promise<void> {
        nonce += 1;
        await rm(join(orders, "journal"), { force: true });
        await writeFile(join(orders, "order"), `${text} ${String(nonce)}`);
      }

      async function withdrawOrder(): Promise<void> {
        await rm(join(orders, "order"), { force: true });
      }

      async function makeSubject(prepare: Scenario[1]): Promise<Subject> {
        const config = node.podConfig(dns());
        await mkdir(config.log_directory ?? "", { recursive: true });
        if (prepare === "nothing") return { config };
        const pod = await node.runPod(config);
        if (prepare === "pod") return { config, pod };
        const containerId = await pod.create({ command: counting });
        if (prepare === "running") {
          await node.cri.StartContainer({ container_id: containerId });
          await until("a first line", async () => (await numbersIn(config.log_directory ?? "")).length > 0);
        }
        return { config, pod, containerId };
      }

      /** A sandbox that is listed as ready, or a container as running, has all that its call promised. */
      async function assertCompleteOrGone(at: string): Promise<void> {
        const { items } = await node.cri.ListPodSandbox({});
        assert.ok(items.length <= 1, at);
        for (const { id, state } of items) {
          if (state === PodSandboxState.SANDBOX_READY) await assertCompleteSandbox(id, at);
        }
        const { containers } = await node.cri.ListContainers({});
        assert.ok(containers.length <= 1, at);
        for (const { id, state } of containers) {
          if (state === ContainerState.CONTAINER_CREATED) {
            const started = await node.cri.StartContainer({ container_id: id }).then(
              () => true,
              () => false,
            );
            if (started) await assertCompleteContainer(id, at);
          }
          if (state === ContainerState.CONTAINER_RUNNING) await assertCompleteContainer(id, at);
          if (state === ContainerState.CONTAINER_EXITED) await assertCompleteLog(id, at);
        }
      }

      async function assertCompleteSandbox(id: string, at: string): Promise<void> {
        const docker = await inspectContainer(id);
        assert.equal(docker?.State.Running, true, at);
        assert.equal(
          await readFile(docker.ResolvConfPath, "utf8"),
          "nameserver 10.0.0.1\nsearch test.local\n",
          at,
        );
        const { status } = await node.cri.PodSandboxStatus({ pod_sandbox_id: id });
        const promised = [
          status?.network?.ip,
          ...(status?.network?.additional_ips ?? []).map(({ ip }) => ip),
        ];
        const present = await command(
          "nsenter",
          `--net=/proc/${String(docker.State.Pid)}/ns/net`,
          ...["ip", "-brief", "address"],
        );
        assert.equal(promised.length, 2, at);
        for (const ip of promised)
          assert.ok(present.includes(` ${ip ?? "-"}/`), `${at}: ${ip ?? ""} in ${present}`);
        await node.assertHeld();
        assert.ok(existsSync(join(node.shim.stateDirectory, "sandbox", id)), `${at}: no checkpoint`);
      }

      /** Its log goes on, from the first line, without a gap and without a line twice. */
      async function assertCompleteContainer(id: string, at: string): Promise<void> {
        const { status } = await node.cri.ContainerStatus({ container_id: id });
        assert.ok(status !== null && status.log_path !== "", at);
        const logged = async (): Promise<number> => (await numbersIn(join(status.log_path, ".."))).length;
        const known = await logged();
        await until(`${at}: the log to go on`, async () => (await logged()) > known);
        const numbers = await numbersIn(join(status.log_path, ".."));
        assert.deepEqual(
          numbers,
          [...numbers.keys()].map((index) => index + 1),
          at,
        );
      }

      /** All that the container has printed is in its log. */
      async function assertCompleteLog(id: string, at: string): Promise<void> {
        const { status } = await node.cri.ContainerStatus({ container_id: id });
        const { body } = await docker("GET", `/containers/${id}/logs?stdout=1`);
        const said = body.toString("latin1").split("\n").length - 1;
        const numbers = await numbersIn(join(status?.log_path ?? "", ".."));
        assert.deepEqual(
          numbers,
          Array.from({ length: said }, (_, index) => index + 1),
          at,
        );
      }

      /** As a kubelet removes it. Containers, addresses, rules, links, files; mounts; open files of the program. */
      async function assertNothingLeft(): Promise<void> {
        await removeAll();
        await node.assertClean();
        // Mounts that the engine still had of an earlier file's containers may go meanwhile.
        await until("mounts to go", async () => (await newMounts()).length === 0).catch(() => undefined);
        assert.deepEqual(await newMounts(), []);
        // One look decides: the next one may meet a file that is open for a moment.
        let files: readonly string[] = [];
        await until("files to be closed", async () => {
          files = await filesOfShim();
          return files.length <= filesBefore.length;
        }).catch(() => undefined);
        const lists = `open files: ${files.join(", ")}; before: ${filesBefore.join(", ")}`;
        assert.ok(files.length <= filesBefore.length, lists);
      }

      async function newMounts(): Promise<readonly string[]> {
        const before = [...mountsBefore];
        return (await mounts()).filter((mount) => {
          const index = before.indexOf(mount);
          if (index >= 0) before.splice(index, 1);
          return index < 0;
        });
      }

      /** Of the program, without its connections, which are kept for a while. */
      async function filesOfShim(): Promise<readonly string[]> {
        return (await openFiles(node.shim.pid)).filter((target) => !target.startsWith("socket:"));
      }

      async function removeAll(): Promise<void> {
        // The engine may still be at work on a request of the shim that was killed.
        await until("everything to be gone", async () => {
          const { items } = await node.cri.ListPodSandbox({});
          for (const { id } of items) await node.stopAndRemove(id);
          return (
            (await node.bed.ownContainers()).length === 0 &&
            (await node.cri.ListPodSandbox({})).items.length === 0
          );
        });
      }
    });
  }
});

function dns(): { readonly dns_config: { readonly servers: string[]; readonly searches: string[] } } {
  return { dns_config: { servers: ["10.0.0.1"], searches: ["test.local"] } };
}

async function mounts(): Promise<readonly string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).trim().split("\n");
  return lines.map((line) => line.split(" ")[4] ?? "").sort();
}

/** The numbers of the only log below a directory. */
async function numbersIn(directory: string): Promise<readonly number[]> {
  const [name] = (await readdir(directory).catch(() => [])).filter((entry) => entry.endsWith(".log"));
  if (name === undefined) return [];
  const lines = (await readFile(join(directory, name), "utf8")).split("\n");
  return lines.filter((line) => line !== "").map((line) => Number(line.split(" ").at(-1)));
}

/**
 * Steps after which the next shim finds another state; those between only prepare them. Of the many equal ones, such
 * as the records of one network, the first and the last. Kills at each plugin: pod-network-killed-shim.test.ts.
 */
function isMilestone(steps: readonly string[], index: number): boolean {
  const line = kindOf(steps[index]);
  if (/^(mkdir|open|writeFile|execFile)/.test(line)) return false;
  const isLast = steps.findLastIndex((one) => kindOf(one) === line) === index;
  return steps.findIndex((one) => kindOf(one) === line) === index || (isLast && line.startsWith("rename"));
}

/** A step without what is another one in each pod. */
function kindOf(step = ""): string {
  return step
    .replace(/[0-9a-f]{12,}|\d+/g, "#")
    .replace(/^(spawn|write run) .*/, "$1")
    .replace(/^rm .*\/dockershim-running\/.*/, "rm");
}
