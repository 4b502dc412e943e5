import { hasNetworks } from "../../domain/reach.js";
import type { NetworkCleanUp } from "../ports/network-plugin.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { CoalescedWork } from "../../lib/sync/coalesced-work.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Engine } from "../ports/engine.js";
import type { HostSource } from "../ports/host.js";
import { isKnownEngine, removeOrphanedNetworks } from "./remove-orphaned-networks.js";
import { repairAfterStart, type RepairDeps } from "./repair.js";

interface Deps extends RepairDeps {
  readonly engine: Pick<Engine, "connect" | "listContainers">;
  readonly log: Logger;
}

interface Options extends HostSource {
  /** Undefined when the network plugin leaves nothing behind. */
  readonly orphanedNetworks: NetworkCleanUp | undefined;
  readonly stateDir: string;
}

/** After a start and after each return of the engine: repairs, and removes what dead pods hold of networks. */
export class CleanUps {
  readonly #stop = new AbortController();
  readonly #work = new CoalescedWork<NodeFacts>(async ({ engineId }) => {
    await this.#run("repair after start failed", () => repairAfterStart(this.deps, this.#stop.signal));
    await this.#run("clean-up of dead pods' networks failed", () => this.#removeNetworks(engineId));
  });

  constructor(
    private readonly deps: Deps,
    private readonly options: Options,
  ) {}

  /** To be called each time that the read model has become live. */
  request(facts: NodeFacts): void {
    this.#work.request(facts);
  }

  abort(): void {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
  }

  /** Resolves when nothing runs. */
  settled(): Promise<void> {
    return this.#work.settled();
  }

  async #removeNetworks(engineId: string): Promise<void> {
    const { engine, log } = this.deps;
    const { orphanedNetworks, stateDir, host } = this.options;
    const { signal } = this.#stop;
    if (orphanedNetworks === undefined || !hasNetworks(host().reach) || signal.aborted) return;
    if (await isKnownEngine(stateDir, engineId)) {
      await removeOrphanedNetworks(orphanedNetworks, stateDir, engine, log, signal);
    } else {
      log.warn(
        { engineId, stateDir },
        "engine has changed, keeping pod network resources (dockershim doctor network)",
      );
    }
  }

  async #run(failure: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#stop.signal.aborted) this.deps.log.error({ err: messageOf(error) }, failure);
    }
  }
}
