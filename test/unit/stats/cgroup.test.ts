import assert from "node:assert/strict";
import { appendFile, rm, writeFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ResourceReading } from "../../../src/domain/resource-reading.js";
import { toEngineReading } from "../../../src/shim/engine/stats.js";
import { Cgroup } from "../../../src/shim/stats/cgroup/cgroup.js";
import { DescriptorCache } from "../../../src/shim/stats/descriptor-cache.js";
import { layOut, type LaidOut, readOnce } from "./golden-cgroup.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

function open({ path, directories }: LaidOut, startedAtMs = 0): Cgroup & Disposable {
  const cgroup = new Cgroup(path, directories, new DescriptorCache(), startedAtMs);
  return Object.assign(cgroup, { [Symbol.dispose]: () => cgroup.close() });
}

const none = { totalMicroseconds: 0, avg10: 0, avg60: 0, avg300: 0 };
/** Values of the recorded container's memory that are equal on both hosts. */
const recordedMemory = {
  limit: 64 * 1024 * 1024,
  rss: 221_184,
  majorPageFaults: 0,
  pressure: { some: none, full: none },
  swap: 0,
  swapLimit: 32 * 1024 * 1024,
};

/** A reading of a container that is 10 s old, without details and without its time. */
function lightReading(files: LaidOut): Partial<ResourceReading> {
  using cgroup = open(files);
  const { timestamp, ...rest } = cgroup.read({ details: false }, 10_000) ?? {};
  assert.ok(timestamp !== undefined && timestamp > 0n);
  return rest;
}

describe("Cgroup.read() of the recorded files", () => {
  test("version 1, with the pressure of the hierarchy of version 2 beside it", async () => {
    await using files = await layOut("v1");
    assert.deepEqual(lightReading(files), {
      cpu: {
        usageNanoseconds: 1_142_346_587,
        pressure: {
          some: { totalMicroseconds: 4_242_279, avg10: 17.03, avg60: 5.97, avg300: 1.38 },
          full: { totalMicroseconds: 4_230_799, avg10: 16.97, avg60: 5.94, avg300: 1.38 },
        },
      },
      nanoCores: 114_234_659,
      memory: { ...recordedMemory, usage: 9_474_048, workingSet: 9_474_048 - 8_146_944, pageFaults: 1389 },
      ioPressure: { some: { ...none, totalMicroseconds: 431 }, full: { ...none, totalMicroseconds: 431 } },
      tasks: 4,
    });
  });

  test("version 2", async () => {
    await using files = await layOut("v2");
    // The recorded container had all its files in memory: give it a page cache, too.
    const stat = files.golden.container[""]?.["memory.stat"] ?? "";
    await writeFile(
      `${files.directories.get("") ?? ""}/memory.stat`,
      stat.replace("inactive_file 0", "inactive_file 4096000"),
    );
    assert.deepEqual(lightReading(files), {
      cpu: {
        usageNanoseconds: 5_263_290_000,
        pressure: {
          some: { totalMicroseconds: 14_544_724, avg10: 60.8, avg60: 19.17, avg300: 4.45 },
          full: { totalMicroseconds: 14_450_025, avg10: 60.62, avg60: 19.05, avg300: 4.42 },
        },
      },
      nanoCores: 526_329_000,
      memory: { ...recordedMemory, usage: 8_843_264, workingSet: 8_843_264 - 4_096_000, pageFaults: 1217 },
      ioPressure: { some: none, full: none },
      tasks: 4,
    });
  });

  test("details of version 1", async () => {
    await using files = await layOut("v1");
    using cgroup = open(files);
    const { details, cpu, memory } = cgroup.read({ details: true }) ?? {};
    const none = { hugepages: [], blocks: [], processes: undefined };
    assert.deepEqual(details, { cgroupPath: files.path, tasksLimit: 100, ...none });
    const times = [cpu?.userNanoseconds, cpu?.systemNanoseconds, cpu?.throttledNanoseconds];
    assert.deepEqual(times, [1_100_000_000, 30_000_000, 4_366_604_020]);
    assert.deepEqual([cpu?.periods, cpu?.throttledPeriods], [58, 55]);
    assert.deepEqual([memory?.cache, memory?.kernel, memory?.highestUsage], [8_192_000, 663_552, 9_674_752]);
    assert.deepEqual([memory?.limitHits, memory?.ownPageFaults, memory?.oomKills], [0, 1389, 0]);
    assert.equal(memory?.reservation, undefined, "the highest number stands for none");
  });

  test("details of version 2", async () => {
    await using files = await layOut("v2");
    const directory = files.directories.get("") ?? "";
    await writeFile(`${directory}/io.stat`, "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n7:0 \n");
    await appendFile(`${directory}/memory.low`, "");
    using cgroup = open(files);
    const { details, cpu, memory } = cgroup.read({ details: true }) ?? {};
    assert.equal(details?.tasksLimit, 100);
    const unused = { usage: 0, highestUsage: undefined };
    assert.deepEqual(
      details.hugepages,
      ["1GB", "2MB"].map((pageSize) => ({ pageSize, ...unused })),
    );
    const device = { device: "8:0", major: 8, minor: 0 };
    assert.deepEqual(details.blocks, [
      { ...device, operation: "Read", bytes: 1, operations: 3 },
      { ...device, operation: "Write", bytes: 2, operations: 4 },
      { ...device, operation: "Discard", bytes: 5, operations: 6 },
    ]);
    assert.deepEqual([cpu?.userNanoseconds, cpu?.throttledNanoseconds], [3_829_032_000, 17_274_045_000]);
    const { cache, kernel, highestUsage, oomKills } = memory ?? {};
    assert.deepEqual([cache, kernel, highestUsage, oomKills], [8_192_000, 430_080, 11_272_192, 0]);
  });

  for (const version of ["v1", "v2"] as const) {
    test(`${version} has the values of the engine for the same container`, async () => {
      await using files = await layOut(version);
      using cgroup = open(files);
      const own = cgroup.read({ details: true });
      const engine = toEngineReading(files.golden.engineStats)?.resources;
      assert.ok(own !== undefined && engine !== undefined);
      for (const key of [
        "usage",
        "workingSet",
        "limit",
        "rss",
        "pageFaults",
        "cache",
        "mappedFiles",
      ] as const)
        assert.equal(engine.memory?.[key], own.memory?.[key], key);
      assert.equal(engine.tasks, own.tasks);
      assert.equal(engine.details?.tasksLimit, own.details?.tasksLimit);
      // It went on a little between the two recordings.
      const between = (engine.cpu?.usageNanoseconds ?? 0) - (own.cpu?.usageNanoseconds ?? 0);
      assert.ok(between >= 0 && between < 1e9, String(between));
    });
  }

  test("of the pod, with page faults of the containers below", async () => {
    await using files = await layOut("v1");
    const reading = readOnce(files, { ofPod: true });
    assert.deepEqual([reading.cpu?.usageNanoseconds, reading.tasks], [1_176_771_702, 5]);
    const { pageFaults, limit, swapLimit } = reading.memory ?? {};
    assert.deepEqual([pageFaults, limit, swapLimit], [2548, undefined, undefined]);
  });

  test("is undefined once the cgroup is gone, and once it was closed", async () => {
    await using files = await layOut("v2");
    using cgroup = open(files);
    assert.ok(cgroup.read({ details: false }));
    cgroup.close();
    assert.equal(cgroup.read({ details: false }), undefined);
    await rm(files.root, { recursive: true });
    using later = open(files);
    assert.equal(later.read({ details: true }), undefined);
  });

  test("leaves out what a kernel lacks: swap accounting, pressure, fields of memory.stat", async () => {
    await using files = await layOut("v2");
    const directory = files.directories.get("") ?? "";
    for (const name of ["cpu.pressure", "memory.swap.current", "memory.swap.max", "memory.peak"])
      await rm(`${directory}/${name}`);
    const stat = files.golden.container[""]?.["memory.stat"] ?? "";
    await writeFile(`${directory}/memory.stat`, stat.replace(/^kernel .*\n/m, "").replace(/^anon .*\n/m, ""));
    using cgroup = open(files);
    const { cpu, memory } = cgroup.read({ details: true }) ?? {};
    for (const lacking of [cpu?.pressure, memory?.swap, memory?.rss, memory?.highestUsage])
      assert.equal(lacking, undefined);
    assert.equal(memory?.kernel, 65_536 + 81_920 + 144 + 175_856);
  });

  test("lists its processes, those of other PID namespaces left out", async () => {
    await using files = await layOut("v2");
    await writeFile(`${files.directories.get("") ?? ""}/cgroup.procs`, "0\n17\n0\n23\n");
    using cgroup = open(files);
    assert.deepEqual(cgroup.processes(), [17, 23]);
  });
});

test("DescriptorCache keeps no more descriptors than its limit and reads the rest all the same", async () => {
  await using laidOut = await layOut("v1");
  const files = new DescriptorCache(2);
  const cgroup = new Cgroup(laidOut.path, laidOut.directories, files, 0);
  const readings = [1, 2, 3].map(() => cgroup.read({ details: false }, 5));
  assert.equal(readings[2]?.memory?.usage, 9_474_048);
  assert.equal(files.keepOne(), false);
  cgroup.close();
  assert.equal(files.keepOne(), true);
});

test("DescriptorCache reads whole lines of a list until its limit", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "list");
  const lines = Array.from({ length: 50_000 }, (_, index) => `line ${index}\n`);
  writeFileSync(path, lines.join(""));
  const files = new DescriptorCache();
  assert.equal(files.readOnce(path), lines.join(""));
  const part = files.readOnce(path, 64 * 1024) ?? "";
  assert.ok(part.length <= 128 * 1024 && part.endsWith("\n"));
  assert.ok(lines.join("").startsWith(part));
});

test("DescriptorCache does not read a list without an end", () => {
  const text = new DescriptorCache().readOnce("/dev/zero");
  assert.equal(text, "");
});
