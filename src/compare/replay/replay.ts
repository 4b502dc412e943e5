/** Repeats the calls of a recording at a CRI server, and compares its answers with the recorded ones. */
import { mkdir } from "node:fs/promises";
import type { UnaryRpc } from "../../client/cri-connection.js";
import { sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { textAt } from "../answers/answer-shape.js";
import type { AskedServer } from "../answers/asked-server.js";
import type { CompareOptions, Difference } from "../answers/compare-answers.js";
import type { RecordedCall } from "../record/recording.js";
import { ReplayImages } from "./replay-images.js";
import { asList, concernsOnePod, ofOtherObjects, replayRule } from "./replay-rules.js";
import { ReplayTarget } from "./replay-target.js";
import type { ReportBuilder } from "../shadow/shadow-report.js";

export interface ReplayOptions {
  readonly calls: AsyncIterable<RecordedCall>;
  readonly endpoint: Pick<AskedServer, "ask">;
  readonly fast: boolean;
  /** An empty directory, for logs. */
  readonly directory: string;
  readonly compare: (rpc: string, left: object, right: object, options: CompareOptions) => Difference[];
  readonly compareOptions: CompareOptions;
  readonly report: ReportBuilder;
  readonly signal: AbortSignal;
  /** For tests. */
  readonly exists?: (path: string) => boolean;
}

export interface Replayed {
  readonly played: number;
  /** Counts by reason. */
  readonly notPlayed: Readonly<Record<string, number>>;
  readonly missingImages: readonly string[];
  /** Host paths of mounts that were left out. */
  readonly missingPaths: readonly string[];
  /** Keys of labels that no request had: those of images. They are not compared. */
  readonly imageLabels: readonly string[];
  /** Pods that could not be removed at the end. */
  readonly left: readonly string[];
}

/** Calls are in the order of their ends; so many are looked at to find their order at the begin. */
const windowCalls = 500;
const callsAtOnce = 64;
const cleanUpMs = 120_000;

interface Pending {
  readonly pod: string;
  /** In the time of the recording. */
  readonly endedMs: number;
  readonly done: Promise<void>;
}

export async function replay(options: ReplayOptions): Promise<Replayed> {
  return new Replay(options).run();
}

class Replay {
  readonly #target: ReplayTarget;
  readonly #images: ReplayImages;
  readonly #pending = new Set<Pending>();
  readonly #notPlayed: Record<string, number> = {};
  readonly #missingImages = new Set<string>();
  readonly #sandboxes = new Set<string>();
  #played = 0;

  constructor(private readonly options: ReplayOptions) {
    this.#images = new ReplayImages(options.endpoint);
    this.#target = new ReplayTarget(options.directory, options.exists, (image) => this.#images.isUsed(image));
  }

  async run(): Promise<Replayed> {
    const { calls, fast, signal } = this.options;
    const startedMs = performance.now();
    let left: readonly string[];
    try {
      for await (const call of byStart(calls)) {
        const waitMs = call.at - (performance.now() - startedMs);
        if (!fast && waitMs > 0) await sleep(waitMs, signal);
        signal.throwIfAborted();
        await this.#start(asList(call));
      }
      await this.#settled();
      left = await this.#cleanUp();
    } catch (error) {
      await this.#settled();
      left = await this.#cleanUp();
      const rest = left.length === 0 ? "all pods were removed" : `pods that are left: ${left.join(" ")}`;
      throw ShimError.from(error).within(`replay (${rest})`);
    }
    return {
      played: this.#played,
      notPlayed: this.#notPlayed,
      missingImages: [...this.#missingImages],
      missingPaths: [...this.#target.missingPaths],
      imageLabels: [...this.#target.imageLabels],
      left,
    };
  }

  async #settled(): Promise<void> {
    await Promise.allSettled([...this.#pending].map(({ done }) => done));
  }

  async #start(call: RecordedCall): Promise<void> {
    const { rpc, request } = call;
    if (request === undefined || call.truncated === true || call.end !== undefined) {
      this.#skip("cancelled, or not recorded whole");
      return;
    }
    if (replayRule(rpc) === undefined) {
      this.#skip(`${rpc} is not played`);
      return;
    }
    while (this.#pending.size >= callsAtOnce) await Promise.race([...this.#pending].map(({ done }) => done));
    const pod = this.#target.podOf(call);
    const before = [...this.#pending].filter(
      (other) => other.endedMs <= call.at && (pod === "" || other.pod === pod || other.pod === ""),
    );
    const done = Promise.allSettled(before.map((other) => other.done))
      .then(() => this.#play(call))
      .catch((error: unknown) =>
        this.#skip(`no answer: ${error instanceof Error ? error.message.slice(0, 200) : ""}`),
      )
      .finally(() => this.#pending.delete(pending));
    const pending: Pending = { pod, endedMs: call.at + call.ms, done };
    this.#pending.add(pending);
  }

  async #play(call: RecordedCall): Promise<void> {
    const { endpoint, signal } = this.options;
    const { rpc } = call;
    const unknown = this.#target.unknownIds(call.request ?? {});
    // A call that failed at the recorded server, too, must not change a pod that has this id here.
    if (unknown.length > 0 && (call.error === undefined || concernsOnePod(rpc))) {
      this.#skip("of a pod from before the recording, or one that was not made here");
      return;
    }
    let request = this.#target.request(call);
    const image = textAt(request["image"], "image");
    if (rpc === "RemoveImage" && !(await this.#images.mayRemove(image, signal))) {
      this.#skip("RemoveImage of an image that the replay has not pulled");
      return;
    }
    if (rpc === "PullImage") await this.#images.beforePull(signal);
    if (rpc === "RunPodSandbox" || rpc === "CreateContainer") {
      const config = rpc === "RunPodSandbox" ? request["config"] : request["sandbox_config"];
      const logs = textAt(config, "log_directory");
      if (logs !== "") await mkdir(logs, { recursive: true, mode: 0o700 });
    }
    if (rpc === "CreateContainer") {
      this.#images.use(call);
      request = await this.#withImage(request);
    }
    // The recording has the messages of this RPC.
    // The id of a pod comes with the answer alone, and by its id it is removed.
    const limit = rpc === "RunPodSandbox" ? new AbortController().signal : signal;
    const answer = await endpoint.ask(rpc as UnaryRpc, request, limit);
    this.#played += 1;
    if (rpc === "PullImage") await this.#images.afterPull(image, signal);
    const sandbox = rpc === "RunPodSandbox" ? textAt(answer, "pod_sandbox_id") : "";
    if (sandbox !== "") this.#sandboxes.add(sandbox);
    if (rpc === "RemovePodSandbox" && !("error" in answer))
      this.#sandboxes.delete(textAt(request, "pod_sandbox_id"));
    this.#target.learn(call, answer as Readonly<Record<string, unknown>>);
    this.#compare(call, answer as Readonly<Record<string, unknown>>);
  }

  /** By the name that the pod has, where the recorded id is of an image that this node does not have. */
  async #withImage(request: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, unknown>>> {
    const { config } = request as { config?: { image?: Readonly<Record<string, unknown>> } };
    const id = textAt(config?.image, "image");
    if (id === "" || (await this.#hasImage(id))) return request;
    const name = textAt(config?.image, "user_specified_image");
    if (name !== "" && (await this.#hasImage(name)))
      return { ...request, config: { ...config, image: { ...config?.image, image: name } } };
    this.#missingImages.add(name === "" ? id : name);
    return request;
  }

  async #hasImage(image: string): Promise<boolean> {
    return (await this.#images.idOf(image, this.options.signal)) !== "";
  }

  #compare(call: RecordedCall, answer: Readonly<Record<string, unknown>>): void {
    const { compare, report } = this.options;
    const compareOptions = { ...this.options.compareOptions, volatile: ofOtherObjects };
    const { rpc, error, response = {} } = call;
    const left =
      error === undefined ? this.#target.expected(rpc, response) : { error: this.#target.error(error) };
    // Ids of new objects differ, and output is not in the recording.
    const isSuccess = error === undefined && !("error" in answer);
    const isChange = isSuccess && replayRule(rpc) === "play";
    const isEqual = isSuccess && replayRule(rpc) === "ask";
    const counts = report.counts(rpc);
    counts.observed += 1;
    counts.compared += 1;
    const differences =
      isEqual || (isChange && rpc !== "ExecSync")
        ? []
        : compare(rpc, withoutOutput(left), withoutOutput(this.#target.actual(answer)), {
            ...compareOptions,
            subject: this.#target.podOf(call) || "server",
          }).filter(({ left: recorded }) => !hasSecret(recorded));
    if (differences.length === 0) counts.equal += 1;
    for (const difference of differences) report.add(difference, difference, new Date().toISOString());
  }

  #skip(reason: string): void {
    this.#notPlayed[reason] = (this.#notPlayed[reason] ?? 0) + 1;
  }

  /** Removes the pods that are still there, also when the replay was interrupted. */
  async #cleanUp(): Promise<readonly string[]> {
    const { endpoint } = this.options;
    const signal = AbortSignal.timeout(cleanUpMs);
    const left: string[] = [];
    for (const id of this.#sandboxes) {
      try {
        for (const rpc of ["StopPodSandbox", "RemovePodSandbox"] as const) {
          const answer = await endpoint.ask(rpc, { pod_sandbox_id: id }, signal);
          if ("error" in answer) throw new ShimError("unknown", `${rpc} failed`);
        }
      } catch {
        left.push(id); // The caller names it.
      }
    }
    return left;
  }
}

function withoutOutput(answer: Readonly<Record<string, unknown>>): object {
  const { stdout: _stdout, stderr: _stderr, ...rest } = answer;
  return rest;
}

/** A value may have become known as a secret behind the request that had it. */
function hasSecret(value: unknown): boolean {
  return typeof value === "string" && /\bredacted:\d/.test(value);
}

/** In the order of their begin, as far as a window of calls shows it. */
async function* byStart(calls: AsyncIterable<RecordedCall>): AsyncGenerator<RecordedCall> {
  const window: RecordedCall[] = [];
  for await (const call of calls) {
    let index = window.length;
    while (index > 0 && (window[index - 1]?.at ?? 0) > call.at) index -= 1;
    window.splice(index, 0, call);
    if (window.length <= windowCalls) continue;
    const first = window.shift();
    if (first !== undefined) yield first;
  }
  yield* window;
}
