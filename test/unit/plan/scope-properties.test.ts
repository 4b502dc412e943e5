import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LinuxContainerResources } from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import {
  lostLimits,
  scopeProperties,
  systemdResetsCgroups,
} from "../../../src/shim/plan/scope-properties.js";
import { containerResources } from "../../fakes/requests.js";
import { containerContext, containerLinux, createRequest, nodeFacts } from "./builders.js";

const most = "uint64 18446744073709551615";

describe("scopeProperties()", () => {
  for (const [file, value, ...expected] of [
    ["memory.high", "52428800", ["MemoryHigh", "MemoryHigh=52428800", "uint64 52428800"]],
    ["memory.high", "max\n", ["MemoryHigh", "MemoryHigh=infinity", most]],
    ["memory.low", "0", ["MemoryLow", "MemoryLow=0", "uint64 0"]],
    ["memory.min", "4096", ["MemoryMin", "MemoryMin=4096", "uint64 4096"]],
    ["memory.max", "max", ["MemoryMax", "MemoryMax=infinity", most]],
    ["memory.swap.max", "0", ["MemorySwapMax", "MemorySwapMax=0", "uint64 0"]],
    ["pids.max", "100", ["TasksMax", "TasksMax=100", "uint64 100"]],
    ["cpu.weight", "250", ["CPUWeight", "CPUWeight=250", "uint64 250"]],
    ["cpu.weight", "10000", ["CPUWeight", "CPUWeight=10000", "uint64 10000"]],
    ["cpu.max", "25000 100000", ["CPUQuotaPerSecUSec", "CPUQuota=25%", "uint64 250000"]],
    ["cpu.max", "150000", ["CPUQuotaPerSecUSec", "CPUQuota=150%", "uint64 1500000"]],
    ["cpu.max", "12345 100000", ["CPUQuotaPerSecUSec", "CPUQuota=13%", "uint64 130000"]],
    ["cpu.max", "max", ["CPUQuotaPerSecUSec", "CPUQuota=", most]],
    [
      "cpu.max",
      "max 50000",
      ["CPUQuotaPerSecUSec", "CPUQuota=", most],
      ["CPUQuotaPeriodUSec", "CPUQuotaPeriodSec=50000us"],
    ],
    ["cpuset.cpus", "0-1,3", ["AllowedCPUs", "AllowedCPUs=0-1,3"]],
    ["cpuset.mems", "0", ["AllowedMemoryNodes", "AllowedMemoryNodes=0"]],
  ] as const) {
    test(`${file} ${JSON.stringify(value)}`, () => {
      const found = scopeProperties({ [file]: value }).map(({ name, assignment, annotation = [] }) =>
        [name, assignment].concat(annotation),
      );
      assert.deepEqual(found, expected);
    });
  }

  test("knows none for other files, nor for values that the kernel alone knows or that systemd refuses", () => {
    for (const [file = "", ...values] of [
      ...["memory.oom.group", "memory.swap.high", "cpu.idle", "toString"].map((name) => [name, "1"]),
      ["io.max", "8:0 rbps=1"],
      ["memory.high", "50M", "0"],
      ["memory.max", "0"],
      ["memory.min", "-1", "18446744073709551616"],
      ["cpu.weight", "0", "10001", "max"],
      ["pids.max", "0"],
      ["cpu.max", "0 100000", "1 0", ""],
      ["cpuset.cpus", "", "0 --runtime"],
    ])
      for (const value of values)
        assert.deepEqual(scopeProperties({ [file]: value }), [], `${file} ${value}`);
  });
});

test("systemdResetsCgroups(): only with its own driver, and cgroup v2", () => {
  assert.equal(systemdResetsCgroups({ cgroupDriver: "systemd", cgroupVersion: 2 }), true);
  assert.equal(systemdResetsCgroups({ cgroupDriver: "systemd", cgroupVersion: 1 }), false);
  for (const cgroupDriver of ["cgroupfs", "none"] as const)
    assert.equal(systemdResetsCgroups({ cgroupDriver, cgroupVersion: 2 }), false);
});

test("lostLimits() is the swap limit of a container that has memory and no swap", () => {
  const none = { "memory.swap.max": "0" };
  assert.deepEqual(lostLimits({ memory: 5, memorySwap: 5 }), none);
  assert.deepEqual(lostLimits({ memory: 5, memorySwap: 6 }), {});
  assert.deepEqual(lostLimits({ memory: 5, memorySwap: -1 }), {});
  assert.deepEqual(lostLimits({ memory: 0, memorySwap: 0 }), {});
});

describe("a new container has its limits as properties of its scope", () => {
  const reset: Partial<NodeFacts> = { apiMinor: 43, cgroupDriver: "systemd", cgroupVersion: 2 };

  function annotations(resources: Partial<LinuxContainerResources>, facts = reset, allowed: string[] = []) {
    const request = createRequest(
      { linux: containerLinux({ resources: containerResources(resources) }) },
      { annotations: { "org.systemd.property.MemorySwapMax": "uint64 5" } },
    );
    const context = { facts: nodeFacts(facts), oneContainerdShimPerPod: false, allowedAnnotations: allowed };
    return planContainer(request, containerContext(context)).body.HostConfig.Annotations;
  }

  const unified = { "memory.high": "4096", "memory.swap.max": "0", "memory.oom.group": "1" };
  const expected = {
    "org.systemd.property.MemoryHigh": "uint64 4096",
    "org.systemd.property.MemorySwapMax": "uint64 0",
  };

  test("where the engine takes annotations and systemd resets limits", () => {
    assert.deepEqual(annotations({ unified }), expected);
    assert.equal(annotations({ unified }, { ...reset, apiMinor: 42 }), undefined);
    assert.equal(annotations({ unified }, { ...reset, cgroupDriver: "cgroupfs" }), undefined);
    // No annotation of the pod changes them.
    assert.deepEqual(annotations({ unified }, reset, ["org.systemd.property."]), expected);
  });

  test("with the engine's limit of no swap, of which the runtime makes no property", () => {
    const swap = { "org.systemd.property.MemorySwapMax": "uint64 0" };
    assert.deepEqual(annotations({ memory_limit_in_bytes: "100" }), swap);
    assert.equal(annotations({ memory_limit_in_bytes: "100", memory_swap_limit_in_bytes: "200" }), undefined);
  });

  test("but for those that the runtime sets by the engine's own fields", () => {
    assert.equal(
      annotations({
        cpu_shares: "512",
        cpu_quota: "50000",
        memory_limit_in_bytes: "100",
        memory_swap_limit_in_bytes: "200",
        unified: { "cpu.weight": "250", "cpu.max": "1", "memory.max": "50", "memory.swap.max": "0" },
      }),
      undefined,
    );
  });
});
