import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { readVersions } from "../../../../src/play/manifests/kinds.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";

/** Field names of Kubernetes 1.36 by type, from its OpenAPI document. Fields of objects name their type. */
const known = JSON.parse(
  readFileSync(new URL("../../../golden/kubernetes-fields.json", import.meta.url), "utf8"),
) as {
  readonly kinds: Readonly<Record<string, string>>;
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
};

/** An object with every field, all of them with values of no meaning. */
function full(type: string): unknown {
  if (type.startsWith("[]")) return [full(type.slice(2))];
  const fields = known.types[type];
  if (fields === undefined) return "?";
  return Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, full(of)]));
}

for (const [kind, type] of Object.entries(known.kinds))
  test(`every field of a ${kind} of Kubernetes 1.36 is known`, async () => {
    const value = { ...(full(type) as object), kind, apiVersion: readVersions[kind] };
    const error: unknown = await readWorkloads([{ name: "f", text: JSON.stringify(value) }]).then(
      () => assert.fail("the values have no meaning"),
      (reason: unknown) => reason,
    );
    const unknown = String(error)
      .split("\n")
      .filter((line) => line.includes("is not a field of Kubernetes"));
    assert.deepEqual(unknown, []);
  });
