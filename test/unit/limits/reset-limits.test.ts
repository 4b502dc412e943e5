/** Limits that systemd resets: those of cgroup v2 with the systemd driver. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import type { LinuxContainerResources } from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { containerResources, podMetadata, runRequest } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";
import { turns, until, withResolvers } from "../../fakes/turns.js";

const often = { resyncIntervalMs: 5 };
const systemd: Partial<NodeFacts> = { cgroupDriver: "systemd", cgroupVersion: 2 };

const onSystemd = (options: Parameters<typeof TestShim.start>[0] = {}): Promise<TestShim> =>
  TestShim.start({ facts: { ...systemd, apiMinor: 43 }, ...options });

async function update(
  shim: TestShim,
  id: string,
  resources: Partial<LinuxContainerResources>,
): Promise<void> {
  const request = { container_id: id, linux: containerResources(resources), windows: null, annotations: {} };
  await shim.rpcs.UpdateContainerResources(request, shim.call());
}

async function run(shim: TestShim, resources: Partial<LinuxContainerResources>): Promise<string> {
  const linux = { resources: containerResources(resources), security_context: null };
  return shim.runContainer(undefined, "main", { linux });
}

/** Properties that were set of the container's scope, call by call. */
function setProperties(shim: TestShim, id: string): readonly unknown[] {
  return shim.world.journal.steps
    .filter(({ verb, args }) => verb === "setScopeProperties" && args[0] === id)
    .map(({ args }) => args[1]);
}

function unifiedOf(shim: TestShim, id: string): Readonly<Record<string, string>> | undefined {
  return shim.world.host.cgroups.get(id)?.unified;
}

const unified = { "memory.high": "4096", "memory.swap.max": "0", "memory.oom.group": "1" };
const asReset = { "memory.high": "max", "memory.swap.max": "max", "memory.oom.group": "0" };

describe("StartContainer", () => {
  test("makes limits properties of the scope before it writes the files, where the engine takes no annotations", async () => {
    await using shim = await onSystemd({ facts: { ...systemd, apiMinor: 42 } });
    const id = await run(shim, { unified });
    assert.deepEqual(setProperties(shim, id), [["MemoryHigh=4096", "MemorySwapMax=0"]]);
    assert.deepEqual(unifiedOf(shim, id), unified);
    const verbs = shim.world.journal.steps.map(({ verb }) => verb);
    assert.ok(verbs.indexOf("setScopeProperties") < verbs.indexOf("applyCgroup"));
  });

  test("sets no property that the scope was created with", async () => {
    await using shim = await onSystemd();
    const id = await run(shim, { unified });
    assert.deepEqual(setProperties(shim, id), []);
    assert.deepEqual(unifiedOf(shim, id), unified);
  });

  test("sets those that the runtime has set by fields of the engine", async () => {
    await using shim = await onSystemd();
    const id = await run(shim, { cpu_shares: "512", unified: { ...unified, "cpu.weight": "250" } });
    assert.deepEqual(setProperties(shim, id), [["CPUWeight=250"]]);
  });

  test("repairs the engine's limit of no swap", async () => {
    await using shim = await onSystemd({ facts: { ...systemd, apiMinor: 42 } });
    const memory = { memory_limit_in_bytes: "67108864" };
    assert.deepEqual(setProperties(shim, await run(shim, memory)), [["MemorySwapMax=0"]]);
  });

  for (const facts of [
    { ...systemd, cgroupVersion: 1 },
    { ...systemd, cgroupDriver: "cgroupfs" },
  ] as const) {
    const what = `${facts.cgroupDriver} and version ${facts.cgroupVersion}`;
    test(`sets no properties and writes nothing of the engine's with ${what}`, async () => {
      await using shim = await TestShim.start({ facts });
      const id = await run(shim, { memory_limit_in_bytes: "67108864" });
      assert.deepEqual(setProperties(shim, id), []);
      assert.equal(shim.world.host.cgroups.has(id), false);
    });
  }

  test("starts the container when only limits that every container gets cannot be set, and sets the others", async () => {
    await using shim = await TestShim.start({ facts: { cgroupVersion: 2 } });
    const { host } = shim.world;
    const apply = host.applyCgroup.bind(host);
    host.applyCgroup = (container, settings, signal) =>
      "memory.swap.max" in settings.unified
        ? Promise.reject(new ShimError("unsupported", "no swap accounting"))
        : apply(container, settings, signal);
    const id = await run(shim, { unified: { "memory.high": "4096", "memory.swap.max": "0" } });
    assert.deepEqual(unifiedOf(shim, id), { "memory.high": "4096" });
  });
});

describe("UpdateContainerResources", () => {
  test("sets changed limits as properties, back to the first value, too", async () => {
    await using shim = await onSystemd();
    const id = await run(shim, { unified });
    for (const high of ["8192", "4096"]) await update(shim, id, { unified: { "memory.high": high } });
    assert.deepEqual(setProperties(shim, id), [
      ["MemoryHigh=8192", "MemorySwapMax=0"],
      ["MemoryHigh=4096", "MemorySwapMax=0"],
    ]);
    assert.deepEqual(unifiedOf(shim, id), unified);
  });

  test("sets no swap for a container that gets its memory limit now", async () => {
    await using shim = await onSystemd();
    const id = await run(shim, {});
    await update(shim, id, { memory_limit_in_bytes: "67108864" });
    assert.deepEqual(setProperties(shim, id), [["MemorySwapMax=0"]]);
  });
});

describe("after systemd has loaded its units again", () => {
  test("what is no property is written again, and what turned out to be none is made one", async () => {
    await using shim = await onSystemd(often);
    const id = await run(shim, { unified });
    const { host } = shim.world;
    // As of an engine that has lost one of the annotations.
    host.cgroups.set(id, { unified: { ...asReset, "memory.high": "4096" }, hugepages: [] });
    host.unitsMark = "2";
    await until("its limits are in force", () => unifiedOf(shim, id)?.["memory.oom.group"] === "1");
    assert.deepEqual(unifiedOf(shim, id), unified);
    assert.deepEqual(setProperties(shim, id), [["MemorySwapMax=0"]]);
  });

  test("limits are compared twice: systemd may still be at it", async () => {
    await using shim = await onSystemd(often);
    const id = await run(shim, { unified });
    const { host } = shim.world;
    let looks = 0;
    const present = host.presentCgroup.bind(host);
    host.presentCgroup = async (container) => {
      const found = await present(container);
      looks += 1;
      if (looks === 1) host.cgroups.set(id, { unified: asReset, hugepages: [] });
      return found;
    };
    host.unitsMark = "2";
    await until("they are in force", () => looks > 1 && unifiedOf(shim, id)?.["memory.high"] === "4096");
  });

  test("without a reload another program's limits stay", async () => {
    await using shim = await onSystemd(often);
    const id = await run(shim, { unified });
    const { host } = shim.world;
    let marks = 0;
    host.unitsLoaded = () => Promise.resolve(String((marks += 1) > 0));
    await until("the comparisons after the start are over", () => marks > 5);
    host.cgroups.set(id, { unified: asReset, hugepages: [] });
    marks = 0;
    await until("there were more of them", () => marks > 5);
    assert.deepEqual(unifiedOf(shim, id), asReset);
  });

  test("the engine's limit of no swap is repaired in containers of other programs, too", async () => {
    await using shim = await onSystemd(often);
    const id = await run(shim, { memory_limit_in_bytes: "67108864" });
    await shim.services.records.containers.remove(id);
    const { host } = shim.world;
    host.cgroups.set(id, { unified: { "memory.swap.max": "max" }, hugepages: [] });
    host.unitsMark = "2";
    await until("it may not swap", () => unifiedOf(shim, id)?.["memory.swap.max"] === "0");
    assert.deepEqual(setProperties(shim, id), [["MemorySwapMax=0"]]);
  });
});

test("limits that systemd overwrote after StartContainer had written them are in force a comparison later", async () => {
  await using shim = await onSystemd(often);
  let marks = 0;
  const { host } = shim.world;
  host.unitsLoaded = () => Promise.resolve(String((marks += 1) > 0));
  await until("the comparisons after the connect are over", () => marks > 5);
  const apply = host.applyCgroup.bind(host);
  let count = 0;
  host.applyCgroup = async (container, settings, signal) => {
    await apply(container, settings, signal);
    count += 1;
    if (count === 1) host.cgroups.set(container.id, { unified: asReset, hugepages: [] });
  };
  const id = await run(shim, { unified: { "memory.oom.group": "1" } });
  await until("its limits are in force", () => unifiedOf(shim, id)?.["memory.oom.group"] === "1");
});

describe("comparisons end", () => {
  /** The marks that were read: one per comparison. */
  function countComparisons(shim: TestShim): () => number {
    const { host } = shim.world;
    let count = 0;
    host.unitsLoaded = () => {
      count += 1;
      return Promise.resolve(host.unitsMark);
    };
    return () => count;
  }

  async function comparisons(count: () => number, more = 10): Promise<void> {
    const end = count() + more;
    await until(`there were ${more} comparisons`, () => count() >= end);
  }

  for (const [name, value, shown, reset] of [
    ["memory.high", "10000", "8192", "max"],
    ["memory.swap.max", "4097", "4096", "max"],
    ["cpu.max", "max", "max 100000", "50000 100000"],
    ["cpuset.cpus", "0,1,2", "0-2", ""],
  ] as const) {
    test(`for a ${name} of ${value} that the kernel shows as ${shown}: one more after a reset`, async () => {
      await using shim = await onSystemd(often);
      const { host } = shim.world;
      const present = host.presentCgroup.bind(host);
      host.presentCgroup = async (container) => {
        const found = await present(container);
        if (found?.unified[name] !== value) return found;
        return { ...found, unified: { ...found.unified, [name]: shown } };
      };
      const count = countComparisons(shim);
      const id = await run(shim, { unified: { [name]: value } });
      const atStart = setProperties(shim, id).length;
      await comparisons(count);
      const before = setProperties(shim, id).length;
      assert.ok(before - atStart <= 1, `${before - atStart} calls`);
      host.cgroups.set(id, { unified: { [name]: reset }, hugepages: [] });
      host.unitsMark = "2";
      await comparisons(count);
      assert.equal(unifiedOf(shim, id)?.[name], value);
      assert.equal(setProperties(shim, id).length, before + 1);
    });
  }

  test("for a file that the host does not have, and one that cannot be written", async () => {
    await using shim = await onSystemd(often);
    const { host } = shim.world;
    const count = countComparisons(shim);
    const id = await run(shim, { unified: { "memory.high": "4096", "memory.low": "4096" } });
    host.cgroups.set(id, { unified: { "memory.high": "max" }, hugepages: [] });
    let tries = 0;
    host.applyCgroup = () => {
      tries += 1;
      return Promise.reject(new ShimError("invalid", "refused"));
    };
    host.unitsMark = "2";
    await comparisons(count);
    assert.equal(tries, 1);
    assert.deepEqual(setProperties(shim, id), [["MemoryHigh=4096"]]);
  });
});

test("calls for a pod wait for no systemctl of others", async () => {
  await using shim = await onSystemd(often);
  const { host } = shim.world;
  const ids: string[] = [];
  for (const name of ["a", "b", "c"]) {
    const linux = { resources: containerResources({ unified }), security_context: null };
    const pod = runRequest({ metadata: podMetadata(name) });
    ids.push(await shim.runContainer(await shim.runSandbox(pod), name, { linux }));
  }
  let hanging = 0;
  const { promise: gate, resolve: end } = withResolvers();
  host.setScopeProperties = () => {
    hanging += 1;
    return gate;
  };
  for (const id of ids) host.cgroups.set(id, { unified: asReset, hugepages: [] });
  host.unitsMark = "2";
  await until("two calls hang", () => hanging === 2);
  const free: string[] = [];
  for (const id of ids)
    void shim.services.locks.containers.run(id, shim.call().signal, () => Promise.resolve(free.push(id)));
  await turns(100);
  assert.equal(free.length, 1);
  end();
  const hasLimit = (id: string): boolean => unifiedOf(shim, id)?.["memory.high"] === "4096";
  await until("all have their limits", () => ids.every(hasLimit));
});

test("a server that only reads writes no limits and tells no errors", async () => {
  await using first = await onSystemd();
  const id = await run(first, { memory_limit_in_bytes: "67108864" });
  await first.sync.stop();
  const { host, journal } = first.world;
  host.cgroups.set(id, { unified: { "memory.swap.max": "max" }, hugepages: [] });
  journal.clear();
  let comparisons = 0;
  host.unitsLoaded = () => Promise.resolve(String((comparisons += 1)));
  await using second = await TestShim.start({ earlier: first.world, readOnly: true, resyncIntervalMs: 5 });
  const lists = (): number => journal.names("engine.listContainers").length;
  await until("the engine was compared", () => lists() > 5);
  await turns(100);
  assert.equal(comparisons, 0);
  assert.deepEqual(journal.names("host.setScopeProperties", "host.applyCgroup"), []);
  const found = second.log.lines.filter(({ level }) => level === "error");
  assert.deepEqual(found, []);
});
