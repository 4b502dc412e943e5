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
      await this.#removeListed({ [lifeLabel]: life });
    } finally {
      await rm(config.log_directory ?? "", { recursive: true, force: true });
    }
  }

  /** While no pod lives: removes what was listed only after its life. Answers how many pods that were. */
  async removeLate(lives: number): Promise<number> {
    const items = await this.#listed();
    const late = items.filter(({ labels }) => Number(labels[lifeLabel] ?? Infinity) < lives);
    for (const { labels } of late) await this.#removeListed({ [lifeLabel]: labels[lifeLabel] ?? "" });
    return late.length;
  }

  /** Of a server that may be about to find its engine again. */
  async #listed() {
    const deadlineMs = performance.now() + removalTimeoutMs;
    for (;;) {
      try {
        return (await this.cri.ListPodSandbox({})).items;
      } catch (error) {
        if (performance.now() > deadlineMs) throw error;
        await sleep(pauseMs);
      }
    }
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

  async #removeListed(label_selector: Readonly<Record<string, string>>): Promise<void> {
    const deadlineMs = performance.now() + removalTimeoutMs;
    for (;;) {
      try {
        const { items } = await this.#count("ListPodSandbox", (one) =>
          this.cri.ListPodSandbox({ filter: { label_selector } }, one),
        );
        if (items.length === 0) return;
        for (const { id } of items) await this.#remove(id);
      } catch (error) {
        if (performance.now() > deadlineMs) throw error;
        await sleep(pauseMs);
      }
    }
  }

  async #count<T>(rpc: string, call: (options: { readonly timeoutMs: number }) => Promise<T>): Promise<T> {
    try {
      return await call({ timeoutMs });
    } catch (error) {
      const title = `${rpc} ${status[(error as ServiceError).code]}`;
      this.failures.set(title, (this.failures.get(title) ?? 0) + 1);
      throw error;
    }
  }
}
