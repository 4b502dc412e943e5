import { SingleFlight } from "../../lib/sync/single-flight.js";
import { nowNanoseconds } from "../../lib/time.js";
import type { Answer, FilesystemUsage } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Engine } from "../ports/engine.js";
import type { HostSource } from "../ports/host.js";

/** Sizing all layers is slow on the engine's side, and garbage collection asks every minute or so. */
const freshForMs = 30_000;

/** Disk use of the images, each shared layer once. The time stamp is that of the measurement. */
export class ImageDiskUsage {
  readonly #flight = new SingleFlight<Answer<FilesystemUsage>>();
  /** By a clock that is never set. */
  #latest: { readonly usage: Answer<FilesystemUsage>; readonly readAtMs: number } | undefined;

  constructor(private readonly deps: { readonly engine: Pick<Engine, "imageDiskUsage"> } & HostSource) {}

  async read(facts: NodeFacts, signal: AbortSignal): Promise<Answer<FilesystemUsage>> {
    if (this.#latest !== undefined && performance.now() - this.#latest.readAtMs <= freshForMs)
      return this.#latest.usage;
    const usage = await this.#flight.run("image file system", signal, (shared) =>
      this.#measure(facts, shared),
    );
    this.#latest = { usage, readAtMs: performance.now() };
    return usage;
  }

  async #measure(facts: NodeFacts, signal: AbortSignal): Promise<Answer<FilesystemUsage>> {
    const { engine, host } = this.deps;
    const mountpoint = await host().imageDirectory(facts);
    const [usedBytes, usage] = await Promise.all([
      engine.imageDiskUsage(signal),
      host().fileSystemUsage(mountpoint),
    ]);
    return {
      timestamp: String(nowNanoseconds()),
      fs_id: { mountpoint },
      used_bytes: { value: String(usedBytes ?? usage?.usedBytes ?? 0) },
      inodes_used: { value: String(usage?.usedInodes ?? 0) },
    };
  }
}
