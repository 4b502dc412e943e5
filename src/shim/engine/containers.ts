/** The engine calls that act on one container. */
import { sleep, withDeadline } from "../lib/abort.js";
import type { CreateBody, DockerResources } from "../domain/create-body.js";
import type { ListedContainer, Snapshot } from "../domain/snapshot.js";
import type { ContainerFilter } from "../ports/engine.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import type { EngineReading } from "../domain/resource-reading.js";
import { parseJson } from "./http/answer.js";
import { containerEssentials, listedContainerEssentials } from "./essentials.js";
import { asObject, numberOf } from "./http/json.js";
import { toListedContainer, toSnapshot } from "./snapshot.js";
import { toEngineReading } from "./stats.js";

/** What the engine may take beyond the grace period of a stop: it kills, then waits for the kill. */
const stopMarginMs = 10_000;
/** 24 days in seconds. Docker's own arithmetic overflows at 292 years, a timer at 24.8 days. */
const longestGraceSeconds = 24 * 24 * 3600;
const removalPollMs = 50;
const removalInProgress = /removal of container \S+ is already in progress/;

export class Containers {
  constructor(
    private readonly client: EngineClient,
    private readonly shortTimeoutMs: number,
  ) {}

  async list(
    { labelKey, labelValue, ancestor }: ContainerFilter,
    signal: AbortSignal,
    onProgress?: () => void,
  ): Promise<readonly ListedContainer[]> {
    const label = labelValue === undefined ? labelKey : `${labelKey ?? ""}=${labelValue}`;
    const action = "list containers";
    const filters = {
      ...(label === undefined ? {} : { label: [label] }),
      ...(ancestor === undefined ? {} : { ancestor: [ancestor] }),
    };
    const query = { all: "1", filters: JSON.stringify(filters) };
    return this.client.list(
      { action, method: "GET", path: ["containers", "json"], query, concurrency: "read" },
      { essentials: listedContainerEssentials(labelKey), convert: toListedContainer, onProgress },
      signal,
    );
  }

  async inspect(id: string, signal: AbortSignal): Promise<Snapshot | undefined> {
    const action = `inspect container "${id}"`;
    const answer = await this.client.request(
      {
        ...{ action, method: "GET", path: ["containers", id, "json"], concurrency: "read" },
        essentials: containerEssentials,
      },
      signal,
    );
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw refusalOf(answer);
    const snapshot = toSnapshot(parseJson(answer.body.toString("utf8"), action));
    return answer.isTrimmed ? { ...snapshot, isTrimmed: true } : snapshot;
  }

  async stats(id: string, signal: AbortSignal): Promise<EngineReading | undefined> {
    const json = await this.client.jsonIfThere(
      {
        action: `read the statistics of container "${id}"`,
        ...{ method: "GET", path: ["containers", id, "stats"], concurrency: "read" },
        // Without one-shot the engine waits for a second sample, which takes it a second or two.
        query: { stream: "false", "one-shot": "true" },
      },
      signal,
    );
    return json === undefined ? undefined : toEngineReading(json);
  }

  async writableLayerBytes(id: string, signal: AbortSignal): Promise<number | undefined> {
    const action = `size container "${id}"`;
    const query = { size: "true" };
    const json = await this.client.jsonIfThere(
      {
        ...{ action, method: "GET", path: ["containers", id, "json"], query, concurrency: "read" },
        essentials: containerEssentials,
      },
      signal,
    );
    return json === undefined ? undefined : numberOf(asObject(json), "SizeRw");
  }

  async create(name: string, body: CreateBody, signal: AbortSignal): Promise<string> {
    const request: EngineRequest = {
      action: `create container "${name}"`,
      method: "POST",
      path: ["containers", "create"],
      query: { name },
      json: body,
      concurrency: "write",
    };
    return this.client.createdId(request, signal);
  }

  async start(id: string, signal: AbortSignal): Promise<"started" | "already"> {
    const answer = await this.client.request(this.#post(id, "start"), signal);
    if (answer.status === 204) return "started";
    if (answer.status === 304) return "already";
    throw refusalOf(answer);
  }

  async stop(
    id: string,
    graceSeconds: number,
    signal: AbortSignal,
  ): Promise<"stopped" | "already" | "missing"> {
    const grace = Math.min(Math.max(Math.ceil(graceSeconds), 0), longestGraceSeconds);
    const request: EngineRequest = {
      ...this.#post(id, "stop", { t: String(grace) }),
      repeatable: true,
      // A wait of up to the grace period must not keep other writes from the engine.
      concurrency: "unlimited",
      timeoutMs: grace * 1000 + stopMarginMs,
    };
    const answer = await this.client.request(request, signal);
    if (answer.status === 204) return "stopped";
    if (answer.status === 304) return "already";
    if (answer.status === 404) return "missing";
    throw refusalOf(answer);
  }

  async kill(
    id: string,
    signalName: string,
    signal: AbortSignal,
  ): Promise<"killed" | "notRunning" | "missing"> {
    const answer = await this.client.request(this.#post(id, "kill", { signal: signalName }), signal);
    if (answer.status === 204) return "killed";
    if (answer.status === 409) return "notRunning";
    if (answer.status === 404) return "missing";
    throw refusalOf(answer);
  }

  async remove(
    id: string,
    options: { readonly force: boolean },
    signal: AbortSignal,
  ): Promise<"removed" | "missing"> {
    const action = `remove container "${id}"`;
    const query = { v: "1", force: options.force ? "1" : "0" };
    const request: EngineRequest = {
      action,
      method: "DELETE",
      path: ["containers", id],
      query,
      concurrency: "write",
      repeatable: true,
    };
    return withDeadline(signal, this.shortTimeoutMs, action, async (linked) => {
      for (;;) {
        const answer = await this.client.request(request, linked);
        if (answer.status === 204) return "removed";
        if (answer.status === 404) return "missing";
        const error = refusalOf(answer);
        if (answer.status !== 409 || !removalInProgress.test(error.message)) throw error;
        if (await this.#waitForRemoval(id, linked)) return "removed";
        // The other removal failed and left the container behind: this one tries for itself.
      }
    });
  }

  async update(id: string, resources: DockerResources, signal: AbortSignal): Promise<void> {
    await this.client.json({ ...this.#post(id, "update"), json: resources, repeatable: true }, signal);
  }

  /** No deadline of its own: it takes as long as the container has memory. */
  async checkpoint(
    id: string,
    { checkpointId, directory }: { readonly checkpointId: string; readonly directory: string },
    signal: AbortSignal,
  ): Promise<void> {
    const request: EngineRequest = {
      action: `checkpoint container "${id}"`,
      method: "POST",
      path: ["containers", id, "checkpoints"],
      json: { CheckpointID: checkpointId, CheckpointDir: directory, Exit: false },
      concurrency: "unlimited",
      timeoutMs: Infinity,
    };
    const answer = await this.client.request(request, signal);
    if (answer.status !== 201) throw refusalOf(answer);
  }

  /** Whether the container is gone, else nobody is removing it any longer. */
  async #waitForRemoval(id: string, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      await sleep(removalPollMs, signal);
      const snapshot = await this.inspect(id, signal);
      if (snapshot === undefined) return true;
      if (snapshot.state.status !== "removing") return false;
    }
  }

  #post(id: string, verb: string, query: Readonly<Record<string, string>> = {}): EngineRequest {
    const action = `${verb} container "${id}"`;
    return { action, method: "POST", path: ["containers", id, verb], query, concurrency: "write" };
  }
}
