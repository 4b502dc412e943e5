import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Mount } from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { planMounts, type MountContext } from "../../../src/shim/plan/mounts.js";
import { mount, nodeFacts } from "./builders.js";
import { refusal } from "../../support/refusals.js";

const selinux = nodeFacts({ security: { ...nodeFacts().security, selinux: true } });
const modern = nodeFacts({ apiMinor: 44 });

function plan(
  overrides: Partial<Mount>,
  facts: NodeFacts = nodeFacts(),
  context: Partial<MountContext> = {},
) {
  const hostPaths = new Map([[overrides.host_path ?? "/srv/data", "present"]] as const);
  return planMounts([mount(overrides)], { facts, hostPaths, ...context });
}

describe("planMounts()", () => {
  const target = { Type: "bind", Source: "/srv/data", Target: "/data" };
  const readOnly = { ...target, ReadOnly: true };
  const plain = { ...readOnly, BindOptions: { Propagation: "rslave", ReadOnlyNonRecursive: true } };
  const recursive = { ...readOnly, BindOptions: { ReadOnlyForceRecursive: true } };
  const relabelled = { selinux_relabel: true, readonly: true, propagation: 2 } as const;
  for (const [what, overrides, facts, expected] of [
    ["private says nothing", {}, nodeFacts(), { Mounts: [target] }],
    ["read-only before API 1.44", { readonly: true }, nodeFacts(), { Mounts: [readOnly] }],
    ["read-only from API 1.44 on is plain", { readonly: true, propagation: 1 }, modern, { Mounts: [plain] }],
    ["recursive read-only", { readonly: true, recursive_read_only: true }, modern, { Mounts: [recursive] }],
    ["relabel without SELinux", { selinux_relabel: true }, nodeFacts(), { Mounts: [target] }],
    ["relabel with SELinux", relabelled, selinux, { Binds: ["/srv/data:/data:ro,Z,rshared"] }],
    ["colons are text", { host_path: "/a:b" }, nodeFacts(), { Mounts: [{ ...target, Source: "/a:b" }] }],
  ] as const) {
    test(what, () => {
      assert.deepEqual(plan(overrides, facts), expected);
    });
  }

  for (const [what, paths, sources] of [
    ["the last of one path", ["/data", "/data"], ["/b"]],
    ["the last of one path that is written differently", ["/data", "/data//x/.././"], ["/b"]],
    ["both of paths of which one is below the other, in order", ["/x/y", "/x"], ["/a", "/b"]],
  ] as const) {
    test(`takes ${what}`, () => {
      const hosts = ["/a", "/b"] as const;
      const mounts = hosts.map((host_path, index) => mount({ container_path: paths[index]!, host_path }));
      const planned = planMounts(mounts, { facts: modern, hostPaths: undefined });
      const found = planned.Mounts?.map(({ Source, Target }) => [Source, Target]);
      const expected = sources.map((source) => [source, paths[hosts.indexOf(source)]]);
      assert.deepEqual(found, expected);
    });
  }

  test("names the index of the request where an earlier mount is hidden", () => {
    const mounts = [mount(), mount(), mount({ selinux_relabel: true, container_path: "/a:b" })];
    const planning = () => planMounts(mounts, { facts: selinux, hostPaths: undefined });
    assert.throws(planning, refusal("unsupported", /^config\.mounts\[2\]\.container_path "\/a:b"/));
    assert.deepEqual(planMounts([], { facts: nodeFacts(), hostPaths: undefined }), {});
  });

  const missing = { hostPaths: new Map([["/srv/data", "missing"]] as const) };
  const unknown = { hostPaths: undefined };
  const absentToReject = new Set(["/srv/data"]);

  for (const [what, context] of [
    ["is missing", missing],
    ["could not be looked at", unknown],
  ] as const) {
    const made = { ...target, BindOptions: { Propagation: "rslave", CreateMountpoint: true } };
    const before = nodeFacts({ apiMinor: 41 });
    for (const [which, overrides, facts, expected] of [
      ["API 1.42: as an option", { propagation: 1 }, nodeFacts({ apiMinor: 42 }), { Mounts: [made] }],
      ["before: by a bind string", {}, before, { Binds: ["/srv/data:/data"] }],
      ["options", { readonly: true, propagation: 2 }, before, { Binds: ["/srv/data:/data:ro,rshared"] }],
      // Not at all: the engine refuses it when it is missing.
      ["with a colon", { container_path: "/a:b" }, before, { Mounts: [{ ...target, Target: "/a:b" }] }],
      ["SELinux: by bind string", { selinux_relabel: true }, selinux, { Binds: ["/srv/data:/data:Z"] }],
    ] as const) {
      test(`lets the engine make a host path that ${what}: ${which}`, () => {
        assert.deepEqual(plan(overrides, facts, context), expected);
      });
    }
  }

  test("has the engine make nothing of a path that was made already", () => {
    const hostPaths = new Map([["/srv/data", "made"]] as const);
    assert.deepEqual(plan({}, modern, { hostPaths }), { Mounts: [target] });
  });

  test("refuses a missing host path that is to be rejected, and nothing makes it", () => {
    const message =
      /^config\.mounts\[0\]\.host_path "\/srv\/data": no such path on the node, .*--absent-mount-sour/;
    const planning = () => plan({}, nodeFacts(), { ...missing, absentToReject });
    assert.throws(planning, refusal("precondition", message));
    for (const facts of [nodeFacts(), modern])
      for (const context of [unknown, {}])
        assert.deepEqual(plan({}, facts, { ...context, absentToReject }), { Mounts: [target] });
  });

  test("refuses a host path with a problem, by the problem's kind", () => {
    const problem = { kind: "timeout", reason: "the file system does not answer (10s)" } as const;
    const message = /^config\.mounts\[0\]\.host_path "\/srv\/data": the file system does not answer \(10s\)$/;
    const planning = () => plan({}, nodeFacts(), { hostPaths: new Map([["/srv/data", problem]]) });
    assert.throws(planning, refusal("timeout", message));
  });
});
