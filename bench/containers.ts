/** Lists and statuses when there are many containers, against Version, which is a call that does nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ShimProcess } from "../test/support/shim-process.js";
import { connectBytes, nestedMessage, stringMessage, type BytesClient } from "./cri-bytes.js";
import { profiling, race } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { descriptorsOf, residentMebibytesOf } from "./process-usage.js";
import { coreCount, loadLine, loadNow } from "./report.js";
import { StandInEngine } from "./stand-in-engine.js";

export type ContainersReport = Awaited<ReturnType<typeof benchContainers>>;

const containersPerPod = 4;
const warmUpRounds = 300;
const countedCalls = 20;

export async function benchContainers(options: BenchOptions, containers: number) {
  const { reads: rounds, flags, profile } = options;
  const before = loadNow();
  const directory = await mkdtemp(join(tmpdir(), "dockershim-bench-"));
  try {
    await using engine = await StandInEngine.listen({
      ...{ socket: join(directory, "engine.sock"), containers, containersPerPod },
    });
    await using shim = await ShimProcess.start({
      ...{ directory, dockerEndpoint: engine.endpoint, flags },
      nodeFlags: profiling(profile),
    });
    using client = connectBytes(shim.socket);
    const rows = [];
    for (const [title, call] of callsOf(client, engine)) {
      const [own, nothing] = await race(
        [
          { name: title, run: call },
          { name: "Version", run: () => client.call("RuntimeService", "Version") },
        ],
        rounds,
        warmUpRounds,
      );
      const requestsBefore = engine.requests;
      let answerBytes = 0;
      for (let count = 0; count < countedCalls; count += 1) answerBytes = await call();
      const engineRequests = (engine.requests - requestsBefore) / countedCalls;
      const { medianMs = NaN, p95Ms = NaN } = own ?? {};
      /** Of Version's median. */
      const ratio = medianMs / (nothing?.medianMs ?? NaN);
      rows.push({ title, medianMs, p95Ms, ratio, answerBytes, engineRequests });
    }
    const report = {
      ...{ cores: coreCount(), load: [before, loadNow()] as const, containers },
      ...{ sandboxes: engine.sandboxIds.length, rows },
      ...{ residentMebibytes: residentMebibytesOf(shim.pid), descriptors: descriptorsOf(shim.pid) },
    };
    await shim.stop();
    return report;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Each answers how many bytes came back. */
function callsOf(
  client: BytesClient,
  { sandboxIds, containerIds }: StandInEngine,
): readonly (readonly [title: string, call: () => Promise<number>])[] {
  const runtime = async (rpc: string, request?: Buffer): Promise<number> =>
    (await client.call("RuntimeService", rpc, request)).length;
  const sandboxId = sandboxIds[Math.floor(sandboxIds.length / 2)] ?? "";
  const containerId = containerIds[Math.floor(containerIds.length / 2)] ?? "";
  const uid = "6f1b2c3d-0000-4000-8000-000000000001";
  /** A map entry of the field. */
  const label = (field: number): Buffer =>
    nestedMessage(field, Buffer.concat([stringMessage(1, "io.kubernetes.pod.uid"), stringMessage(2, uid)]));
  return [
    [
      "ListPodSandbox + ListContainers",
      async () => (await runtime("ListPodSandbox")) + (await runtime("ListContainers")),
    ],
    ["ListPodSandbox, by the pod's uid", () => runtime("ListPodSandbox", nestedMessage(1, label(3)))],
    ["ListContainers, by the pod's uid", () => runtime("ListContainers", nestedMessage(1, label(4)))],
    [
      "ListContainers, of a sandbox",
      () => runtime("ListContainers", nestedMessage(1, stringMessage(3, sandboxId))),
    ],
    ["PodSandboxStatus", () => runtime("PodSandboxStatus", stringMessage(1, sandboxId))],
    ["ContainerStatus", () => runtime("ContainerStatus", stringMessage(1, containerId))],
  ];
}

export function formatContainers(report: ContainersReport): string {
  const { cores, load, sandboxes, containers, rows } = report;
  return [
    loadLine(cores, load),
    `${String(containers)} containers in ${String(sandboxes)} sandboxes, ended, of a stand-in engine;`,
    `shim: ${report.residentMebibytes.toFixed(1)} MiB, ${String(report.descriptors)} open files`,
    "",
    "| what | median ms | p95 ms | of Version | answer, bytes | engine requests per call |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows.map(({ title, medianMs, p95Ms, ratio, answerBytes, engineRequests }) => {
      const times = `${medianMs.toFixed(2)} | ${p95Ms.toFixed(2)} | ${ratio.toFixed(1)}`;
      return `| ${title} | ${times} | ${String(answerBytes)} | ${engineRequests.toFixed(1)} |`;
    }),
    "",
  ].join("\n");
}
