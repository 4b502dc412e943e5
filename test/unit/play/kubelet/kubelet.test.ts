import assert from "node:assert/strict";
import { test } from "node:test";
import { makeFixture, podWith, readOnePod } from "../fake-cri.js";

const options = { failFast: true };
const spec = "  containers: [{name: a, image: busybox:1}, {name: b, image: busybox:1}]";

test("apply() again after a failure begins anew", async () => {
  const { cri, kubelet } = makeFixture();
  cri.failOn = "createContainer b";
  await assert.rejects(kubelet.apply(await podWith(spec), options).applied, /it broke/);
  cri.failOn = "";
  await kubelet.apply(await podWith(spec), options).applied;
  assert.equal(cri.calls.at(-1), "startContainer b");
  await kubelet[Symbol.asyncDispose]();
});

test("an error after the first application does not end the loop", async () => {
  const { cri, clock, kubelet } = makeFixture();
  const worker = kubelet.apply(await podWith(spec), options);
  await worker.applied;
  cri.failOn = "createContainer b 1";
  cri.end("b", 1);
  await clock.advance(0);
  assert.equal(worker.status?.containerStatuses[1]?.state.waiting?.reason, "CreateContainerError");
  cri.failOn = "";
  await clock.advance(10_000);
  assert.equal(worker.status.containerStatuses[1].ready, true);
  await kubelet[Symbol.asyncDispose]();
});

test("fifty pods start side by side", async () => {
  const { cri, kubelet } = makeFixture();
  const names = Array.from({ length: 50 }, (_, index) => `p${index}`);
  const run = cri.runPodSandbox.bind(cri);
  let waiting = 0;
  let open = (): void => undefined;
  const all = new Promise<void>((resolve) => (open = resolve));
  cri.runPodSandbox = async (...args) => {
    waiting += 1;
    if (waiting === names.length) open();
    await all;
    return run(...args);
  };
  const workers = await Promise.all(
    names.map(async (name) => {
      const head = `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\n`;
      return kubelet.apply(await readOnePod(`${head}spec:\n${spec}`), options);
    }),
  );
  await Promise.all(workers.map(({ applied }) => applied));
  assert.equal(cri.containers.length, 100);
  await kubelet[Symbol.asyncDispose]();
});

test("a pod that had ended and is made again has its probes again", async () => {
  const { cri, clock, kubelet } = makeFixture();
  const probed = `  restartPolicy: Never
  containers: [{name: a, image: busybox:1, readinessProbe: {exec: {command: [x]}}}]`;
  cri.exitsInTurn.set("a", [0]);
  const worker = kubelet.apply(await podWith(probed), options);
  await clock.advance(0);
  assert.equal(worker.status?.phase, "Succeeded");
  kubelet.apply(await podWith(`${probed}\n  hostname: other`), options);
  await clock.advance(10_000);
  assert.equal(worker.status.containerStatuses[0]?.ready, true);
  await kubelet[Symbol.asyncDispose]();
});
