import type { CheckpointStore, PodSandboxCheckpoint } from "../../src/shim/ports/checkpoint-store.js";
import { Journal } from "./journal.js";

/** Checkpoints in memory; noted as `checkpoints.<verb>`. */
export class MemoryCheckpoints implements CheckpointStore {
  readonly stored = new Map<string, PodSandboxCheckpoint>();

  constructor(private readonly journal = new Journal()) {}

  async put(id: string, checkpoint: PodSandboxCheckpoint): Promise<void> {
    await this.#do("put", [id, checkpoint], () => this.stored.set(id, checkpoint));
  }

  async flushed(id: string): Promise<void> {
    await this.#do("flushed", [id], () => undefined);
  }

  async get(id: string): Promise<PodSandboxCheckpoint | undefined> {
    return this.#do("get", [id], () => this.stored.get(id));
  }

  async remove(id: string): Promise<void> {
    await this.#do("remove", [id], () => this.stored.delete(id));
  }

  async list(): Promise<readonly string[]> {
    return this.#do("list", [], () => [...this.stored.keys()]);
  }

  #do<T>(verb: keyof CheckpointStore, args: readonly unknown[], work: () => T): Promise<T> {
    return this.journal.do("checkpoints", verb, args, work);
  }
}
