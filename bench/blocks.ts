/**
 * CRI servers on one engine, measured in turns of several rounds. While one server is measured, those that the bench may
 * suspend are stopped, because a server that follows the engine's events works for the pods of the others, too.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { CriClient } from "../test/support/cri-client.js";
import { cpuSecondsOfTrees } from "./server-processes.js";

export interface Server {
  readonly name: string;
  readonly socket: string;
  readonly cri: CriClient;
  /** Undefined when it is not known. */
  readonly pid: number | undefined;
  /** Whether it is stopped while another server is measured. */
  readonly mayBeSuspended: boolean;
}

/** What one round has measured, by title. */
export type Sample = Readonly<Record<string, number>>;

/** Seconds; NaN where the processes are not known. */
export interface Usage {
  readonly wallSeconds: number;
  readonly serverSeconds: number;
  readonly engineSeconds: number;
}

export interface BlockOptions {
  readonly rounds: number;
  /** Rounds that a server does without interruption. */
  readonly blockRounds: number;
  /** Uncounted rounds at the begin of a server's first block, and of each later one. */
  readonly warmUpRounds: readonly [first: number, later: number];
}

export interface Measured {
  readonly server: string;
  /** Round by round; the rounds of the servers belong together. */
  readonly samples: readonly Sample[];
  /** Per round, of each block. */
  readonly usages: readonly Usage[];
}

/** A server is quiet when it and the engine use no more than that of a core. */
const quietShare = 0.04;
const quietTimeoutMs = 10_000;

export class Stage {
  constructor(
    readonly servers: readonly Server[],
    private readonly enginePids: readonly number[],
    /** How long a server must be quiet before and after it is measured. */
    private readonly quietMs = 300,
  ) {}

  /** Measures `run` for every server. The order of the servers turns around from one block to the next. */
  async inBlocks(
    { rounds, blockRounds, warmUpRounds: [first, later] }: BlockOptions,
    run: (server: Server) => Promise<Sample>,
  ): Promise<readonly Measured[]> {
    const measured = this.servers.map((server) => ({
      server,
      samples: [] as Sample[],
      usages: [] as Usage[],
    }));
    for (let done = 0, block = 0; done < rounds; done += blockRounds, block += 1) {
      const count = Math.min(blockRounds, rounds - done);
      for (const { server, samples, usages } of block % 2 === 0 ? measured : measured.toReversed()) {
        await this.#suspendOthers(server);
        for (let round = 0; round < (block === 0 ? first : later); round += 1) await run(server);
        const usage = await this.usageOf(server, async () => {
          for (let round = 0; round < count; round += 1) samples.push(await run(server));
        });
        usages.push({
          wallSeconds: usage.wallSeconds / count,
          serverSeconds: usage.serverSeconds / count,
          engineSeconds: usage.engineSeconds / count,
        });
      }
    }
    this.resumeAll();
    return measured.map(({ server, ...rest }) => ({ server: server.name, ...rest }));
  }

  /** CPU times include the work that goes on after the answers, until server and engine are quiet. */
  async usageOf(server: Server, work: () => Promise<void>): Promise<Usage> {
    await this.#untilQuiet(server);
    const [serverBefore, engineBefore] = this.#seconds(server);
    const startMs = performance.now();
    await work();
    const wallSeconds = (performance.now() - startMs) / 1000;
    await this.#untilQuiet(server);
    const [serverAfter, engineAfter] = this.#seconds(server);
    return {
      wallSeconds,
      serverSeconds: serverAfter - serverBefore,
      engineSeconds: engineAfter - engineBefore,
    };
  }

  /** To be called at the end, also after a failure. */
  resumeAll(): void {
    for (const server of this.servers) signal(server, "SIGCONT");
  }

  /**
   * The engine keeps 1,024 events for a reader that is stopped and then waits for it, so every server works off its
   * events before the next one is measured.
   */
  async #suspendOthers(measured: Server): Promise<void> {
    this.resumeAll();
    for (const server of this.servers) await this.#untilQuiet(server);
    for (const server of this.servers) if (server !== measured) signal(server, "SIGSTOP");
  }

  async #untilQuiet(server: Server): Promise<void> {
    const deadline = performance.now() + quietTimeoutMs;
    const used = (): number =>
      this.#seconds(server)
        .filter((seconds) => !Number.isNaN(seconds))
        .reduce((sum, seconds) => sum + seconds, 0);
    for (let before = used(); performance.now() < deadline;) {
      await sleep(this.quietMs);
      const after = used();
      if (after - before <= (quietShare * this.quietMs) / 1000) return;
      before = after;
    }
  }

  #seconds({ pid }: Server): readonly [server: number, engine: number] {
    return [cpuSecondsOfTrees(pid === undefined ? [] : [pid]), cpuSecondsOfTrees(this.enginePids)];
  }
}

function signal({ pid, mayBeSuspended }: Server, name: NodeJS.Signals): void {
  if (pid === undefined || !mayBeSuspended) return;
  try {
    process.kill(pid, name);
  } catch {
    // It has ended; the next call to it says so.
  }
}
