import assert from "node:assert/strict";
import { test } from "node:test";
import { selectedKeys } from "../../../../src/play/cli/pod-down.js";
import type { ListedRecord } from "../../../../src/play/node/pod-record.js";

const client = {
  listPodSandboxes: () => Promise.resolve([]),
  listContainers: () => Promise.resolve([]),
  containerStatus: () => assert.fail("there is no container"),
};
const record = (name: string, isOfThisServer: boolean): ListedRecord => ({
  ...{ key: { namespace: "default", name, uid: name }, source: "f.yaml", hash: "h", isOfThisServer },
  pod: {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { app: "web" } },
    spec: { containers: [] },
  },
  objects: { configMaps: new Map(), secrets: new Map() },
});

for (const labels of [[], [{ key: "app", values: ["web"], is: "in" }]] as const)
  test(`pod down by ${labels.length} labels leaves what play has of pods at another server`, async () => {
    const selection = { pods: [], namespace: "default", labels };
    const records = [record("here", true), record("there", false)];
    const keys = await selectedKeys(selection, client, records, new AbortController().signal);
    const names = keys.map(({ name }) => name);
    assert.deepEqual(names, ["here"]);
  });
