/** The shim against other CRI servers on the same engine, in one run. */
import { basename } from "node:path";
import { connectCri } from "../test/support/cri-client.js";
import { dockerSocket } from "../test/support/docker.js";
import type { TestBed } from "../test/support/test-bed.js";
import { Stage, type Server } from "./blocks.js";
import {
  compareBursts,
  compareCalls,
  compareExecs,
  startPod,
  stopPod,
  type RunningPod,
} from "./lifecycle.js";
import { inParallel, say, profiling } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { residentMebibytesOf } from "./process-usage.js";
import { rowOf, type Row } from "./ratios.js";
import { loadNow, machine } from "./report.js";
import { compareServerReads } from "./server-reads.js";
import { engineProcesses, listenerOf } from "./server-processes.js";
import type { ServersReport } from "./servers-report.js";

/** Pods that are made at the same time. */
const creationWidth = 6;

export async function benchServers(options: BenchOptions, bed: TestBed): Promise<ServersReport> {
  const { pods, starts, bursts, reads, flags, profile } = options;
  const before = loadNow();
  const shim = await bed.startShim({
    flags,
    nodeFlags: profiling(profile),
  });
  const own: Server = {
    ...{ name: "dockershim", socket: shim.socket, cri: shim.cri, pid: shim.pid },
    mayBeSuspended: true,
  };
  const servers = [own, ...options.others.map((socket) => otherServer(socket, options))];
  const stage = new Stage(servers, engineProcesses(dockerSocket));
  bed.onClose(async () => {
    stage.resumeAll();
    await Promise.resolve();
  });

  say(`calls one by one, ${String(starts)} rounds`);
  const rows = [...(await compareCalls(bed, stage, starts))];
  say(`bursts, ${String(bursts)} rounds`);
  rows.push(...(await compareBursts(bed, stage, bursts)));
  const subjects = new Map<Server, RunningPod>();
  for (const server of servers) subjects.set(server, await startPod(bed, server));
  const addresses = new Map<Server, string>();
  for (const [server, { sandboxId }] of subjects) {
    const { status } = await server.cri.PodSandboxStatus({ pod_sandbox_id: sandboxId });
    addresses.set(server, status?.network?.ip ?? "");
  }
  say("execs");
  rows.push(...(await compareExecs(stage, subjects, options)));
  say(`making ${String(pods)} pods`);
  const made: RunningPod[] = [];
  await inParallel(pods, creationWidth, async () => {
    made.push(await startPod(bed, own));
  });
  say(`reads, ${String(reads)} rounds`);
  rows.push(...(await compareServerReads(stage, subjects, { image: bed.image, reads })));
  rows.push(memoryRow(servers, pods));
  say("removing the pods");
  await inParallel(made.length, creationWidth, async (index) => {
    const pod = made[index];
    if (pod !== undefined) await stopPod(own, pod);
  });
  for (const [server, pod] of subjects) await stopPod(server, pod);
  await shim.stop();
  for (const server of servers.slice(1)) server.cri[Symbol.dispose]();

  return {
    machine: await machine(),
    load: [before, loadNow()],
    servers: servers.map((server) => ({
      name: server.name,
      socket: server.socket,
      pid: server.pid ?? null,
      suspended: server.mayBeSuspended && server.pid !== undefined,
      podAddress: addresses.get(server) ?? "",
    })),
    ...{ flags, pods, starts, bursts, reads, rows },
  };
}

function otherServer(socket: string, { others, suspend }: BenchOptions): Server {
  const name = basename(socket, ".sock");
  const isUnique =
    name !== "dockershim" && others.every((other) => other === socket || basename(other, ".sock") !== name);
  return {
    ...{ name: isUnique ? name : socket, socket, cri: connectCri(socket), pid: listenerOf(socket) },
    mayBeSuspended: suspend,
  };
}

function memoryRow(servers: readonly Server[], pods: number): Row {
  const values = servers.map(({ name, pid }) => ({
    ...{ server: name, values: [pid === undefined ? NaN : residentMebibytesOf(pid)] },
  }));
  return rowOf({ title: `resident memory with ${String(pods)} pods`, unit: "MiB" }, values);
}
