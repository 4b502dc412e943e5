/** The engine is frozen, killed, stopped and started again while pods run. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { StatusResponse } from "../../src/domain/cri.js";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer, pidOfContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import { long, TestBed } from "../support/test-bed.js";
import { openSockets } from "../support/processes.js";
import { until } from "../support/wait.js";

/** What a kubelet gives Status. */
const statusTimeoutMs = 5_000;
/** Calls to a frozen engine at once. */
const callers = long ? 300 : 60;
const shortDeadline = { timeoutMs: 1_000 };

function runtimeReady({ status }: StatusResponse): true | string {
  const condition = status?.conditions.find(({ type }) => type === "RuntimeReady");
  return condition?.status === true ? true : `${condition?.reason ?? ""}: ${condition?.message ?? ""}`;
}

await withOwnEngine(import.meta.url, [], (engine) => {
  describe("an engine that stops and starts", () => {
    const bed = TestBed.ofSuite({ shim: {} });
    let pod: Pod;
    let containerId: string;
    before(async () => {
      pod = await bed.runPod(bed.shim.cri);
      containerId = await pod.start();
    });

    async function isReady(): Promise<boolean> {
      return runtimeReady(await bed.shim.cri.Status({}, { timeoutMs: statusTimeoutMs })) === true;
    }

    test("frozen: every call ends by its deadline, no connection stays open; resumed, all calls work, and what ended is seen", async () => {
      const { cri } = bed.shim;
      const created = await pod.create({ metadata: { name: "created", attempt: 0 } });
      const dies = await pod.start({ metadata: { name: "dies", attempt: 0 } });
      const pid = await pidOfContainer(dies);
      const config = bed.podConfig();
      const before = await openSockets(bed.shim.pid);
      engine.signal("SIGSTOP");
      process.kill(pid, "SIGKILL");
      try {
        const calls = [
          () => cri.RunPodSandbox({ config }, shortDeadline),
          () =>
            cri.CreateContainer(
              {
                pod_sandbox_id: pod.id,
                config: bed.containerConfig({ metadata: { name: "lost", attempt: 0 } }),
                sandbox_config: pod.config,
              },
              shortDeadline,
            ),
          () => cri.StartContainer({ container_id: created }, shortDeadline),
          () => cri.ExecSync({ container_id: containerId, cmd: ["sleep", "1000"] }, shortDeadline),
          () => cri.PullImage({ image: { image: "registry.invalid/a:1" } }, shortDeadline),
          () => cri.ListImages({}, shortDeadline),
          () => cri.ImageFsInfo({}, shortDeadline),
        ];
        const answers = Promise.all(
          Array.from({ length: callers }, (_, index) => {
            const call = calls[index % calls.length] ?? (() => cri.ListImages({}, shortDeadline));
            return rejectsWith(call(), "DEADLINE_EXCEEDED");
          }),
        );
        answers.catch(() => undefined); // Awaited below.
        await answers;
        // The clean-up of the execs may still be open, beside the event stream.
        await until(
          "the connections of the calls to be closed",
          async () => (await openSockets(bed.shim.pid)) <= before + 2,
        );
        assert.equal(await isReady(), true, "it may be slow");
        if (long) {
          const reason = await until("the silence to be long enough", async () => {
            const ready = runtimeReady(await cri.Status({}, { timeoutMs: statusTimeoutMs }));
            return ready !== true && ready;
          });
          assert.match(reason, /^DockerDaemonNotReady: docker: /);
        }
      } finally {
        engine.signal("SIGCONT");
      }
      await until("the shim to be ready", isReady);
      assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
      assert.equal((await pod.containerStatus(containerId)).state, ContainerState.CONTAINER_RUNNING);
      // The engine still has their requests, and may start to handle them only now.
      await until("the results of abandoned requests to be removed", async () => {
        const { containers } = await cri.ListContainers({ filter: { pod_sandbox_id: pod.id } });
        const { items } = await cri.ListPodSandbox({});
        return items.length === 1 && !containers.some(({ metadata }) => metadata?.name === "lost");
      });
      const { pod_sandbox_id: id } = await cri.RunPodSandbox({ config });
      await cri.StopPodSandbox({ pod_sandbox_id: id });
      await cri.RemovePodSandbox({ pod_sandbox_id: id });
      assert.equal((await pod.untilExited(dies)).exit_code, 137);
      for (const one of [created, dies]) await cri.RemoveContainer({ container_id: one });
    });

    for (const signal of long ? (["SIGKILL", "SIGTERM"] as const) : (["SIGKILL"] as const)) {
      test(`ended by ${signal} and started again: lists fail meanwhile, and show the real states afterwards`, async () => {
        const { cri } = bed.shim;
        const own = await bed.runPod(cri);
        const id = await own.start();
        await engine.end(signal);
        await until("Status to be not ready", async () => !(await isReady()));
        await until("lists to fail", () =>
          cri.ListPodSandbox({}).then(
            () => false,
            (error: unknown) => (error as { code?: number }).code === 14,
          ),
        );
        for (const call of [
          () => cri.RunPodSandbox({ config: bed.podConfig() }, shortDeadline),
          () => cri.StopContainer({ container_id: id }, shortDeadline),
          () => cri.ListImages({}, shortDeadline),
        ]) {
          await rejectsWith(call(), "UNAVAILABLE");
        }
        await engine.start();
        await until("the shim to be ready", isReady);
        await until("states to be those of the engine", async () => {
          const running = (await inspectContainer(id))?.State.Running === true;
          const { state } = await own.containerStatus(id);
          return (state === ContainerState.CONTAINER_RUNNING) === running;
        });
        await own.stop();
        await own.remove();
        assert.equal(await inspectContainer(id), undefined);
        await using fresh = await bed.runPod(cri);
        await fresh.start();
      });
    }

    test("no container is left, and each outage is logged once", async () => {
      await pod[Symbol.asyncDispose]();
      assert.deepEqual(await bed.ownContainers(), []);
      assert.equal(bed.shim.log.split('"msg":"engine lost"').length - 1 <= 2, true, "one line per outage");
      assert.doesNotMatch(bed.shim.log, /bug of dockershim|unhandled/i);
    });
  });
});
