/** Each field in flight with its switch on, and without effect while it is off. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import {
  cgroupMountOptions,
  execEnvironment,
  requestedUlimits,
  fieldsInFlight,
  type FieldSwitches,
} from "../../../src/shim/plan/fields-in-flight.js";
import { containerContext, containerLinux, containerSecurity, createRequest, nodeFacts } from "./builders.js";

const on: FieldSwitches = { ulimits: true, cgroupMountMode: true, execEnvs: true };
const modern = nodeFacts({ apiMinor: 48, cgroupVersion: 2 });
const ulimits = [{ name: "nofile", soft: "1024", hard: "-1" }];
const envs = [
  { key: "A", value: Buffer.from("1=2") },
  { key: "A", value: Buffer.from("") },
];

test("fields whose switches are off, as all are, change nothing", () => {
  assert.deepEqual(Object.values(fieldsInFlight), [false, false, false]);
  const plan = (fields: object): unknown => {
    const security_context = { ...containerSecurity(), ...fields };
    const request = createRequest({ linux: containerLinux({ security_context }) });
    return planContainer(request, containerContext({ facts: modern })).body;
  };
  assert.deepEqual(plan({ ulimits, cgroup_mount_mode: "WRITABLE" }), plan({}));
  assert.deepEqual(execEnvironment({ envs }), {});
});

test("ulimits become Docker's, or are refused by field", () => {
  assert.deepEqual(requestedUlimits({ ulimits }, on), [{ Name: "nofile", Soft: 1024, Hard: -1 }]);
  for (const none of [{}, null]) assert.deepEqual(requestedUlimits(none, on), []);
  for (const soft of ["-2", "9007199254740993", "x"]) {
    const refused = { kind: "invalid", message: /ulimits\[0\]\.soft/ };
    assert.throws(() => requestedUlimits({ ulimits: [{ name: "core", soft, hard: "1" }] }, on), refused);
  }
});

test("cgroup_mount_mode is a security option of Docker Engine 28 with cgroup v2; WRITABLE is refused elsewhere", () => {
  const options = (cgroup_mount_mode?: "WRITABLE" | "READ_ONLY" | "DEFAULT", facts = modern) =>
    cgroupMountOptions(cgroup_mount_mode === undefined ? {} : { cgroup_mount_mode }, facts, on);
  assert.deepEqual(options("WRITABLE"), ["writable-cgroups=true"]);
  assert.deepEqual(options("READ_ONLY"), ["writable-cgroups=false"]);
  assert.deepEqual([options("DEFAULT"), options()], [[], []]);
  for (const other of [
    { apiMinor: 47, cgroupVersion: 2 } as const,
    { apiMinor: 48, cgroupVersion: 1 } as const,
  ]) {
    assert.throws(() => options("WRITABLE", nodeFacts(other)), { kind: "unsupported" });
    assert.deepEqual(options("READ_ONLY", nodeFacts(other)), []);
  }
});

test("envs of an exec are added to those of the container, and refused without their values unless UTF-8", () => {
  assert.deepEqual(execEnvironment({ envs }, on), { env: ["A=1=2", "A="] });
  for (const none of [{ envs: [] }, {}]) assert.deepEqual(execEnvironment(none, on), {});
  const refused = { kind: "unsupported", message: /envs\[0\]\.value/ };
  assert.throws(() => execEnvironment({ envs: [{ key: "A", value: Buffer.from([0xff]) }] }, on), refused);
});
