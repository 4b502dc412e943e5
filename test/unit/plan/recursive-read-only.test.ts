import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { ociRuntimeName } from "../../../src/domain/oci-changes.js";
import { recursiveReadOnlyMounts, requestedReadOnly } from "../../../src/shim/plan/recursive-read-only.js";
import { imageSpec } from "../../fakes/requests.js";
import { refusal } from "../../support/refusals.js";
import { mount, nodeFacts } from "./builders.js";

const recursive = mount({ readonly: true, recursive_read_only: true });
const modern = nodeFacts({ apiMinor: 44 });
const selinux = nodeFacts({ apiMinor: 44, security: { ...nodeFacts().security, selinux: true } });
const inFront = (recursiveReadOnly: boolean, changes: Partial<NodeFacts> = {}): NodeFacts =>
  nodeFacts({
    runtimes: [...nodeFacts().runtimes, { name: ociRuntimeName, kind: "runc", recursiveReadOnly }],
    ...changes,
  });

describe("recursive read-only", () => {
  for (const [by, facts, ociProblem] of [
    ["engine", modern, "p"],
    ["engine", nodeFacts({ apiMinor: 45, kernelVersion: "5.12.0" }), undefined],
    ["ociRuntime", inFront(true, { apiMinor: 43 }), undefined],
  ] as const)
    test(`is made by the ${by} with API 1.${facts.apiMinor}, and announced`, () => {
      const context = { facts, runtime: "runc", ociProblem };
      assert.equal(requestedReadOnly(recursive, "m", context), by);
      assert.equal(requestedReadOnly(mount({ readonly: true }), "m", context), undefined);
      assert.equal(recursiveReadOnlyMounts(context), true);
    });

  for (const [what, facts, runtime, ociProblem, why] of [
    ["the kernel", nodeFacts({ apiMinor: 44, kernelVersion: "5.11.22" }), "", undefined, /needs Linux 5\.12/],
    ["a malformed kernel version", nodeFacts({ apiMinor: 44, kernelVersion: "x" }), "", undefined, /runs x$/],
    ["the runtime", modern, "runsc", undefined, /does not offer it$/],
    ["the API, without the OCI runtime", inFront(true), "", "p", /needs Docker API 1\.44, .* 1\.41, and p$/],
    ["the API, in a pod of another runtime", inFront(true), "kata", undefined, /"kata" is not the engine's/],
    ["the API, and an unknown runc", inFront(false), "", undefined, /runc 1\.1/],
  ] as const)
    test(`is refused because of ${what}`, () => {
      const context = { facts, runtime, ociProblem };
      const message = new RegExp(`^RROUnsupported: m\\.recursive_read_only of "/data": .*${why.source}`);
      assert.throws(() => requestedReadOnly(recursive, "m", context), refusal("unsupported", message));
      assert.equal(recursiveReadOnlyMounts(context), false);
    });

  test("is refused beside a relabelling", () => {
    const relabelled = { ...recursive, selinux_relabel: true };
    const context = { facts: selinux, runtime: "" };
    assert.throws(
      () => requestedReadOnly(relabelled, "m", context),
      refusal("unsupported", /selinux_relabel$/),
    );
  });

  test("needs nothing for an image, below which nothing is mounted", () => {
    const image = { ...recursive, image: imageSpec("i"), host_path: "" };
    assert.equal(requestedReadOnly(image, "m", { facts: nodeFacts(), runtime: "" }), undefined);
  });
});
