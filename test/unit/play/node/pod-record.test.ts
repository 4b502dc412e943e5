import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readPodEnd, readPodRecord, writePodRecord } from "../../../../src/play/node/pod-record.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { makeFixture, podWith } from "../fake-cri.js";

const path = "/state/uid-1/pod.json";

async function somePod(): Promise<Manifest> {
  const manifest = await podWith("  containers: [{name: c, image: x, env: [{name: __proto__, value: v}]}]");
  return {
    ...manifest,
    owner: { kind: "Deployment", name: "web" },
    jobMark: "{}",
    objects: {
      configMaps: new Map([["web", { a: Buffer.from([0, 255]) }]]),
      binaryKeys: new Map([["web", ["a"]]]),
      secrets: new Map([["key", { type: "Opaque", data: { k: Buffer.from("s") } }]]),
    },
  };
}

describe("the record of a pod", () => {
  test("has the manifest with its objects", async () => {
    const { deps } = makeFixture();
    const manifest = await somePod();
    await writePodRecord(manifest, deps);
    assert.deepEqual(await readPodRecord("uid-1", deps), manifest);
    assert.equal(await readPodRecord("uid-2", deps), undefined);
  });

  const damages: readonly (readonly [string, (text: string) => string, RegExp])[] = [
    ["is cut off", (text) => text.slice(0, -5), /"\/state\/uid-1\/pod\.json": is not JSON: damaged/],
    ["is of a newer version", (text) => text.replace('"version":1', '"version":2'), /version must be/],
    ["is that of another pod", (text) => text.replace('"uid":"uid-1"},', '"uid":"uid-2"},'), /another pod/],
    ["has an unknown field", (text) => text.replace('"spec":{', '"spec":{"more":1,'), /pod\.spec\.more/],
  ];
  for (const [what, damage, message] of damages)
    test(`is an error when it ${what}`, async () => {
      const { deps, files } = makeFixture();
      await writePodRecord(await somePod(), deps);
      files.texts.set(path, damage(files.texts.get(path) ?? ""));
      await assert.rejects(readPodRecord("uid-1", deps), message);
    });
});

test("readPodEnd() tells no end from a file that is damaged", async () => {
  const { deps, files } = makeFixture();
  for (const text of ["", "{", "null", '"s1"', "[]", "{}"]) {
    files.texts.set("/state/uid-1/end.json", text);
    assert.equal(await readPodEnd({ uid: "uid-1" }, "s1", deps), undefined, text);
  }
});
