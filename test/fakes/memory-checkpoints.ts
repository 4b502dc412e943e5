import type { CheckpointStore, PodSandboxCheckpoint } from "../../src/shim/ports/checkpoint-store.js";
import { Journal } from "./journal.js";

/** Checkpoints in memory; noted as `checkpoints.<verb>`. */
export class MemoryCheckpoints implements CheckpointStore {
  readonly stored = new Map<string, PodSandboxCheckpoint>();

  constructor(private readonly journal = new Journal()) {}

  put: CheckpointStore["put"] = (id, checkpoint) =>
    this.#do("put", [id, checkpoint], () => void this.stored.set(id, checkpoint));

  flushed: CheckpointStore["flushed"] = (id) => this.#do("flushed", [id], () => undefined);

  get: CheckpointStore["get"] = (id) => this.#do("get", [id], () => this.stored.get(id));

  remove: CheckpointStore["remove"] = (id) => this.#do("remove", [id], () => void this.stored.delete(id));

  list: CheckpointStore["list"] = () => this.#do("list", [], () => [...this.stored.keys()]);

  #do<T>(verb: keyof CheckpointStore, args: readonly unknown[], work: () => T): Promise<T> {
    return this.journal.do("checkpoints", verb, args, work);
  }
}
