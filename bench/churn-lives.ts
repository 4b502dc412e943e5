/** Lives of pods as a kubelet has them made and removed, whatever fails meanwhile. */
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { status, type ServiceError } from "@grpc/grpc-js";
import { NamespaceMode } from "../src/domain/cri.js";
import type { CriClient } from "../test/support/cri-client.js";
import type { TestBed } from "../test/support/test-bed.js";
import { podCgroup } from "./bench-pods.js";

/** What a pod that comes and goes has beside its sandbox. */
interface Kind {
  readonly network: NamespaceMode;
  readonly container: boolean;
}

const { POD, NODE } = NamespaceMode;

/** In turns. Most lives are the engine's work: cheap ones, so that a run has many. */
const kinds: readonly Kind[] = [
  { network: POD, container: true },
  { network: NODE, container: false },
  { network: POD, container: false },
  { network: NODE, container: false },
  { network: POD, container: true },
  { network: NODE, container: false },
  { network: POD, container: false },
  { network: NODE, container: true },
  { network: POD, container: false },
  { network: NODE, container: false },
];

interface CallLimit {
  readonly timeoutMs: number;
}

const lifeLabel = "dockershim.bench/life";
/** A CNI plugin that hangs is ended at the deadline of its caller. */
const timeoutMs = 20_000;
const pauseMs = 1_000;
const removalTimeoutMs = 600_000;

export class Lives {
  /** Calls that failed, by RPC and code. */
  readonly failures = new Map<string, number>();

  constructor(
    private readonly bed: TestBed,
    private readonly cri: CriClient,
  ) {}

  /** Returns when the pod is gone. `slot`: of those that live at the same time, each has its own. */
  async live(index: number, slot: number): Promise<void> {
    const { network, container } = kinds[index % kinds.length] ?? { network: POD, container: true };
    const life = String(index);
    const config = this.bed.podConfig({
      labels: { [lifeLabel]: life },
      linux: {
        cgroup_parent: podCgroup(`slot${String(slot)}`),
        security_context: { namespace_options: { network } },
      },
    });
    try {
      const { pod_sandbox_id } = await this.#count("RunPodSandbox", (one) =>
        this.cri.RunPodSandbox({ config }, one),
      );
      if (container) await this.#runContainer(pod_sandbox_id, config);
      await this.#remove(pod_sandbox_id);
    } catch {
      // Counted; as a kubelet, it looks for what is there, and removes that.
      const filter = { label_selector: { [lifeLabel]: life } };
      await this.#removeAll(async (one) =>
        (await this.cri.ListPodSandbox({ filter }, one)).items.map(({ id }) => id),
      );
    } finally {
      await rm(config.log_directory ?? "", { recursive: true, force: true });
    }
  }

  /**
   * While no pod lives: removes what is listed of this run beside `kept`. A sandbox whose container was removed when the
   * server was killed has no labels and is only in lists without a filter, where the kubelet's garbage collection finds
   * it. Answers how many there were.
   */
  async removeLate(kept: ReadonlySet<string>): Promise<number> {
    const late = new Set<string>();
    await this.#removeAll(async (one) => {
      const { items } = await this.cri.ListPodSandbox({}, one);
      const ids = items
        .filter(
          ({ id, metadata }) => !kept.has(id) && metadata?.name.startsWith(`t-${this.bed.run}-`) === true,
        )
        .map(({ id }) => id);
      for (const id of ids) late.add(id);
      return ids;
    });
    return late.size;
  }

  async #runContainer(
    pod_sandbox_id: string,
    sandbox_config: ReturnType<TestBed["podConfig"]>,
  ): Promise<void> {
    const config = this.bed.containerConfig({ command: ["sleep", "100000"] });
    const { container_id } = await this.#count("CreateContainer", (one) =>
      this.cri.CreateContainer({ pod_sandbox_id, config, sandbox_config }, one),
    );
    await this.#count("StartContainer", (one) => this.cri.StartContainer({ container_id }, one));
    await this.#count("StopContainer", (one) => this.cri.StopContainer({ container_id, timeout: "0" }, one));
    await this.#count("RemoveContainer", (one) => this.cri.RemoveContainer({ container_id }, one));
  }

  async #remove(pod_sandbox_id: string): Promise<void> {
    await this.#count("StopPodSandbox", (one) => this.cri.StopPodSandbox({ pod_sandbox_id }, one));
    await this.#count("RemovePodSandbox", (one) => this.cri.RemovePodSandbox({ pod_sandbox_id }, one));
  }

  /** Until none is found. */
  async #removeAll(find: (options: CallLimit) => Promise<readonly string[]>): Promise<void> {
    const deadlineMs = performance.now() + removalTimeoutMs;
    for (;;) {
      try {
        const ids = await this.#count("ListPodSandbox", find);
        if (ids.length === 0) return;
        for (const id of ids) await this.#remove(id);
      } catch (error) {
        if (performance.now() > deadlineMs) throw error;
        await sleep(pauseMs);
      }
    }
  }

  async #count<T>(rpc: string, call: (options: CallLimit) => Promise<T>): Promise<T> {
    try {
      return await call({ timeoutMs });
    } catch (error) {
      const title = `${rpc} ${status[(error as ServiceError).code]}`;
      this.failures.set(title, (this.failures.get(title) ?? 0) + 1);
      throw error;
    }
  }
}
