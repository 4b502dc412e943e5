import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { parseAllDocuments } from "yaml";
import { Collection } from "../../../src/play/manifests/collect.js";
import { documentsOf } from "../../../src/play/manifests/documents.js";
import { expandWorkloads } from "../../../src/play/manifests/expand-workloads.js";

const read = (path: string): Promise<string> =>
  readFile(new URL(`../../../${path}`, import.meta.url), "utf8");
const text = await read("test/golden/podman-fields.yaml");

/** Problems by kind and path of a field, such as `Pod spec.priority`, without numbers of entries. */
async function problemsByField(): Promise<ReadonlyMap<string, string>> {
  const documents = await documentsOf({ name: "f.yaml", text }, []);
  const collection = new Collection([]);
  for (const document of documents) collection.add(document, { localVolumes: false });
  const { problems } = expandWorkloads(collection, {});
  return new Map(
    problems.map(({ object = "", path, kind, reason }) => [
      `${object.split(" ")[0] ?? ""} ${path.replace(/\[\d+\]/g, "")}`,
      `${kind === "passedOver" ? "passed over" : "refused"} | ${reason}`,
    ]),
  );
}

/** Whether an entry of the lists on the way has the field. */
function has(value: unknown, [name, ...rest]: readonly string[]): boolean {
  if (Array.isArray(value))
    return value.some((entry) => has(entry, name === undefined ? [] : [name, ...rest]));
  if (name === undefined) return value !== undefined;
  return typeof value === "object" && value !== null && has((value as Record<string, unknown>)[name], rest);
}

test("play does with each field of podman's table what docs/play/play-podman.md says", async () => {
  const problems = await problemsByField();
  const objects = parseAllDocuments(text).map((document) => document.toJS() as { readonly kind: string });
  let section = "";
  let rows = 0;
  for (const line of (await read("docs/play/play-podman.md")).split("\n")) {
    section = /^## (.*)$/.exec(line)?.[1] ?? section;
    const [, field, podman = "", ...said] = /^\| ([\w.]+) \| (.*?) \| (.*?) \| (.*?) ?\|$/.exec(line) ?? [];
    if (field === undefined || field === "field") continue;
    rows += 1;
    const kind = section === "Container" ? "Pod" : section;
    const place = section === "Container" ? "spec.containers" : section === "ConfigMap" ? "" : "spec";
    const keys = [place, field].join(".").split(".").filter(Boolean);
    const seen = objects.some((object) => object.kind === kind && has(object, keys));
    assert.ok(seen, `${section} ${field} is in no manifest`);
    const found = keys
      .map((_, at) => problems.get(`${kind} ${keys.slice(0, at + 1).join(".")}`))
      .find(Boolean);
    const does = found ?? "yes | ";
    assert.equal(said.join(" | "), does, `${section} ${field}`);
    if (podman.startsWith("yes")) assert.doesNotMatch(does, /^refused/, `${section} ${field}`);
  }
  assert.ok(rows > 150, `${rows} rows`);
});
