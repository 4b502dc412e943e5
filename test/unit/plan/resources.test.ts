import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cgroupSettings, needsCgroup, splitByNeed } from "../../../src/shim/plan/cgroups.js";
import { createResources, planUpdate } from "../../../src/shim/plan/resources.js";
import { containerResources as resources } from "../../fakes/requests.js";
import { nodeFacts } from "./builders.js";
import { refusal } from "../../support/refusals.js";
import type { ResourceSnapshot } from "../../../src/domain/snapshot.js";
import { noResources } from "../../fakes/snapshots.js";

describe("createResources()", () => {
  for (const [memory, swap, expected] of [
    ["100", "0", { Memory: 100, MemorySwap: 100 }],
    ["100", "150", { Memory: 100, MemorySwap: 150 }],
    ["100", "-1", { Memory: 100, MemorySwap: -1 }],
    ["0", "0", {}],
    ["0", "-1", {}],
    ["-1", "0", {}],
  ] as const) {
    test(`memory ${memory}, swap ${swap}`, () => {
      const request = resources({ memory_limit_in_bytes: memory, memory_swap_limit_in_bytes: swap });
      assert.deepEqual(createResources(request), expected);
    });
  }
  test("refuses swap that Docker cannot limit", () => {
    const field = /^config\.linux\.resources\.memory_swap_limit_in_bytes: /;
    const alone = resources({ memory_swap_limit_in_bytes: "5" });
    assert.throws(() => createResources(alone), refusal("unsupported", field));
    const below = resources({ memory_limit_in_bytes: "9", memory_swap_limit_in_bytes: "5" });
    assert.throws(() => createResources(below), refusal("invalid", field));
  });
});

test("cgroupSettings() of unified needs cgroup v2", () => {
  const request = resources({ unified: { "memory.high": "1" } });
  const message = /^config\.linux\.resources\.unified\[memory\.high\]: the node has cgroup v1/;
  const settings = () => cgroupSettings(request, nodeFacts(), "config.linux.resources");
  assert.throws(settings, refusal("invalid", message));
});

test("needsCgroup() is false for the settings that kubelets send for every container", () => {
  const zero = { pageSize: "2MB", limitBytes: 0n };
  assert.equal(needsCgroup({ unified: { "memory.oom.group": "1" }, hugepages: [zero] }), false);
  const noSwap = { "memory.oom.group": "1", "memory.swap.max": "0" };
  assert.equal(needsCgroup({ unified: noSwap, hugepages: [zero] }), false);
  assert.equal(needsCgroup({ unified: { "memory.swap.max": "4096" }, hugepages: [] }), true);
  assert.equal(needsCgroup({ unified: { "memory.high": "1" }, hugepages: [] }), true);
  assert.equal(needsCgroup({ unified: {}, hugepages: [zero, { pageSize: "1GB", limitBytes: 1n }] }), true);
});

test("splitByNeed() tells what a container may run without from what it must have", () => {
  const [zero, some] = [0n, 1n].map((limitBytes) => ({ pageSize: "2MB", limitBytes }));
  assert.ok(zero !== undefined && some !== undefined);
  const unified = { "memory.oom.group": "1", "memory.swap.max": "0", "memory.high": "5" };
  assert.deepEqual(splitByNeed({ unified, hugepages: [zero, some] }), {
    needed: { unified: { "memory.high": "5" }, hugepages: [some] },
    others: { unified: { "memory.oom.group": "1", "memory.swap.max": "0" }, hugepages: [zero] },
  });
});

function current(memory: number, memorySwap: number): ResourceSnapshot {
  return { ...noResources, memory, memorySwap };
}

/** As the engine takes "no limit": so large that it limits nothing, and the kernel's own number. */
const lifted = 2 ** 62;
const unlimited = 2 ** 63 - 4096;

describe("planUpdate()", () => {
  test("changes nothing for zero and empty fields, nor for the OOM score", () => {
    for (const request of [resources({ oom_score_adj: "500" }), null])
      assert.deepEqual(planUpdate(request, current(10, 10), nodeFacts()), { body: {} });
  });

  for (const [what, memory, swap, before, expected] of [
    ["raises without swap", "20", "0", current(10, 10), { Memory: 20, MemorySwap: 20 }],
    ["lowers without swap", "5", "0", current(10, 10), { Memory: 5, MemorySwap: 5 }],
    ["first limit means no swap", "20", "0", current(0, 0), { Memory: 20, MemorySwap: 20 }],
    ["keeps the bytes of swap", "20", "0", current(10, 14), { Memory: 20, MemorySwap: 24 }],
    ["keeps unlimited swap", "20", "0", current(10, -1), { Memory: 20, MemorySwap: -1 }],
    ["takes the swap that is given", "20", "30", current(10, 10), { Memory: 20, MemorySwap: 30 }],
    ["swap alone comes with the memory in force", "0", "30", current(10, 10), { Memory: 10, MemorySwap: 30 }],
    ["lifts the limit of swap", "0", "-1", current(10, 14), { Memory: 10, MemorySwap: unlimited }],
    ["keeps lifted swap", "20", "0", current(10, unlimited), { Memory: 20, MemorySwap: unlimited }],
    ["lifts a limit without swap", "-1", "0", current(10, 10), { Memory: lifted, MemorySwap: lifted }],
    ["lifts a limit with unlimited swap", "-1", "0", current(10, -1), { Memory: lifted, MemorySwap: -1 }],
    ["lifts both limits", "-1", "-1", current(10, 14), { Memory: lifted, MemorySwap: unlimited }],
    ["lifts a limit that was lifted: nothing to do", "-1", "0", current(lifted, lifted), {}],
    ["a limit after a lifted one", "20", "0", current(lifted, lifted), { Memory: 20, MemorySwap: 20 }],
    ["unlimited memory of an unlimited container is what it has", "-1", "0", current(0, 0), {}],
    ["unlimited swap of an unlimited container is what it has", "0", "-1", current(0, 0), {}],
  ] as const) {
    test(what, () => {
      const request = resources({ memory_limit_in_bytes: memory, memory_swap_limit_in_bytes: swap });
      assert.deepEqual(planUpdate(request, before, nodeFacts()).body, expected);
    });
  }

  for (const [what, before, kind] of [
    ["below memory", current(10, 10), "invalid"],
    ["without a limit of memory", current(0, 0), "unsupported"],
    ["for memory that is not limited any more", current(lifted, lifted), "unsupported"],
  ] as const) {
    test(`refuses a limit of swap ${what}`, () => {
      const request = resources({ memory_swap_limit_in_bytes: "5" });
      assert.throws(() => planUpdate(request, before, nodeFacts()), refusal(kind, /^linux\.memory_swap/));
    });
  }

  test("sends CPU fields, and leaves the other settings to the cgroup", () => {
    const request = resources({ cpu_quota: "-1", cpuset_cpus: "0-1", unified: { "memory.high": "5" } });
    assert.deepEqual(planUpdate(request, current(0, 0), nodeFacts({ cgroupVersion: 2 })), {
      body: { CpuQuota: -1, CpusetCpus: "0-1" },
      cgroup: { unified: { "memory.high": "5" }, hugepages: [] },
    });
  });
});
