/** Sources of mounts that are missing, and those on a volume that hangs: a real one, whose server answers nothing. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { ContainerState, type Answer, type Mount } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { rootOnHost } from "../support/docker.js";
import { isEngineElsewhere, needsEngineHost, onEngineHost } from "../support/engine-host.js";
import { mountHanging, reasonForNoHangingMount } from "../support/hanging-mount.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const skip = await reasonToSkip();
const isRemapped = skip === false && (await rootOnHost())[0] !== 0;
const bind = (host_path: string, container_path = "/data"): Answer<Mount> => ({ host_path, container_path });

describe("a host path that does not exist", { skip, timeout: 300_000 }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let root: string;
  before(async () => {
    // Where DaemonSets have such paths. Not made yet, and of a name that no other test has.
    root = `/var/lib/dockershim-test-${bed.run}`;
    bed.onClose(() => rm(onEngineHost(root), { recursive: true, force: true }));
    shim = await bed.startShim();
  });

  /** A pod as a DaemonSet has it writes into `path`, and the node has what it wrote. */
  async function write(
    path: string,
    mount: Answer<Mount> = bind(path),
    from: ShimProcess = shim,
  ): Promise<void> {
    await using pod = await bed.runPod(from.cri);
    const id = await pod.start({ mounts: [mount] });
    assert.equal((await pod.containerStatus(id)).state, ContainerState.CONTAINER_RUNNING);
    await pod.shell(id, "echo from the pod > /data/file");
    await pod.remove();
    assert.equal(await readFile(onEngineHost(join(path, "file")), "utf8"), "from the pod\n");
  }

  async function assertMade(path: string): Promise<void> {
    for (let part = path; part !== "/var/lib"; part = dirname(part)) {
      const { mode, uid, gid } = await stat(onEngineHost(part));
      assert.deepEqual([mode.toString(8), uid, gid], ["40755", ...(await rootOnHost())], part);
    }
  }

  test("is made as a directory with its parents, and stays when the pod goes", async () => {
    const path = join(root, "x", "y");
    await write(path);
    await assertMade(path);
    if (!isRemapped && !isEngineElsewhere)
      assert.match(shim.log, /created the missing source of a mount as a directory/);
    await write(path, { ...bind(path), propagation: 2 });
    await write(path, { ...bind(path), selinux_relabel: true });
  });

  test("is made by the engine where its files are out of reach", async () => {
    const remote = await bed.startShim({ flags: ["--engine-reach=remote"] });
    const path = join(root, "remote", "y");
    await write(path, bind(path), remote);
    await assertMade(path);
    await write(path, { ...bind(path), propagation: 2 }, remote);
    await remote.stop();
  });
});

const skipHanging = skip || needsEngineHost("hostPaths") || reasonForNoHangingMount();

describe("a volume whose server does not answer", { skip: skipHanging, timeout: 300_000 }, () => {
  const bed = TestBed.ofSuite();

  /** More than the threads that Node.js has for files. */
  const names = ["a", "b", "c", "d", "e", "f"];
  const noAnswer = /host_path "[^"]*": the file system (still )?does not answer/;

  const createAll = (pod: Pod, path: string, prefix: string): Promise<unknown> =>
    Promise.all(
      names.map((name) =>
        rejectsWith(
          pod.create({
            metadata: { name: prefix + name, attempt: 0 },
            mounts: [bind(join(bed.directory, "fine"), "/fine"), bind(join(path, name))],
          }),
          "DEADLINE_EXCEEDED",
          noAnswer,
        ),
      ),
    );

  async function live(shim: ShimProcess): Promise<void> {
    await using pod = await bed.runPod(shim.cri);
    const id = await pod.start({ mounts: [bind(join(bed.directory, "fine"))] });
    assert.equal(await pod.shell(id, "echo well"), "well");
    await shim.cri.StopContainer({ container_id: id, timeout: "2" });
    await shim.cri.RemoveContainer({ container_id: id });
    await pod.stop();
    await pod.remove();
  }

  test("costs its own containers an error; other pods live on, and SIGTERM ends the program", async () => {
    const shim = await bed.startShim();
    const hung = await bed.runPod(shim.cri);
    await using mount = await mountHanging();

    const failing = createAll(hung, mount.path, "first-");
    failing.catch(() => undefined); // Heard below, also when something else fails before.
    await until("they hang", () => mount.taken >= 4);
    await live(shim);
    await failing;
    // Killed, and still there.
    assert.ok(stuckProcesses(shim.pid) >= 4);

    const forked = stuckProcesses(shim.pid);
    await createAll(hung, mount.path, "second-");
    assert.equal(stuckProcesses(shim.pid), forked);
    await live(shim);

    const { code, signal } = await shim.stop();
    assert.deepEqual([code, signal], [0, null]);

    mount.abort();
    const next = await bed.startShim({ directory: dirname(shim.stateDirectory) });
    await live(next);
    await next.cri.StopPodSandbox({ pod_sandbox_id: hung.id });
    await next.cri.RemovePodSandbox({ pod_sandbox_id: hung.id });
    assert.equal((await next.stop()).code, 0);
  });
});

/** Processes of the helper that the kernel does not let end (state D). */
function stuckProcesses(shim: number): number {
  const stats = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      try {
        return {
          pid: Number(name),
          words: readFileSync(`/proc/${name}/stat`, "utf8").split(/\) /)[1]?.split(" "),
        };
      } catch {
        return { pid: Number(name), words: undefined };
      }
    });
  const helpers = new Set(stats.filter(({ words }) => Number(words?.[1]) === shim).map(({ pid }) => pid));
  return stats.filter(({ words }) => words?.[0] === "D" && helpers.has(Number(words[1]))).length;
}
