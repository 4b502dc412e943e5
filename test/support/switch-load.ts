/**
 * A client that works as a kubelet does, while the server behind its socket changes: it lists pods and
 * containers again and again, and pods come and go. It notes everything that a kubelet would act on wrongly.
 */
import { mkdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { status as codes, type ServiceError } from "@grpc/grpc-js";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import type { CriClient } from "./cri-client.js";
import { runLabel, type TestBed } from "./test-bed.js";

/** What must stay as it is while the pod lives. */
export interface PodFacts {
  readonly sandboxId: string;
  readonly created: string;
  readonly attempt: number;
  readonly ips: readonly string[];
  readonly containers: readonly { id: string; started: string; attempt: number; state: number }[];
}

export interface LoadCounts {
  lists: number;
  /** Lists that got no answer because no server was there. */
  gaps: number;
  /** Pods of the load that ran to their end. */
  lived: number;
  /** Pods of the load in whose life a call failed, and that were removed then. */
  disturbed: number;
}

const listEveryMs = 200;
const listTimeoutMs = 20_000;

export class SwitchLoad {
  readonly counts: LoadCounts = { lists: 0, gaps: 0, lived: 0, disturbed: 0 };
  /** What a kubelet would have acted on: a pod or container that is missing or not ready although it runs. */
  readonly wrong: string[] = [];
  /** Sandboxes that run, with their containers that run. */
  readonly #running = new Map<string, Set<string>>();
  #isOver = false;
  #tasks: Promise<void>[] = [];

  constructor(
    private readonly bed: TestBed,
    private readonly cri: CriClient,
  ) {}

  start({ workers }: { readonly workers: number }): void {
    this.#tasks = [this.#relist(), ...Array.from({ length: workers }, () => this.#churn())];
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#tasks);
  }

  /** A pod with two containers that stays. */
  async runLastingPod(): Promise<PodFacts> {
    const { sandboxId } = await this.#run({ containers: ["one", "two"] });
    return this.facts(sandboxId);
  }

  async facts(sandboxId: string): Promise<PodFacts> {
    const { status } = await this.cri.PodSandboxStatus({ pod_sandbox_id: sandboxId });
    const { containers } = await this.cri.ListContainers({ filter: { pod_sandbox_id: sandboxId } });
    const statuses = await Promise.all(
      containers.map(async ({ id }) => (await this.cri.ContainerStatus({ container_id: id })).status),
    );
    return {
      sandboxId,
      created: String(status?.created_at),
      attempt: status?.metadata?.attempt ?? -1,
      ips: [status?.network?.ip ?? "", ...(status?.network?.additional_ips ?? []).map(({ ip }) => ip)],
      containers: statuses
        .map((one) => ({
          id: one?.id ?? "",
          started: String(one?.started_at),
          attempt: one?.metadata?.attempt ?? -1,
          state: Number(one?.state),
        }))
        .sort((left, right) => (left.id < right.id ? -1 : 1)),
    };
  }

  /** As a kubelet removes what it does not want any more. */
  async removeAll(): Promise<void> {
    this.#running.clear();
    for (;;) {
      const { items } = await this.cri.ListPodSandbox({});
      const own = items.filter(
        ({ labels, metadata }) => labels[runLabel] === this.bed.run || isOurs(metadata),
      );
      if (own.length === 0) return;
      for (const { id } of own) await this.#remove(id);
    }
  }

  /** Lists as the kubelet's relist: a pod that ran before the question and after the answer must be in it. */
  async #relist(): Promise<void> {
    while (!this.#isOver) {
      const before = new Map([...this.#running].map(([id, containers]) => [id, [...containers]]));
      try {
        const options = { timeoutMs: listTimeoutMs };
        const { items } = await this.cri.ListPodSandbox({}, options);
        const { containers } = await this.cri.ListContainers({}, options);
        this.counts.lists += 1;
        const sandboxes = new Map(items.map(({ id, state }) => [id, state]));
        const states = new Map(containers.map(({ id, state }) => [id, state]));
        for (const [id, own] of before) {
          if (!this.#running.has(id)) continue;
          const state = sandboxes.get(id);
          if (state !== PodSandboxState.SANDBOX_READY) this.#note(`sandbox ${id}`, state);
          for (const container of own) {
            if (this.#running.get(id)?.has(container) !== true) continue;
            const found = states.get(container);
            if (found !== ContainerState.CONTAINER_RUNNING) this.#note(`container ${container}`, found);
          }
        }
      } catch (error) {
        if (codeOf(error) === codes.UNAVAILABLE) this.counts.gaps += 1;
        else this.wrong.push(`list: ${String(error)}`);
      }
      await sleep(listEveryMs);
    }
  }

  #note(subject: string, state: number | string | undefined): void {
    this.wrong.push(`${subject}: ${state === undefined ? "missing in a list" : `state ${String(state)}`}`);
  }

  /** Pods that live for a moment, one after the other. What a gap disturbs is removed, as a kubelet does. */
  async #churn(): Promise<void> {
    while (!this.#isOver) {
      const name = this.bed.newName("load");
      try {
        const { sandboxId, containerIds } = await this.#run({ name, containers: ["main"] });
        await sleep(300);
        this.#running.get(sandboxId)?.clear();
        for (const id of containerIds) await this.cri.StopContainer({ container_id: id, timeout: "5" });
        await this.#remove(sandboxId);
        this.counts.lived += 1;
      } catch (error) {
        this.counts.disturbed += 1;
        await this.#removePodsNamed(name);
        const code = codeOf(error);
        // The server that was ended did not answer; a call that it had begun may have left the name taken.
        if (code !== codes.UNAVAILABLE && code !== codes.CANCELLED) this.wrong.push(`load: ${String(error)}`);
      }
    }
  }

  async #run({ name, containers }: { name?: string; containers: readonly string[] }): Promise<{
    readonly sandboxId: string;
    readonly containerIds: readonly string[];
  }> {
    const metadata = { name: name ?? this.bed.newName("lasting"), namespace: "switches", attempt: 0 };
    const config = this.bed.podConfig({ metadata: { ...metadata, uid: `uid-${metadata.name}` } });
    // As the kubelet does: cri-dockerd makes no directory for logs.
    await mkdir(config.log_directory ?? "", { recursive: true });
    const { pod_sandbox_id: sandboxId } = await this.cri.RunPodSandbox({ config });
    this.#running.set(sandboxId, new Set());
    const containerIds: string[] = [];
    for (const container of containers) {
      const { container_id } = await this.cri.CreateContainer({
        pod_sandbox_id: sandboxId,
        config: this.bed.containerConfig({ metadata: { name: container, attempt: 3 } }),
        sandbox_config: config,
      });
      await this.cri.StartContainer({ container_id });
      this.#running.get(sandboxId)?.add(container_id);
      containerIds.push(container_id);
    }
    return { sandboxId, containerIds };
  }

  async #remove(sandboxId: string): Promise<void> {
    this.#running.delete(sandboxId);
    await this.cri.StopPodSandbox({ pod_sandbox_id: sandboxId });
    await this.cri.RemovePodSandbox({ pod_sandbox_id: sandboxId });
  }

  /** Until no server knows of one, also through gaps. */
  async #removePodsNamed(name: string): Promise<void> {
    for (;;) {
      try {
        const { items } = await this.cri.ListPodSandbox({});
        const own = items.filter(({ metadata }) => metadata?.name === name);
        for (const { id } of own) await this.#remove(id);
        if (own.length === 0) return;
      } catch (error) {
        if (codeOf(error) !== codes.UNAVAILABLE && this.#isOver) throw error;
        await sleep(listEveryMs);
      }
    }
  }
}

/** A sandbox of which only a checkpoint is left has no labels. */
function isOurs(metadata: { readonly namespace: string } | null): boolean {
  return metadata?.namespace === "switches";
}

function codeOf(error: unknown): number | undefined {
  return (error as ServiceError).code;
}
