import assert from "node:assert/strict";
import { test } from "node:test";
import { writePodRecord } from "../../../../src/play/node/pod-record.js";
import { probeText } from "../../../../src/play/pod-commands/describe-pod.js";
import { containersOf, keptPod } from "../../../../src/play/pod-commands/kept-pod.js";
import { makeFixture, podWith } from "../fake-cri.js";

const report = (line: string): void => assert.fail(line);
const metadata = (uid: string) => ({
  id: "s",
  metadata: { name: "web", namespace: "default", uid, attempt: 0 },
});

test("keptPod() has the probes that the CRI does not know", async () => {
  const { deps } = makeFixture();
  const probe = "readinessProbe: {httpGet: {port: 80, path: /ok}, periodSeconds: 3}";
  const spec = `  initContainers: [{name: i, image: x}]\n  containers: [{name: c, image: x, ${probe}}]`;
  await writePodRecord(await podWith(spec), deps);
  const { manifest } = (await keptPod(metadata("uid-1"), { ...deps, report })) ?? assert.fail();
  const containers = containersOf(manifest.pod.spec);
  const names = containers.map(({ name }) => name);
  assert.deepEqual(names, ["i", "c"]);
  const readiness = containers[1]?.readinessProbe ?? assert.fail();
  const expected = "http-get http://:80/ok delay=0s timeout=1s period=3s #success=1 #failure=3";
  assert.equal(probeText(readiness), expected);
});

test("keptPod() answers nothing without a record or for a uid that is no name of a file, and reports a bad one", async () => {
  const { deps, files } = makeFixture();
  for (const uid of ["uid-2", "..", "a/b", ""])
    assert.equal(await keptPod(metadata(uid), { ...deps, report }), undefined, uid);
  files.texts.set("/state/uid-1/pod.json", "{");
  const lines: string[] = [];
  const kept = await keptPod(metadata("uid-1"), { ...deps, report: (line) => lines.push(line) });
  assert.deepEqual([kept, lines.length], [undefined, 1]);
});
