/** Each field in flight with its switch on, and without effect while it is off. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fieldsInFlight, type FieldSwitches } from "../../../src/domain/fields-in-flight.js";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import {
  cgroupMountOptions,
  execEnvironment,
  requestedUlimits,
} from "../../../src/shim/plan/fields-in-flight.js";
import { containerContext, containerLinux, containerSecurity, createRequest, nodeFacts } from "./builders.js";

const on: FieldSwitches = { ulimits: true, cgroupMountMode: true, execEnvs: true };
const modern = nodeFacts({ apiMinor: 48, cgroupVersion: 2 });
const ulimits = [{ name: "nofile", soft: "1024", hard: "-1" }];
const envs = [
  { key: "A", value: Buffer.from("1=2") },
  { key: "A", value: Buffer.from("") },
];

test("all switches are off", () => {
  assert.deepEqual(Object.values(fieldsInFlight), [false, false, false]);
});

test("fields whose switches are off change nothing", () => {
  const plan = (fields: object): unknown => {
    const security_context = { ...containerSecurity(), ...fields };
    const request = createRequest({ linux: containerLinux({ security_context }) });
    return planContainer(request, containerContext({ facts: modern })).body;
  };
  assert.deepEqual(plan({ ulimits, cgroup_mount_mode: "WRITABLE" }), plan({}));
  assert.deepEqual(execEnvironment({ envs }), {});
});

describe("ulimits", () => {
  test("become Docker's", () => {
    assert.deepEqual(requestedUlimits({ ulimits }, on), [{ Name: "nofile", Soft: 1024, Hard: -1 }]);
    assert.deepEqual(requestedUlimits({}, on), []);
    assert.deepEqual(requestedUlimits(null, on), []);
  });

  for (const soft of ["-2", "9007199254740993", "x"]) {
    test(`refuses ${soft}`, () => {
      assert.throws(() => requestedUlimits({ ulimits: [{ name: "core", soft, hard: "1" }] }, on), {
        kind: "invalid",
        message: /ulimits\[0\]\.soft/,
      });
    });
  }
});

describe("cgroup_mount_mode", () => {
  test("is a security option of Docker Engine 28 with cgroup version 2", () => {
    assert.deepEqual(cgroupMountOptions({ cgroup_mount_mode: "WRITABLE" }, modern, on), [
      "writable-cgroups=true",
    ]);
    assert.deepEqual(cgroupMountOptions({ cgroup_mount_mode: "READ_ONLY" }, modern, on), [
      "writable-cgroups=false",
    ]);
    assert.deepEqual(cgroupMountOptions({ cgroup_mount_mode: "DEFAULT" }, modern, on), []);
    assert.deepEqual(cgroupMountOptions({}, modern, on), []);
  });

  test("WRITABLE is refused elsewhere", () => {
    for (const facts of [
      nodeFacts({ apiMinor: 47, cgroupVersion: 2 }),
      nodeFacts({ apiMinor: 48, cgroupVersion: 1 }),
    ]) {
      assert.throws(() => cgroupMountOptions({ cgroup_mount_mode: "WRITABLE" }, facts, on), {
        kind: "unsupported",
      });
      assert.deepEqual(cgroupMountOptions({ cgroup_mount_mode: "READ_ONLY" }, facts, on), []);
    }
  });
});

describe("envs of an exec", () => {
  test("are added to those of the container, in order", () => {
    assert.deepEqual(execEnvironment({ envs }, on), { env: ["A=1=2", "A="] });
    assert.deepEqual(execEnvironment({ envs: [] }, on), {});
    assert.deepEqual(execEnvironment({}, on), {});
  });

  test("that are not UTF-8 are refused without their values", () => {
    assert.throws(() => execEnvironment({ envs: [{ key: "A", value: Buffer.from([0xff]) }] }, on), {
      kind: "unsupported",
      message: /envs\[0\]\.value/,
    });
  });
});
