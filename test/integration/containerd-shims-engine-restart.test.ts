/** Pods with one process of containerd's shim, while the engine and its containerd end and start. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { pidOfContainer, reasonForNoAnnotations } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { containerdShimOf } from "../support/processes.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const named = (name: string) => ({ metadata: { name, attempt: 0 }, log_path: `${name}.log` });

await withOwnEngine(
  import.meta.url,
  [],
  (engine) => {
    describe("an engine that lets containers live while it is away", () => {
      const bed = TestBed.ofSuite({ shim: {} });

      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        test(`ended by ${signal}: containers live, new ones join, ends in the meantime are known`, async () => {
          const shared = (await reasonForNoAnnotations()) === false;
          const { cri } = bed.shim;
          await using pod = await bed.runPod(cri);
          const lives = await pod.start(named("lives"));
          const ends = await pod.start({
            ...named("ends"),
            command: ["sh", "-c", "trap 'exit 6' TERM; while :; do sleep 0.1; done"],
          });
          const [shim, endingPid] = [await containerdShimOf(pod.id), await pidOfContainer(ends)];
          await engine.end(signal);
          process.kill(endingPid, "SIGTERM");
          await engine.start();
          await until("the pod to be served", async () =>
            pod.status().then(
              ({ state }) => state === PodSandboxState.SANDBOX_READY,
              () => false,
            ),
          );
          // 255 is what containerd 1.7 has of every container that ended while it was away.
          assert.ok([6, 255].includes((await pod.untilExited(ends)).exit_code));
          assert.equal((await pod.containerStatus(lives)).state, ContainerState.CONTAINER_RUNNING);
          for (const id of [lives, await pod.start(named("joins"))]) {
            assert.equal((await containerdShimOf(id)) === shim, shared);
            assert.equal((await pod.exec(id, "sh", "-c", "exit 3")).exitCode, 3);
          }
          await cri.StopContainer({ container_id: lives, timeout: "10" });
          assert.equal((await pod.containerStatus(lives)).exit_code, 0);
        });
      }
    });
  },
  { "live-restore": true },
);
