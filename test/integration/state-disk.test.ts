/** The disk below the state directory is full, read-only or spoilt, while pods run. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, open, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { promisify } from "node:util";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const run = promisify(execFile);
const sizeBytes = 2 * 1024 * 1024;

async function mountReason(): Promise<string | false> {
  const skip = await reasonToSkip();
  if (skip !== false) return skip;
  try {
    await run("unshare", ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    return false;
  } catch {
    return "no right to mount";
  }
}

/** How often the log says that. */
function count(log: string, message: RegExp): number {
  return log.split("\n").filter((line) => message.test(line)).length;
}

describe("the disk of the state directory", { skip: await mountReason() }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let directory: string;
  let pod: Pod;
  let containerId: string;
  before(async () => {
    directory = await bed.newDirectory();
    const state = join(directory, "state");
    await mkdir(state, { mode: 0o700 });
    await run("mount", ["-t", "tmpfs", "-o", `size=${String(sizeBytes)}`, "tmpfs", state]);
    bed.onClose(() => run("umount", ["-l", state]));
    shim = await bed.startShim({ directory });
    pod = await bed.runPod(shim.cri);
    containerId = await pod.start();
  });

  async function podIsReady(): Promise<void> {
    const { status } = await shim.cri.PodSandboxStatus({ pod_sandbox_id: pod.id });
    assert.equal(status?.state, PodSandboxState.SANDBOX_READY);
  }

  /** What runs is not in need of the disk. */
  async function podsGoOn(): Promise<void> {
    const { cri } = shim;
    await podIsReady();
    assert.equal((await pod.containerStatus(containerId)).state, ContainerState.CONTAINER_RUNNING);
    assert.ok((await cri.ListPodSandbox({})).items.some(({ id }) => id === pod.id));
    assert.equal(await pod.shell(containerId, "echo fine"), "fine");
    assert.equal((await cri.Status({})).status?.conditions[0]?.status, true);
  }

  /** A new pod is refused with the reason, and nothing of it stays. */
  async function newPodsAreRefused(reason: RegExp): Promise<void> {
    const { cri } = shim;
    const before = await bed.ownContainers();
    for (let time = 0; time < 3; time += 1)
      await rejectsWith(cri.RunPodSandbox({ config: bed.podConfig() }), "UNAVAILABLE", reason);
    assert.deepEqual(await bed.ownContainers(), before);
  }

  test("full: pods go on, stop and are removed; new ones are refused with the reason, until there is room", async () => {
    const { cri } = shim;
    const doomed = await bed.runPod(cri);
    const inside = await doomed.start();
    const filler = join(shim.stateDirectory, "filler");
    const file = await open(filler, "w");
    try {
      for (;;) await file.write(Buffer.alloc(4096));
    } catch (error) {
      assert.equal((error as { code?: string }).code, "ENOSPC");
    } finally {
      await file.close();
    }
    await podsGoOn();
    await newPodsAreRefused(/no space left on device/);
    // Whatever could not be remembered: the pod ends all the same.
    await doomed.stop();
    assert.equal((await doomed.status()).state, PodSandboxState.SANDBOX_NOTREADY);
    await doomed.remove();
    assert.equal(await inspectContainer(inside), undefined);
    await rm(filler);
    await using fresh = await bed.runPod(cri);
    await fresh.start();
  });

  test("read-only: pods go on and stop; new ones are refused with the reason, until it can be written", async () => {
    const { cri } = shim;
    const doomed = await bed.runPod(cri);
    const inside = await doomed.start();
    // The history is written to a file that is closed a moment later.
    await until("the file system to be read-only", async () => {
      const remounted = run("mount", ["-o", "remount,ro", shim.stateDirectory]);
      return remounted.then(
        () => true,
        () => false,
      );
    });
    try {
      await podsGoOn();
      await newPodsAreRefused(/read-only file system/);
      await doomed.stop();
      assert.equal((await inspectContainer(inside))?.State.Running, false);
      assert.equal((await doomed.status()).state, PodSandboxState.SANDBOX_NOTREADY);
      // What is on record cannot be forgotten: kubelets repeat it.
      await rejectsWith(doomed.remove(), "UNAVAILABLE", /read-only file system/);
    } finally {
      await run("mount", ["-o", "remount,rw", shim.stateDirectory]);
    }
    await doomed.remove();
    assert.equal(await inspectContainer(inside), undefined);
    await using fresh = await bed.runPod(cri);
    await fresh.start();
  });

  /** Ways in which an entry of the checkpoint directory is no checkpoint. */
  const spoils: readonly (readonly [string, (path: string) => Promise<unknown>])[] = [
    ["empty", (path) => writeFile(path, "")],
    ["zeros", (path) => writeFile(path, Buffer.alloc(4096))],
    ["no JSON", (path) => writeFile(path, '{"version":"v1","na')],
    ["null", (path) => writeFile(path, "null")],
    ["another type", (path) => writeFile(path, '{"version":1,"name":[],"data":null,"checksum":"x"}')],
    ["no UTF-8", (path) => writeFile(path, Buffer.from([0x7b, 0xff, 0xfe, 0x7d]))],
    ["too large", (path) => writeFile(path, Buffer.alloc(512 * 1024, "a"))],
    ["a directory", (path) => mkdir(path)],
    ["a link to nowhere", (path) => symlink("/nowhere", path)],
    ["a link to a file of the node", (path) => symlink("/etc/passwd", path)],
    ["a FIFO", (path) => run("mkfifo", [path])],
    [
      "a socket",
      async (path) => {
        const server = createServer().listen(path);
        await once(server, "listening");
        server.unref();
      },
    ],
  ];

  for (const moment of ["while it runs", "when it starts"] as const) {
    test(`a checkpoint directory that is spoilt in every way ${moment}: each is reported once, and pods go on`, async () => {
      const checkpoints = join(shim.stateDirectory, "sandbox");
      if (moment === "when it starts") await shim.stop();
      const earlier = shim.log.length;
      for (const [index, [, spoil]] of spoils.entries()) {
        const digit = (index + 1).toString(16);
        await spoil(join(checkpoints, `${moment === "when it starts" ? "a" : "b"}${digit.repeat(63)}`));
      }
      if (moment === "when it starts") shim = await bed.startShim({ directory });
      const { cri } = shim;
      for (let time = 0; time < 3; time += 1) {
        const { items } = await cri.ListPodSandbox({});
        assert.deepEqual(
          items.map(({ id }) => id),
          [pod.id],
        );
      }
      const log = moment === "when it starts" ? shim.log : shim.log.slice(earlier);
      assert.equal(count(log, /corrupt checkpoint/), spoils.length, log);
      assert.deepEqual(await readdir(checkpoints), [pod.id]);
      await podIsReady();
    });
  }

  test("without its checkpoint, record and directories a pod goes on, stops and is removed", async () => {
    const { cri } = shim;
    for (const part of ["sandbox", "pods", "containers", "quarantine"])
      await rm(join(shim.stateDirectory, part), { recursive: true, force: true });
    await podIsReady();
    await using fresh = await bed.runPod(cri);
    await fresh.start();
    await cri.StopPodSandbox({ pod_sandbox_id: pod.id });
    await cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
    assert.equal(await inspectContainer(containerId), undefined);
  });

  test("nothing is left", async () => {
    assert.deepEqual(await bed.ownContainers(), []);
    assert.doesNotMatch(shim.log, /bug of dockershim|unhandled/i);
  });
});
