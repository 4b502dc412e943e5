/** Asks two CRI servers the same read-only questions. */
import { sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import { codeName, type UnaryRpc } from "../../client/cri-connection.js";
import {
  containerSubject,
  imageSubject,
  isMessage,
  podSubject,
  textAt,
  textsAt,
  valueAt,
} from "../answers/answer-shape.js";
import type { AskedServer } from "../answers/asked-server.js";
import { compareAnswers, type Difference } from "../answers/compare-answers.js";

export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

export interface Servers {
  readonly left: AskedServer;
  readonly right: AskedServer;
}

export interface DiffOptions {
  /** Asks for this pod alone. */
  readonly pod?: PodName;
  /** How long to wait before a question is asked again whose answers differ. */
  readonly settleMs?: number;
}

export interface Comparison {
  /** In the order of the questions. */
  readonly differences: readonly Difference[];
  readonly asked: {
    /** Pairs of calls, without those that were repeated. */
    readonly questions: number;
    readonly pods: number;
    readonly containers: number;
    readonly images: number;
  };
}

interface Question {
  readonly rpc: UnaryRpc;
  readonly request: object;
  /** The object that the question is about. */
  readonly subject?: string;
  /** The sides whose list has the object; both when it is left out. */
  readonly listed?: { readonly left: boolean; readonly right: boolean };
}

interface Answers {
  readonly left: object;
  readonly right: object;
}

const serverRpcs = ["Version", "Status", "RuntimeConfig"] as const;
const wholeRpcs = [
  "ImageFsInfo",
  "ListContainerStats",
  "ListPodSandboxStats",
  "ListMetricDescriptors",
  "ListPodSandboxMetrics",
] as const;

/** Pairs of calls under way at a time. */
const concurrency = 8;
/** Events of the engine and lists that are kept for a moment have arrived by then. */
const usualSettleMs = 1_000;

/**
 * What differs. A question whose answers differ, other than as intended, is asked a second time, and the
 * second answers count: pods come and go between the two calls. Throws when a server stops answering, and
 * `notFound` when neither server has the pod.
 */
export async function diffServers(
  servers: Servers,
  { pod, settleMs = usualSettleMs }: DiffOptions,
  signal: AbortSignal,
): Promise<Comparison> {
  const questions = new Questions(servers, pod, signal);
  if (pod === undefined) await questions.ask(serverRpcs.map((rpc) => ({ rpc, request: {} })));
  const pods = await questions.list("ListPodSandbox", "items", podSubject);
  if (pod !== undefined && pods.length === 0)
    throw new ShimError(
      "notFound",
      `find pod "${pod.namespace}/${pod.name}": neither server lists it; see crictl pods`,
    );
  questions.podIds = new Set(pods.map(({ id }) => id));
  const containers = await questions.list("ListContainers", "containers", containerSubject);
  const images = pod === undefined ? await questions.list("ListImages", "images", imageSubject) : [];
  await questions.askForEach("PodSandboxStatus", pods, ({ id }) => ({ pod_sandbox_id: id }));
  await questions.askForEach("ContainerStatus", containers, ({ id }) => ({ container_id: id }));
  const names = images.flatMap((image) => [image.id, ...image.names].map((name) => ({ ...image, id: name })));
  await questions.askForEach("ImageStatus", names, ({ id }) => ({ image: { image: id } }));
  if (pod === undefined) await questions.ask(wholeRpcs.map((rpc) => ({ rpc, request: {} })));
  await questions.askForEach("ContainerStats", containers, ({ id }) => ({ container_id: id }));
  await questions.askForEach("PodSandboxStats", pods, ({ id }) => ({ pod_sandbox_id: id }));
  return {
    differences: await questions.differences(settleMs),
    asked: {
      questions: questions.count,
      pods: pods.length,
      containers: containers.length,
      images: images.length,
    },
  };
}

interface Listed {
  readonly id: string;
  readonly subject: string;
  readonly names: readonly string[];
  readonly listed: { readonly left: boolean; readonly right: boolean };
}

class Questions {
  /** The sandboxes of the pod that is asked for. */
  podIds: ReadonlySet<string> = new Set();
  readonly #results: { readonly question: Question; readonly differences: readonly Difference[] }[] = [];
  readonly #places = new Semaphore(concurrency);
  readonly #givenUp = new Set<UnaryRpc>();

  constructor(
    readonly servers: Servers,
    readonly pod: PodName | undefined,
    readonly signal: AbortSignal,
  ) {}

  get count(): number {
    return this.#results.length;
  }

  async ask(questions: readonly Question[]): Promise<void> {
    const results = await this.#all(questions, async (question) => ({
      question,
      differences: this.#compare(question, await this.#both(question)),
    }));
    this.#results.push(...results);
  }

  /** The objects of either server, those of the left one first. */
  async list(
    rpc: UnaryRpc,
    field: string,
    subjectOf: (entry: unknown) => string,
  ): Promise<readonly Listed[]> {
    const question = { rpc, request: {} };
    const answers = await this.#both(question);
    this.#results.push({ question, differences: this.#compare(question, answers) });
    const entries = { left: entriesOf(answers.left, field), right: entriesOf(answers.right, field) };
    return [...new Map([...entries.left, ...entries.right])].map(([id, entry]) => ({
      id,
      subject: subjectOf(entry),
      names: textsAt(entry, "repo_tags"),
      listed: { left: entries.left.has(id), right: entries.right.has(id) },
    }));
  }

  /** An RPC that a side does not offer, or not in time, is asked for the first object only. */
  async askForEach(
    rpc: UnaryRpc,
    objects: readonly Listed[],
    requestFor: (object: Listed) => object,
  ): Promise<void> {
    const [first, ...others] = objects.map((object) => ({
      rpc,
      request: requestFor(object),
      subject: object.subject,
      listed: object.listed,
    }));
    if (first === undefined) return;
    await this.ask([first]);
    if (!this.#givenUp.has(rpc)) await this.ask(others);
  }

  async differences(settleMs: number): Promise<readonly Difference[]> {
    if (this.#results.some(isOpen)) await sleep(settleMs, this.signal);
    const results = await this.#all(this.#results, async (result) =>
      isOpen(result) ? this.#compare(result.question, await this.#both(result.question)) : result.differences,
    );
    const distinct = new Map(results.flat().map((difference) => [JSON.stringify(difference), difference]));
    return [...distinct.values()];
  }

  #all<In, Out>(inputs: readonly In[], work: (input: In) => Promise<Out>): Promise<Out[]> {
    return Promise.all(inputs.map((input) => this.#places.run(this.signal, () => work(input))));
  }

  async #both({ rpc, request }: Question): Promise<Answers> {
    const { left, right } = this.servers;
    const [one, other] = await Promise.all([
      left.ask(rpc, request, this.signal),
      right.ask(rpc, request, this.signal),
    ]);
    return { left: this.#ofPod(one), right: this.#ofPod(other) };
  }

  #compare({ rpc, subject = "server", listed }: Question, { left, right }: Answers): readonly Difference[] {
    const isWhole = [left, right].some((answer) => noAnswerAtAll.has(errorCode(answer)));
    if (isWhole) this.#givenUp.add(rpc);
    // The list says already that a side does not have it.
    if (listed?.left === false && lacks(left)) return [];
    if (listed?.right === false && lacks(right)) return [];
    return compareAnswers(rpc, left, right, {
      servers: { left: this.servers.left.kind, right: this.servers.right.kind },
      subject: isWhole ? "server" : subject,
    });
  }

  /** Lists without other pods. */
  #ofPod(answer: object): object {
    const { pod, podIds } = this;
    if (pod === undefined) return answer;
    const { items, containers } = answer as { items?: unknown; containers?: unknown };
    if (Array.isArray(items)) {
      const isWanted = (one: unknown): boolean =>
        textAt(one, "metadata", "namespace") === pod.namespace &&
        textAt(one, "metadata", "name") === pod.name;
      return { items: items.filter(isWanted) };
    }
    if (!Array.isArray(containers)) return answer;
    return { containers: containers.filter((one) => podIds.has(textAt(one, "pod_sandbox_id"))) };
  }
}

/** Answers of an RPC as a whole, not about one object. */
const noAnswerAtAll = new Set(["UNIMPLEMENTED", "DEADLINE_EXCEEDED"]);

function isOpen({ differences }: { readonly differences: readonly Difference[] }): boolean {
  return differences.some(({ intended }) => intended === undefined);
}

/** Whether an answer about an object says that there is none. */
function lacks(answer: object): boolean {
  return errorCode(answer) !== "" || valueAt(answer, "image") === null;
}

function errorCode(answer: object): string {
  const code = valueAt(answer, "error", "code");
  return typeof code === "number" ? codeName(code) : "";
}

function entriesOf(answer: object, field: string): ReadonlyMap<string, unknown> {
  const list = valueAt(answer, field);
  return new Map(
    Array.isArray(list) ? list.filter(isMessage).map((entry) => [textAt(entry, "id"), entry]) : [],
  );
}
