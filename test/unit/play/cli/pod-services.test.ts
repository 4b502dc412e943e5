import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveServices } from "../../../../src/play/cli/pod-services.js";
import type { PodRequest } from "../../../../src/play/cli/pod-context.js";

const text = `{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}},
  spec: {containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web},
  ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: 9000}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {selector: {}, ports: [{port: 80}]}}
`;
const play = { files: [{ name: "f.yaml", text }], replicas: [], schedule: false, localVolumes: false };
const store = {
  list: () => Promise.resolve([{ ...play, fast: false, workloads: [], id: "1", version: "1" }]),
};
const report = (line: string): void => assert.fail(line);
const forward = (name: string, remote: number): PodRequest => ({
  ...{ verb: "port-forward", pod: { namespace: "default", name, kind: "Service" }, addresses: [] },
  pairs: [{ local: 1, remote }],
});

test("a Service of a detached play is its pods, and its ports are theirs", async () => {
  const labels = [{ key: "app", values: ["web"], is: "in" }];
  for (const [port, expected] of [
    [80, 8080],
    [81, 9000],
  ] as const)
    assert.deepEqual(await resolveServices(forward("web", port), { store, report }), {
      ...forward("web", expected),
      pod: { namespace: "default", name: "web", kind: "Service", labels },
    });
});

for (const [name, port, reason] of [
  ["web", 82, /Service "default\/web": port 82 leads to no port of a pod; it has: 80, 81/],
  ["empty", 80, /Service "default\/empty": it has no pods of its own/],
  ["other", 80, /Service "default\/other": no play with --detach has it; name a pod/],
] as const)
  test(`port ${port} of the Service ${name} is refused`, async () => {
    await assert.rejects(resolveServices(forward(name, port), { store, report }), { message: reason });
  });
