/**
 * Containers that live while the engine and its containerd end and start, and the log of one that floods, while the kubelet
 * rotates it and the shim is killed.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ContainerState, type ContainerStatus, PodSandboxState } from "../../src/domain/cri.js";
import { dockerJson, pidOfContainer, reasonForNoAnnotations } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import { containerdShimOf } from "../support/processes.js";
import type { ShimProcess } from "../support/shim-process.js";
import { long, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { flood, outputOf } from "./log-support.js";

const named = (name: string) => ({ metadata: { name, attempt: 0 }, log_path: `${name}.log` });

await withOwnEngine(
  import.meta.url,
  [],
  (engine) => {
    describe("an engine that lets containers live while it is away", () => {
      const bed = TestBed.ofSuite({ shim: {} });

      for (const signal of long ? (["SIGTERM", "SIGKILL"] as const) : (["SIGKILL"] as const)) {
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

      test("rotation, kills of the shim and of the engine: all that the engine kept, once, in order", async () => {
        const directory = await bed.newDirectory();
        let shim = await bed.startShim({ directory });
        const pod = await bed.runPod(shim.cri);
        const id = await pod.start({ log_path: "main/0.log", command: ["sh", "-c", flood] });
        const { log_path: path } = await pod.containerStatus(id);
        const rotated: string[] = [];

        const rotate = async (round: number): Promise<void> => {
          const name = `${path}.${String(round).padStart(6, "0")}`;
          await rename(path, name);
          // What kubelets do when the call fails.
          const reopened = await shim.cri.ReopenContainerLog({ container_id: id }).then(
            () => true,
            () => false,
          );
          if (reopened || existsSync(path)) rotated.push(name);
          else await rename(name, path);
        };

        for (let round = 0; (await stateOf(shim, id)) === ContainerState.CONTAINER_RUNNING; round += 1) {
          await sleep(long ? 1_000 : 300);
          if (round % 4 === 1) {
            await shim.kill();
            shim = await bed.startShim({ directory });
          }
          if (round % 4 === 3) {
            await engine.end(round % 8 === 3 ? "SIGTERM" : "SIGKILL");
            await sleep(Math.random() * 500);
            await engine.start();
          }
          await rotate(round);
        }
        const log = [...rotated, path].map((one) => readFileSync(one, "latin1")).join("");
        // What an engine had read and not written when it ended is lost: the truth is what it kept.
        const kept = await keptByEngine(id);
        assert.ok(kept.stdout.length > 1_000_000, "the engine kept output");
        for (const stream of ["stdout", "stderr"] as const)
          assert.ok(
            outputOf(log, stream) === kept[stream],
            `${stream}: ${difference(outputOf(log, stream), kept[stream])}`,
          );
        assert.ok(rotated.length > 2, "the log was rotated");
        await end(shim, pod);
      });
    });
  },
  { "live-restore": true },
);

async function stateOf(shim: ShimProcess, id: string): Promise<ContainerStatus["state"]> {
  return until("the container's status", async () =>
    shim.cri.ContainerStatus({ container_id: id }).then(
      ({ status }) => status?.state,
      () => undefined,
    ),
  );
}

async function end(shim: ShimProcess, pod: Pod): Promise<void> {
  await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
  await shim.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
  await shim.stop();
}

/** What is in Docker's file, which no limit cuts here. */
async function keptByEngine(id: string): Promise<Readonly<Record<"stdout" | "stderr", string>>> {
  const { LogPath } = (await dockerJson("GET", `/containers/${id}/json`)) as { LogPath: string };
  const kept = { stdout: [] as string[], stderr: [] as string[] };
  for (const line of readFileSync(LogPath, "utf8").split("\n")) {
    if (line === "") continue;
    const { log, stream } = JSON.parse(line) as { log: string; stream: "stdout" | "stderr" };
    kept[stream].push(log);
  }
  return { stdout: kept.stdout.join(""), stderr: kept.stderr.join("") };
}

function difference(actual: string, expected: string): string {
  let at = 0;
  while (at < actual.length && actual[at] === expected[at]) at += 1;
  const around = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 120), at + 120));
  return `${String(actual.length)} of ${String(expected.length)} bytes, ${around(actual)} instead of ${around(expected)}`;
}
