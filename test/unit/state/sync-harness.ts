import type { CreateBody } from "../../../src/domain/create-body.js";
import { sandboxType, typeLabel } from "../../../src/domain/labels.js";
import type { EngineEvent } from "../../../src/shim/ports/engine.js";
import { EngineLink } from "../../../src/shim/state/engine-link.js";
import { ReadModel } from "../../../src/shim/state/read-model.js";
import { StateSync, type StateSyncDeps } from "../../../src/shim/state/state-sync.js";
import type { StateSyncOptions } from "../../../src/shim/state/state-sync-options.js";
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
  readonly imageEvents: EngineEvent[] = [];
  otherContainers = 0;
  readonly changes: string[] = [];
  readonly sync: StateSync;

  constructor(options: Partial<StateSyncOptions> = {}, deps: Partial<StateSyncDeps> = {}) {
    this.engine.images.add({ tags: ["busybox:latest"] });
    this.sync = new StateSync(
      {
        ...{ engine: this.engine, model: this.model, link: this.link, log: this.log },
        onConnect: () => Promise.resolve(),
        onLive: () => undefined,
        onImageEvent: (event) => this.imageEvents.push(event),
        onOtherContainer: () => (this.otherContainers += 1),
        onChange: (id, snapshot) =>
          this.changes.push(`${id.slice(0, 4)} ${snapshot?.state.status ?? "gone"}`),
        ...deps,
      },
      { ...slowTimers, ...options },
    );
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
