import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cgroupSettings, needsCgroup } from "../../../src/shim/plan/cgroups.js";
import { createResources } from "../../../src/shim/plan/resources.js";
import { containerResources as resources } from "../../fakes/requests.js";
import { nodeFacts } from "./builders.js";
import { refusal } from "./errors.js";

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
    assert.throws(
      () => createResources(resources({ memory_swap_limit_in_bytes: "5" })),
      refusal("unsupported", field),
    );
    const below = resources({ memory_limit_in_bytes: "9", memory_swap_limit_in_bytes: "5" });
    assert.throws(() => createResources(below), refusal("invalid", field));
  });
});

describe("cgroupSettings()", () => {
  test("unified needs cgroup v2", () => {
    const request = resources({ unified: { "memory.high": "1" } });
    assert.throws(
      () => cgroupSettings(request, nodeFacts(), "config.linux.resources"),
      refusal("invalid", /^config\.linux\.resources\.unified\[memory\.high\]: the node has cgroup v1/),
    );
  });
  test("is undefined when nothing is asked", () => {
    assert.equal(cgroupSettings(resources(), nodeFacts(), "linux"), undefined);
    assert.equal(cgroupSettings(null, nodeFacts(), "linux"), undefined);
  });
});

test("needsCgroup() tells what kubelets send for every container from what a container needs", () => {
  const zero = { pageSize: "2MB", limitBytes: 0n };
  assert.equal(needsCgroup({ unified: { "memory.oom.group": "1" }, hugepages: [zero] }), false);
  const noSwap = { "memory.oom.group": "1", "memory.swap.max": "0" };
  assert.equal(needsCgroup({ unified: noSwap, hugepages: [zero] }), false);
  assert.equal(needsCgroup({ unified: { "memory.swap.max": "4096" }, hugepages: [] }), true);
  assert.equal(needsCgroup({ unified: { "memory.high": "1" }, hugepages: [] }), true);
  assert.equal(needsCgroup({ unified: {}, hugepages: [zero, { pageSize: "1GB", limitBytes: 1n }] }), true);
});
