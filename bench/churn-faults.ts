/** What goes wrong on a node while pods come and go, on purpose. */
import { execFile } from "node:child_process";
import { access, chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { hasCode } from "../src/lib/files/file-errors.js";
import { exampleConflist } from "../src/network/example/example-conflist.js";
import { pluginDirs } from "../test/support/isolated-engine.js";
import type { ShimProcess } from "../test/support/shim-process.js";
import type { TestBed } from "../test/support/test-bed.js";

const run = promisify(execFile);

const stateMebibytes = 128;
const fullMs = 5_000;
/** The second kill of two: sometimes before the server serves, sometimes while it repairs what the first left. */
const secondKillMs = 1_500;
/** A share of the batches at the beginning, in which the server is killed. Then one process lives to the end. */
const killingShare = 0.1;
/** In each batch of that share: each of two starts is one kill. */
const killsPerBatch = 3;
/** Batches between two kills of the engine, and between two full disks. */
const rareEvery = 5;
const pauseMs = 3_000;
/** Of each batch, at its beginning: its end waits for no plugin. */
const hangingMs = 30_000;

export type FaultCounts = Readonly<Record<string, number>>;

/** Where the network plugins of the churn leave something. */
export interface FaultyNetwork {
  readonly results: string;
  readonly addresses: string;
}

export interface FaultyNode {
  readonly flags: readonly string[];
  readonly network: FaultyNetwork;
}

/** A state directory of limited size, and a pod network whose plugin fails now and then. */
export async function makeFaultyNode(bed: TestBed, directory: string): Promise<FaultyNode> {
  const state = join(directory, "state");
  await mkdir(state, { mode: 0o700 });
  await run("mount", ["-t", "tmpfs", "-o", `size=${String(stateMebibytes)}m,mode=0700`, "tmpfs", state]);
  bed.onClose(() => run("umount", ["-l", state]));
  const network = { results: join(directory, "cni-cache"), addresses: join(directory, "addresses") };
  const confDir = join(directory, "net.d");
  const binDir = join(directory, "bin");
  for (const path of [confDir, binDir]) await mkdir(path);
  const list = JSON.parse(
    exampleConflist({ podCidrs: ["10.98.0.0/16"], networkName: "churn", bridge: "churn0", plugins: [] }),
  ) as { plugins: { type: string; ipam?: object }[] };
  for (const plugin of list.plugins) {
    if (plugin.type !== "bridge") continue;
    plugin.type = "faulty-bridge";
    plugin.ipam = { ...plugin.ipam, dataDir: network.addresses };
  }
  await writeFile(join(confDir, "10-churn.conflist"), JSON.stringify(list));
  const plugin = join(binDir, "faulty-bridge");
  await writeFile(plugin, faultyPlugin(await findBridge(), directory));
  await chmod(plugin, 0o755);
  bed.onClose(() => run("ip", ["link", "delete", "churn0"]).catch(() => undefined));
  return {
    network,
    flags: [
      "--network-plugin=cni",
      `--cni-conf-dir=${confDir}`,
      `--cni-bin-dir=${[binDir, ...pluginDirs].join(",")}`,
      `--cni-cache-dir=${network.results}`,
    ],
  };
}

const hangingFile = "hanging";

/**
 * The plugin before the plugin, by the last byte of the sandbox's id: ADD fails before or after the network is there, or
 * hangs; the first DEL fails or hangs.
 */
function faultyPlugin(bridge: string, directory: string): string {
  return `#!/bin/sh
hanging() { [ -e "${join(directory, hangingFile)}" ]; }
failed() { echo '{"cniVersion":"0.4.0","code":100,"msg":"the bench has '$CNI_COMMAND' fail"}'; exit 1; }
first() { mkdir "${directory}/$CNI_COMMAND-$CNI_CONTAINERID" 2>/dev/null; }
case $CNI_COMMAND:$CNI_CONTAINERID in
  ADD:*00 | ADD:*01) failed ;;
  ADD:*02 | ADD:*03) "${bridge}" >/dev/null; failed ;;
  ADD:*[048]4) hanging && exec sleep 1000 ;;
  ADD:*[048]5) hanging && { "${bridge}" >/dev/null; exec sleep 1000; } ;;
  DEL:*06 | DEL:*07) first && failed ;;
  DEL:*08) first && { "${bridge}" >/dev/null; failed; } ;;
  DEL:*[048]9) hanging && first && { sleep 15; failed; } ;;
esac
exec "${bridge}"
`;
}

async function findBridge(): Promise<string> {
  for (const directory of pluginDirs) {
    const path = join(directory, "bridge");
    try {
      await access(path);
      return path;
    } catch {
      // The next directory may have it.
    }
  }
  throw new Error(`no CNI plugin "bridge" in ${pluginDirs.join(", ")}`);
}

/** Has the faults of each batch happen while its pods come and go. */
export class Faults {
  readonly #counts: Record<string, number> = {};
  #shim: ShimProcess;

  constructor(
    private readonly node: {
      readonly directory: string;
      readonly batches: number;
      readonly restartEngine: string | undefined;
      readonly start: () => Promise<ShimProcess>;
      /** Returns as soon as the socket takes connections. */
      readonly startEarly: () => Promise<ShimProcess>;
    },
    first: ShimProcess,
  ) {
    this.#shim = first;
  }

  /** The process that serves now. */
  get shim(): ShimProcess {
    return this.#shim;
  }

  get counts(): FaultCounts {
    return this.#counts;
  }

  /** No kill of the server comes after that batch. */
  get lastKillingBatch(): number {
    return Math.ceil(this.node.batches * killingShare);
  }

  async during(batch: number): Promise<void> {
    const killing = batch < this.lastKillingBatch;
    const hanging = this.#haveHanging();
    hanging.catch(() => undefined);
    await sleep(pauseMs);
    for (let kill = 0; killing && kill < killsPerBatch; kill += 1) {
      await this.#killServer();
      await sleep(pauseMs);
    }
    if ((killing && batch % 2 === 1) || batch % rareEvery === 1) await this.#killEngine();
    if ((killing && batch % 2 === 0) || batch % rareEvery === 3) await this.#fillDisk();
    await hanging;
  }

  /** While the file is there, some runs of plugins do not end. */
  async #haveHanging(): Promise<void> {
    const path = join(this.node.directory, hangingFile);
    await writeFile(path, "");
    await sleep(hangingMs);
    await rm(path);
  }

  async #killServer(): Promise<void> {
    await this.#shim.kill();
    const early = await this.node.startEarly();
    await sleep(Math.random() * secondKillMs);
    await early.kill();
    this.#shim = await this.node.start();
    this.#count("the server killed", 2);
  }

  async #killEngine(): Promise<void> {
    const { restartEngine } = this.node;
    if (restartEngine === undefined) return;
    await run("sh", ["-c", restartEngine]);
    this.#count("the engine killed");
  }

  async #fillDisk(): Promise<void> {
    const path = join(this.#shim.stateDirectory, "ballast");
    const chunk = Buffer.alloc(1024 * 1024);
    try {
      for (;;) await writeFile(path, chunk, { flag: "a" });
    } catch (error) {
      if (!hasCode(error, "ENOSPC")) throw error;
    }
    this.#count("the disk full for 5 s");
    await sleep(fullMs);
    await rm(path);
  }

  #count(fault: string, times = 1): void {
    this.#counts[fault] = (this.#counts[fault] ?? 0) + times;
  }
}
