/** What `play` adds to the calls of the CRI that it makes: one small pod up and down, and many pods of one file. */
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { builtMain } from "../scripts/setup/paths.mjs";
import type { TestBed } from "../test/support/test-bed.js";
import type { Server } from "./blocks.js";
import { startPod, type RunningPod } from "./lifecycle.js";
import { medianOf, rowOf, type Row } from "./ratios.js";
import { loadNow, machine, type Report } from "./report.js";
import { tableOf } from "./servers-report.js";

const manyPods = 50;
/** After each change: events of the engine are still being worked off. */
const settleMs = 300;
const warmUpRounds = 2;

export interface PlayReport extends Pick<Report, "machine" | "load"> {
  readonly rounds: number;
  readonly rows: readonly Row[];
  /** What play takes longer than the calls, up and down, and what two starts of Node.js take. Medians. */
  readonly added: readonly { readonly pods: number; readonly playMs: number; readonly nodeMs: number }[];
}

interface Compared {
  readonly rows: readonly Row[];
  readonly added: PlayReport["added"][number];
}

/** Node.js reads the certificates of this file at each start, which has nothing to do with play. */
const { NODE_EXTRA_CA_CERTS: _, ...environment } = process.env;

/** Runs Node.js; resolves with its milliseconds. */
async function timeOf(argv: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, [...argv], {
    ...{ env: environment, stdio: ["ignore", "ignore", "pipe"] },
  });
  let errors = "";
  child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(`${argv.join(" ")} ended with ${String(code)}: ${errors}`);
  return performance.now() - startMs;
}

async function timed<T>(work: () => Promise<T>): Promise<[milliseconds: number, result: T]> {
  const startMs = performance.now();
  const result = await work();
  return [performance.now() - startMs, result];
}

/** What `play --down` calls. */
async function removePod({ cri }: Server, pod: RunningPod): Promise<void> {
  await cri.StopContainer({ container_id: pod.containerId, timeout: "30" });
  await cri.StopPodSandbox({ pod_sandbox_id: pod.sandboxId });
  await cri.RemovePodSandbox({ pod_sandbox_id: pod.sandboxId });
}

function manifest(bed: TestBed, name: string, replicas: number): string {
  const { command, image } = bed.containerConfig();
  const container = { name: "main", image: image?.image, imagePullPolicy: "IfNotPresent", command };
  return JSON.stringify({
    ...{ apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name } },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [container] } },
    },
  });
}

/** The calls of `pods` pods at once, and play of a file with as many. Up and down apart. */
async function compare(bed: TestBed, server: Server, pods: number, rounds: number): Promise<Compared> {
  const path = join(await bed.newDirectory(), "pods.json");
  await writeFile(path, manifest(bed, bed.newName("play"), pods));
  const play = (flag: string): Promise<number> =>
    timeOf([builtMain, "play", "--endpoint", `unix://${server.socket}`, flag, path]);
  const samples = { play: [[], []] as number[][], raw: [[], []] as number[][], node: [] as number[] };
  const raw = async (): Promise<readonly number[]> => {
    const [up, made] = await timed(() =>
      Promise.all(Array.from({ length: pods }, () => startPod(bed, server))),
    );
    await sleep(settleMs);
    const [down] = await timed(() => Promise.all(made.map((pod) => removePod(server, pod))));
    await sleep(settleMs);
    return [up, down];
  };
  const played = async (): Promise<readonly number[]> => {
    const up = await play("--wait");
    await sleep(settleMs);
    const down = await play("--down");
    await sleep(settleMs);
    return [up, down];
  };
  for (let round = -warmUpRounds; round < rounds; round += 1) {
    const turns = [
      { run: played, into: samples.play },
      { run: raw, into: samples.raw },
    ];
    for (const { run, into } of round % 2 === 0 ? turns : turns.toReversed()) {
      const values = await run();
      if (round >= 0) values.forEach((value, index) => into[index]?.push(value));
    }
    if (round >= 0) samples.node.push(await timeOf(["-e", "0"]));
  }
  const row = (title: string, own: readonly number[], other: readonly number[]): Row =>
    rowOf({ title, unit: "ms" }, [
      { server: "play", values: own },
      { server: "raw calls", values: other },
    ]);
  const sum = ([up = [], down = []]: readonly number[][]): number[] =>
    up.map((value, index) => value + (down[index] ?? NaN));
  const what = pods === 1 ? "one pod" : `${String(pods)} pods`;
  const [all, calls] = [sum(samples.play), sum(samples.raw)];
  return {
    rows: [
      row(`${what} up`, samples.play[0] ?? [], samples.raw[0] ?? []),
      row(`${what} down`, samples.play[1] ?? [], samples.raw[1] ?? []),
      row(`${what} up and down`, all, calls),
    ],
    added: {
      pods,
      playMs: medianOf(all.map((value, index) => value - (calls[index] ?? NaN))),
      nodeMs: 2 * medianOf(samples.node),
    },
  };
}

/** The calls are made by this process, which is connected already. */
export async function benchPlay(bed: TestBed, rounds: number): Promise<PlayReport> {
  const before = loadNow();
  const shim = await bed.startShim();
  const server: Server = {
    ...{ name: "dockershim", socket: shim.socket, cri: shim.cri, pid: shim.pid, mayBeSuspended: false },
  };
  const one = await compare(bed, server, 1, rounds);
  const many = await compare(bed, server, manyPods, Math.ceil(rounds / 10));
  return {
    ...{ machine: await machine(), load: [before, loadNow()], rounds },
    ...{ rows: [...one.rows, ...many.rows], added: [one.added, many.added] },
  };
}

export function formatPlay({
  machine: { cores, node, engine },
  load,
  rounds,
  rows,
  added,
}: PlayReport): string {
  return [
    `${String(cores)} cores, Node.js ${node}, Docker Engine ${engine}, ${String(rounds)} rounds,`,
    `load average ${load.map((value) => value.toFixed(1)).join(" to ")}`,
    "",
    ...tableOf(rows, "raw calls"),
    "",
    ...added.map(
      ({ pods, playMs, nodeMs }) =>
        `pods ${String(pods)}: play adds ${playMs.toFixed(0)} ms: ${nodeMs.toFixed(0)} ms are two starts of Node.js, ` +
        `${(playMs - nodeMs).toFixed(0)} ms are its own`,
    ),
    "",
  ].join("\n");
}
