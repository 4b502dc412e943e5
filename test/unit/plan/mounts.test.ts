import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Mount } from "../../../src/shim/domain/cri.js";
import type { NodeFacts } from "../../../src/shim/domain/node-facts.js";
import { planMounts, recursiveReadOnlyMounts, type MountContext } from "../../../src/shim/plan/mounts.js";
import { mount, nodeFacts } from "./builders.js";
import { refusal } from "./errors.js";

const selinux = nodeFacts({ security: { ...nodeFacts().security, selinux: true } });
const modern = nodeFacts({ apiMinor: 44 });

function plan(
  overrides: Partial<Mount>,
  facts: NodeFacts = nodeFacts(),
  context: Partial<MountContext> = {},
) {
  return planMounts([mount(overrides)], { facts, runtime: "", hostPaths: undefined, ...context });
}

describe("planMounts()", () => {
  const target = { Type: "bind", Source: "/srv/data", Target: "/data" };
  for (const [what, overrides, facts, expected] of [
    ["private says nothing", {}, nodeFacts(), { Mounts: [target] }],
    [
      "read-only before API 1.44",
      { readonly: true },
      nodeFacts(),
      { Mounts: [{ ...target, ReadOnly: true }] },
    ],
    [
      "read-only from API 1.44 on stays plain",
      { readonly: true, propagation: 1 },
      modern,
      {
        Mounts: [
          { ...target, ReadOnly: true, BindOptions: { Propagation: "rslave", ReadOnlyNonRecursive: true } },
        ],
      },
    ],
    [
      "recursive read-only",
      { readonly: true, recursive_read_only: true },
      modern,
      { Mounts: [{ ...target, ReadOnly: true, BindOptions: { ReadOnlyForceRecursive: true } }] },
    ],
    ["relabel without SELinux", { selinux_relabel: true }, nodeFacts(), { Mounts: [target] }],
    [
      "relabel with SELinux",
      { selinux_relabel: true, readonly: true, propagation: 2 },
      selinux,
      { Binds: ["/srv/data:/data:ro,Z,rshared"] },
    ],
    [
      "colons are no separators",
      { host_path: "/a:b" },
      nodeFacts(),
      { Mounts: [{ ...target, Source: "/a:b" }] },
    ],
  ] as const) {
    test(what, () => {
      assert.deepEqual(plan(overrides, facts), expected);
    });
  }

  test("sends neither list when there are no mounts", () => {
    assert.deepEqual(planMounts([], { facts: nodeFacts(), runtime: "", hostPaths: undefined }), {});
  });

  test("refuses a colon where only a bind string can relabel", () => {
    assert.throws(
      () => plan({ selinux_relabel: true, container_path: "/a:b" }, selinux),
      refusal("unsupported", /^config\.mounts\[0\]\.container_path "\/a:b"/),
    );
  });

  test("refuses a host path that is known to be missing, and only then", () => {
    const context = { hostPaths: new Map([["/srv/data", "missing"]] as const) };
    assert.throws(
      () => plan({}, nodeFacts(), context),
      refusal("precondition", /^config\.mounts\[0\]\.host_path "\/srv\/data"/),
    );
    assert.ok(plan({ host_path: "/other" }, nodeFacts(), context).Mounts);
  });

  for (const [what, facts, runtime] of [
    ["the API", nodeFacts({ apiMinor: 43 }), ""],
    ["the kernel", nodeFacts({ apiMinor: 44, kernelVersion: "5.11.22" }), ""],
    ["an unreadable kernel version", nodeFacts({ apiMinor: 44, kernelVersion: "linux" }), ""],
    ["the runtime", modern, "runsc"],
    ["an unknown runtime", modern, "gone"],
  ] as const) {
    test(`refuses recursive read-only because of ${what}`, () => {
      assert.throws(
        () => plan({ readonly: true, recursive_read_only: true }, facts, { runtime }),
        refusal("unsupported", /^RROUnsupported: config\.mounts\[0\]\.recursive_read_only of "\/data": /),
      );
      assert.equal(recursiveReadOnlyMounts(facts, runtime), false);
    });
  }
  test("announces recursive read-only for a runtime that has it", () => {
    assert.equal(recursiveReadOnlyMounts(modern, ""), true);
    assert.equal(recursiveReadOnlyMounts(nodeFacts({ apiMinor: 45, kernelVersion: "5.12.0" }), "runc"), true);
  });
});
