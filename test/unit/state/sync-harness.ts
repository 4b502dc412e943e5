import type { CreateBody } from "../../../src/domain/create-body.js";
import { sandboxType, typeLabel } from "../../../src/domain/labels.js";
import { EngineLink } from "../../../src/shim/state/engine-link.js";
import { ReadModel } from "../../../src/shim/state/read-model.js";
import { StateSync, type StateSyncOptions } from "../../../src/shim/state/state-sync.js";
import type { SyncSubscriber } from "../../../src/shim/state/sync-subscriber.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { until } from "../../fakes/turns.js";

/** Limits that no test reaches unless it means to. */
const slowTimers: StateSyncOptions = {
  resyncIntervalMs: 60_000,
  inspectTimeoutMs: 60_000,
  retryMs: 60_000,
  inspectWaitMs: 60_000,
  firstInspectMs: 60_000,
  connectTimeoutMs: 60_000,
  reconnectMs: { first: 1, longest: 2 },
};

/** A StateSync with its model and link on a fake engine. */
export class Harness implements AsyncDisposable {
  readonly engine = new FakeEngine();
  readonly model = new ReadModel(() => undefined);
  readonly link = new EngineLink();
  readonly log = recordingLog();
  imageEvents = 0;
  otherContainers = 0;
  readonly changes: string[] = [];
  readonly sync: StateSync;

  constructor(options: Partial<StateSyncOptions> = {}, subscriber: SyncSubscriber = {}) {
    this.engine.images.add({ tags: ["busybox:latest"] });
    const { engine, model, link, log } = this;
    this.sync = new StateSync({ engine, model, link, log }, { ...slowTimers, ...options });
    this.sync.subscribe({
      imagesChanged: () => (this.imageEvents += 1),
      otherContainersChanged: () => (this.otherContainers += 1),
      inspected: (id, snapshot) => this.changes.push(`${id.slice(0, 4)} ${snapshot?.state.status ?? "gone"}`),
    });
    this.sync.subscribe(subscriber);
  }

  static async live(
    options: Partial<StateSyncOptions> = {},
    subscriber: SyncSubscriber = {},
  ): Promise<Harness> {
    const harness = new Harness(options, subscriber);
    await harness.start();
    return harness;
  }

  /** A live one, with a sandbox that was there before. */
  static async with(state: "running" | "created"): Promise<Harness & { readonly id: string }> {
    const harness = new Harness();
    const id = harness.sandbox("a", { running: state === "running" });
    await harness.start();
    return Object.assign(harness, { id });
  }

  /** A sandbox in the engine, created by another program. */
  sandbox(name: string, { running = true } = {}): string {
    const id = this.engine.containers.create(
      `k8s_POD_${name}_default_uid_0`,
      body({ [typeLabel]: sandboxType }),
    );
    if (running) this.engine.containers.start(id);
    return id;
  }

  async live(): Promise<void> {
    await until("the link is live", () => this.link.state.phase === "live");
  }

  async start(): Promise<void> {
    this.sync.start();
    await this.live();
  }

  statusOf(id: string): string | undefined {
    return this.model.snapshot(id)?.state.status;
  }

  messages(level: string): readonly string[] {
    return this.log.lines.filter((line) => line.level === level).map((line) => line.message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sync.stop();
  }
}

export function body(labels: Readonly<Record<string, string>>): CreateBody {
  return { Image: "busybox", Labels: labels, HostConfig: {} };
}
