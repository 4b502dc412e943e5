import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { ContainerState, PodSandboxState } from "../../../../src/domain/cri.js";
import type { PodContext, WaitFor } from "../../../../src/play/cli/pod-context.js";
import { listPods, waitForPods } from "../../../../src/play/cli/pod-list.js";

const pod = { namespace: "default", name: "p" };
const selection = { pods: [pod], namespace: undefined, labels: [] };

/** A pod whose states follow one another, one for each look at it; `undefined`: it is gone. */
function contextOf(states: readonly (ContainerState | undefined)[]) {
  const lines: string[] = [];
  const ended = new AbortController();
  let looks = 0;
  const sandbox = {
    ...{ id: "s", metadata: { ...pod, attempt: 0 }, state: PodSandboxState.SANDBOX_READY },
    ...{ annotations: {}, labels: {}, created_at: "1", network: null },
  };
  const client = {
    listPodSandboxes: () => {
      looks += 1;
      if (looks > states.length) ended.abort(new Error("looked at often enough"));
      return Promise.resolve(states[looks - 1] === undefined ? [] : [sandbox]);
    },
    listContainers: () => Promise.resolve([{ id: "c" }]),
    containerStatus: () =>
      Promise.resolve({
        ...{ id: "c", metadata: { name: "c", attempt: 0 }, state: states[looks - 1], exit_code: 0 },
        ...{ created_at: "1", finished_at: "2", image: null, image_ref: "" },
      }),
    podSandboxStatus: () => Promise.resolve(sandbox),
  } as unknown as PodContext["client"];
  const output = new PassThrough();
  const write = (text: string): unknown => lines.push(text.trimEnd().replaceAll(/ +/g, " "));
  const context = {
    ...{ client, endpoint: "/a.sock", signal: ended.signal, stdin: output, stdout: output, stderr: output },
    ...{ print: write, report: write, records: () => assert.fail("no record is read") },
  };
  return { context, lines };
}

const { CONTAINER_CREATED: created, CONTAINER_RUNNING: running, CONTAINER_EXITED: exited } = ContainerState;

test("pod ps --watch prints a line for each change", async (t) => {
  t.mock.timers.enable({ apis: ["Date"] });
  const { context, lines } = contextOf([created, running, running, exited]);
  const request = { verb: "ps", selection, output: "table", headers: true, watch: true } as const;
  await assert.rejects(listPods(request, context, 1), /often enough/);
  const found = lines.flatMap((text) => text.split("\n")).filter((line) => line !== "");
  assert.deepEqual(found, [
    "NAMESPACE NAME READY STATUS RESTARTS AGE ADDRESSES",
    ...["0/1 Pending", "1/1 Running", "0/1 Succeeded"].map((state) => `default p ${state} 0 0s -`),
  ]);
});

for (const [wanted, states, code, line] of [
  [{ what: "ready" }, [running], 0, "default/p: condition met"],
  [{ what: "ready" }, [created, created], 1, "default/p: not met within 0ms: Pending"],
  [{ what: "delete" }, [undefined], 0, "default/p: deleted"],
  [{ what: "delete" }, [running], 1, "default/p: not met within 0ms: Running"],
  [{ what: "phase", phase: "Succeeded" }, [exited], 0, "default/p: condition met"],
] as const satisfies readonly (readonly [WaitFor, ...unknown[]])[])
  test(`pod wait for ${JSON.stringify(wanted)} answers ${code}: ${line}`, async () => {
    const { context, lines } = contextOf(states);
    const request = { verb: "wait", selection, for: wanted, timeoutMs: 0 } as const;
    assert.deepEqual([await waitForPods(request, context), lines], [code, [line]]);
  });
