/** Lists, statuses and statistics of several CRI servers. */
import type { Server, Stage } from "./blocks.js";
import { connectBytes } from "./cri-bytes.js";
import { cpuRows, valuesOf, type RunningPod } from "./lifecycle.js";
import { say } from "./measure.js";
import { rowOf, type Row } from "./ratios.js";
import { plainReads, statisticsReads } from "./reads.js";

const blocks = 3;
/** Statistics of all pods take a hundred times as long as other reads on some servers. */
const statisticsShare = 0.1;

export interface ServerReadsOptions {
  readonly image: string;
  /** Calls per server and kind of read. */
  readonly reads: number;
}

/** `pods`: one of each server's own. */
export async function compareServerReads(
  stage: Stage,
  pods: ReadonlyMap<Server, RunningPod>,
  { image, reads }: ServerReadsOptions,
): Promise<readonly Row[]> {
  const clients = new Map(stage.servers.map((server) => [server, connectBytes(server.socket)]));
  const few = Math.max(Math.ceil(reads * statisticsShare), blocks);
  const kinds = [
    ...plainReads({ sandboxId: "", containerId: "", image }).map(({ title }) => ({ title, rounds: reads })),
    ...statisticsReads.map(({ title }) => ({ title, rounds: few })),
  ];
  const call = async (server: Server, title: string): Promise<void> => {
    const pod = pods.get(server);
    const client = clients.get(server);
    if (pod === undefined || client === undefined) throw new Error(`no pod of ${server.name}`);
    const own = [...plainReads({ ...pod, image }), ...statisticsReads];
    await own.find((read) => read.title === title)?.call(client);
  };
  const rows: Row[] = [];
  try {
    for (const { title, rounds } of kinds) {
      const failing = new Set<string>();
      for (const server of stage.servers) {
        await call(server, title).catch((error: unknown) => {
          say(`${server.name} does not answer ${title}: ${String(error)}`);
          failing.add(server.name);
        });
      }
      const blockRounds = Math.ceil(rounds / blocks);
      const warmUpRounds = [rounds, Math.ceil(blockRounds / 10)] as const;
      const all = await stage.inBlocks({ rounds, blockRounds, warmUpRounds }, async (server) => {
        if (failing.has(server.name)) return {};
        const startMs = performance.now();
        await call(server, title);
        return { [title]: performance.now() - startMs };
      });
      const measured = all.map((entry) =>
        failing.has(entry.server) ? { ...entry, samples: [], usages: [] } : entry,
      );
      const [cpu] = cpuRows(measured, { title, unit: "ms", factor: 1000 });
      rows.push(rowOf({ title, unit: "ms" }, valuesOf(measured, title)), cpu);
    }
  } finally {
    for (const client of clients.values()) client[Symbol.dispose]();
  }
  return rows;
}
