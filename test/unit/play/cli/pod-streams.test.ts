import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { PodContext } from "../../../../src/play/cli/pod-context.js";
import { portForward } from "../../../../src/play/cli/pod-streams.js";
import { PodSandboxState } from "../../../../src/domain/cri.js";

const pod = { namespace: "default", name: "p" };
const { signal } = new AbortController();

for (const [what, look] of [
  ["gone", () => Promise.reject(new ShimError("notFound", "no such pod sandbox"))],
  ["made again", () => Promise.resolve({ state: PodSandboxState.SANDBOX_NOTREADY })],
] as const)
  test(`pod port-forward ends when the pod is ${what}`, async () => {
    const sandbox = {
      id: "s",
      metadata: { ...pod, attempt: 0 },
      annotations: {},
      labels: {},
      created_at: "1",
    };
    const client = {
      listPodSandboxes: () => Promise.resolve([sandbox]),
      listContainers: () => Promise.resolve([]),
      podSandboxStatus: look,
    } as unknown as PodContext["client"];
    const output = new PassThrough();
    const io = {
      stdin: output,
      stdout: output,
      stderr: output,
      print: () => undefined,
      report: () => undefined,
    };
    const records = (): never => assert.fail("no record is read");
    const request = {
      verb: "port-forward",
      pod,
      pairs: [{ local: 0, remote: 80 }],
      addresses: ["127.0.0.1"],
    } as const;
    await assert.rejects(portForward(request, { ...io, client, endpoint: "/a.sock", signal, records }), {
      message: "lost connection to pod",
    });
  });
