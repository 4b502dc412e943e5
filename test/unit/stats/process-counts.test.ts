import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readdirSync, statSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { programPath } from "../../../src/shim/native/programs.js";
import { DescriptorCache } from "../../../src/shim/stats/descriptor-cache.js";
import { CallLooks, countProcesses, PodLooks } from "../../../src/shim/stats/process-counts.js";

const signal = new AbortController().signal;
const files = new DescriptorCache();

describe("countProcesses()", () => {
  /** Of files and sockets that the child has open. */
  const [plain, sockets] = [60, 40];
  let pid = 0;
  let end: () => Promise<void>;
  before(async () => {
    const descriptors = Array.from({ length: plain }, () => openSync("/dev/null", "r"));
    const stdio = [...descriptors, ...Array.from({ length: sockets }, () => "pipe" as const)];
    // It opens nothing of its own when it starts, as programs with libraries do.
    const child = spawn(programPath("pause", process.arch, ""), { stdio });
    for (const descriptor of descriptors) closeSync(descriptor);
    await once(child, "spawn");
    pid = child.pid ?? 0;
    end = async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    };
  });
  after(() => end());

  const looked = (left: number) => {
    let taken = 0;
    return { looks: new PodLooks(left, (count) => void (taken += count)), taken: () => taken };
  };

  test("counts what processes have open, and takes no more looks than that", async () => {
    const { looks, taken } = looked(10_000);
    const reading = await countProcesses([pid, pid], files, looks, signal);
    const all = readdirSync(`/proc/${pid}/fd`).length;
    assert.ok(all >= plain + sockets);
    assert.deepEqual([reading.processes, reading.fileDescriptors], [2, 2 * all]);
    assert.equal(reading.sockets, 2 * sockets);
    assert.ok((reading.openFilesLimit ?? 0) > 0);
    assert.equal(taken(), 2 * (1 + all));
  });

  test("leaves out processes that have ended", async () => {
    const reading = await countProcesses([4_194_305, pid], files, looked(1000).looks, signal);
    assert.equal(reading.processes, 1);
  });

  test("looks at a limited number of descriptors, and uses the kernel's count for the rest", async () => {
    const { looks, taken } = looked(50);
    const reading = await countProcesses([pid, pid, pid], files, looks, signal);
    assert.equal(taken(), 50);
    assert.equal(reading.processes, 3);
    const counted = statSync(`/proc/${pid}/fd`).size;
    assert.equal(reading.fileDescriptors, Math.max(counted, 49));
    assert.ok(reading.sockets < 50);
  });

  test("ends with its signal", async () => {
    const stopped = AbortSignal.abort(new Error("enough"));
    await assert.rejects(countProcesses([pid], files, looked(50).looks, stopped), /enough/);
  });
});

describe("CallLooks", () => {
  test("gives each pod an equal part of the rest, and no pod more than its limit", () => {
    const looks = new CallLooks();
    assert.equal(looks.forPod(2).take(1e9), 10_000);
    // 190,000 are left.
    assert.equal(looks.forPod(100).take(1e9), 1_900);
    assert.equal(looks.forPod(99).take(10), 10);
    assert.equal(looks.forPod(98).take(1e9), 1_920);
  });

  test("all pods together get no more than a call may take", () => {
    const looks = new CallLooks();
    let taken = 0;
    for (let left = 5_000; left > 0; left -= 1) taken += looks.forPod(left).take(1e9);
    assert.ok(taken <= 200_000 + 5_000, String(taken));
  });
});
