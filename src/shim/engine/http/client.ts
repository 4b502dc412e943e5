/** Requests to the engine with deadlines, limits and our own errors. */
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { withDeadline } from "../../../lib/abort.js";
import { isKind, ShimError } from "../../../lib/errors.js";
import { formatAge, traceParentOf } from "../../../lib/waits.js";
import { Semaphore } from "../../../lib/sync/semaphore.js";
import { descriptionLimitBytes } from "../../../domain/snapshot.js";
import { type Answer, readBody, readChunks } from "./answer.js";
import type { HttpAnswer } from "./connection.js";
import { type EngineEndpoint, formatEndpoint } from "./endpoint.js";
import { lostAnswer, refusal, unreachable } from "./errors.js";
import { asObject, textOf } from "../../../lib/json/json-readers.js";
import { parseJson } from "./json.js";
import { type Essentials, JsonTrimmer, type ListReading, readList } from "./json-stream.js";
import { Modem } from "./modem.js";
import { SshTunnel } from "./ssh-tunnel.js";

export interface EngineRequest {
  /** As `inspect container "x"`: the beginning of messages about deadlines and malformed answers. */
  readonly action: string;
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  /**
   * The parts of the path. A part that is empty, `.` or `..` is answered with 404 without a request: the
   * engine would clean the path, and act on another object.
   */
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: object;
  readonly tar?: Buffer | Readable;
  /**
   * Whether the request may be sent twice. It is sent once more when the connection breaks before the answer
   * is read, as when the engine restarts. GET and HEAD always are.
   */
  readonly repeatable?: true;
  /** The members to keep of a success that is too large: for answers whose size tenants decide. */
  readonly essentials?: Essentials;
  /** Without the negotiated version in the path. */
  readonly unversioned?: boolean;
  /** API 1.`apiMinor` in place of the negotiated version: for what only newer ones can say. */
  readonly apiMinor?: number;
  /** Until the whole answer is read (`request`) or has begun (`open`, `hijack`). Default: that of short calls. */
  readonly timeoutMs?: number;
}

export interface EngineClientOptions {
  readonly endpoint: EngineEndpoint;
  readonly shortTimeoutMs: number;
  /** Largest answer that is held: default 4 MiB, twice the largest pod that Kubernetes can describe. */
  readonly answerLimitBytes?: number;
  /** How long an idle connection is kept. Default 1 m. */
  readonly idleConnectionMs?: number;
  /** Refuses to send anything but GET and HEAD, as `precondition`. */
  readonly readOnly?: boolean;
}

/** Answers of more than `smallBytes` that are in memory at once: tenants decide how large they are. */
const largeAnswersAtOnce = 32;
/** Longest part of a path. */
const partLimit = 4096;
const refusalLimitBytes = 64 * 1024;
/** Longest deadline that a timer can have, 24.8 days. */
const longestTimeoutMs = 2 ** 31 - 1;

export class EngineClient {
  /** The deadline of short calls. */
  readonly shortTimeoutMs: number;
  readonly #endpoint: string;
  readonly #answerLimitBytes: number;
  readonly #readOnly: boolean;
  readonly #tunnel: SshTunnel | undefined;
  /** Without a limit of connections: a request that hangs must not hold up those of other pods. */
  readonly #modem: Modem;
  readonly #largeAnswers = new Semaphore(largeAnswersAtOnce);
  /** `/v1.41`, or undefined before the negotiation. */
  #versionPrefix: string | undefined;
  #apiMinor = 0;
  #highestMinor = 0;
  /** When the latest answer came; milliseconds of `performance.now()`. */
  #answeredAtMs = -Infinity;
  /** Action and status of the latest answer of any kind, and when it came. */
  #lastAnswer: readonly [action: string, status: number] = ["", 0];
  #anyAnswerAtMs = -Infinity;

  constructor(options: EngineClientOptions) {
    this.#endpoint = formatEndpoint(options.endpoint);
    this.shortTimeoutMs = options.shortTimeoutMs;
    this.#readOnly = options.readOnly ?? false;
    this.#answerLimitBytes = options.answerLimitBytes ?? descriptionLimitBytes;
    const idleMs = options.idleConnectionMs ?? 60_000;
    const { endpoint } = options;
    this.#tunnel = endpoint.kind === "ssh" ? new SshTunnel(endpoint) : undefined;
    const target =
      endpoint.kind === "ssh" ? { kind: "unix" as const, path: this.#tunnel?.path ?? "" } : endpoint;
    this.#modem = new Modem(target, idleMs);
  }

  /** API version 1.`minor` from the next request on; `highestMinor` is what the engine could speak. */
  useApiMinor(minor: number, highestMinor = minor): void {
    this.#versionPrefix = versionPrefix(minor);
    this.#apiMinor = minor;
    this.#highestMinor = highestMinor;
  }

  /** 0 before the negotiation. */
  get apiMinor(): number {
    return this.#apiMinor;
  }

  get highestMinor(): number {
    return this.#highestMinor;
  }

  /** Whether an answer with a status below 500 has come in the last `recentMs` milliseconds. */
  hasAnswered(recentMs: number): boolean {
    return performance.now() - this.#answeredAtMs < recentMs;
  }

  /** The whole answer, whatever its status. Ends, and closes the connection, as soon as `signal` aborts. */
  async request(request: EngineRequest, signal: AbortSignal): Promise<Answer> {
    return this.#read(request, signal, (answer) => answer);
  }

  /** The JSON of an answer with status 200 or 201; any other status is thrown as the engine's refusal. */
  async json(request: EngineRequest, signal: AbortSignal): Promise<unknown> {
    return this.#read(request, signal, (answer) => {
      if (answer.status !== 200 && answer.status !== 201) throw refusalOf(answer);
      return parseJson(answer.body.toString("utf8"), request.action);
    });
  }

  /** As `json`, undefined for what does not exist. */
  async jsonIfThere(request: EngineRequest, signal: AbortSignal): Promise<unknown> {
    return this.#read(request, signal, (answer) => {
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) throw refusalOf(answer);
      return parseJson(answer.body.toString("utf8"), request.action);
    });
  }

  /** What the status of the answer means; any other status is thrown as the engine's refusal. */
  async outcome<T>(
    request: EngineRequest,
    outcomes: Readonly<Record<number, T>>,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#read(request, signal, (answer) => {
      const outcome = outcomes[answer.status];
      if (outcome === undefined) throw refusalOf(answer);
      return outcome;
    });
  }

  /** The entries of an answer that is a list of any length. */
  async list<T>(
    request: EngineRequest,
    reading: Omit<ListReading<T>, "action">,
    signal: AbortSignal,
  ): Promise<readonly T[]> {
    const { action } = request;
    return this.#withDeadline(request, signal, async (linked) => {
      const path = this.#path(request);
      if (path === undefined) throw refusalOf(nothingThere());
      return this.#repeat(request, linked, async () => {
        const response = await this.#dialResponse(request, path, linked);
        if (response.status !== 200) throw await this.#readRefusal(request, response, linked);
        return readList(readChunks(response, action, linked), { action, ...reading });
      });
    });
  }

  /** The field `Id` of the answer to a create. */
  async createdId(request: EngineRequest, signal: AbortSignal): Promise<string> {
    const id = textOf(asObject(await this.json(request, signal)), "Id");
    if (id === "")
      throw new ShimError("unknown", `${request.action}: the engine's answer names no id`, lostAnswer);
    return id;
  }

  /**
   * An answer with status 200, its body not yet read: the caller reads or destroys it. Any other status is
   * thrown as the engine's refusal. `signal` ends the wait for the answer, not the reading of the body.
   */
  async open(request: EngineRequest, signal: AbortSignal): Promise<HttpAnswer> {
    return this.#withDeadline(request, signal, async (linked) => {
      const path = this.#path(request);
      if (path === undefined) throw refusalOf(nothingThere());
      const response = await this.#repeat(request, linked, () => this.#dialResponse(request, path, linked));
      if (response.status === 200) return response;
      throw await this.#readRefusal(request, response, linked);
    });
  }

  /** The connection, after the engine has left HTTP; a refusal is thrown. The caller destroys it. */
  async hijack(request: EngineRequest, signal: AbortSignal): Promise<Socket> {
    return this.#withDeadline(request, signal, async (linked) => {
      const path = this.#path(request);
      if (path === undefined) throw refusalOf(nothingThere());
      const result = await this.#dial({ ...request, hijack: true }, path, linked);
      if (result instanceof Socket) return result;
      if (result.status !== 200) throw await this.#readRefusal(request, result, linked);
      result.destroy();
      throw new ShimError("unsupported", `${request.action}: the engine does not hand over the connection`);
    });
  }

  /** Breaks every connection. */
  close(): void {
    this.#modem.close();
    this.#tunnel?.close();
  }

  /** What `read` makes of the answer, as one wait: its refusal is the wait's error. */
  #read<T>(request: EngineRequest, signal: AbortSignal, read: (answer: Answer) => T): Promise<T> {
    return this.#withDeadline(request, signal, async (linked) => read(await this.#exchange(request, linked)));
  }

  async #exchange(request: EngineRequest, signal: AbortSignal): Promise<Answer> {
    const path = this.#path(request);
    if (path === undefined) return nothingThere();
    return this.#repeat(request, signal, async () => {
      const response = await this.#dialResponse(request, path, signal);
      const status = response.status;
      const { action, essentials } = request;
      const trimmer = essentials === undefined || status !== 200 ? undefined : new JsonTrimmer(essentials);
      const limits = { action, limitBytes: this.#answerLimitBytes, trimmer, large: this.#largeAnswers };
      const body = await readBody(response, limits, signal);
      return { status, headers: response.headers, body, isTrimmed: trimmer?.text !== undefined };
    });
  }

  /** A second attempt opens a fresh connection, which shows whether the engine is there. */
  async #repeat<T>(
    { method, repeatable }: EngineRequest,
    signal: AbortSignal,
    exchange: () => Promise<T>,
  ): Promise<T> {
    try {
      return await exchange();
    } catch (error) {
      const mayRepeat = method === "GET" || method === "HEAD" || repeatable === true;
      if (!mayRepeat || signal.aborted || !isKind(error, "unavailable") || error.fields["answer"] !== "lost")
        throw error;
      // ssh has said why: another attempt would only double the wait.
      if (this.#tunnel?.failure !== undefined) throw error;
      return exchange();
    }
  }

  async #withDeadline<T>(
    request: EngineRequest,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const timeoutMs = Math.min(request.timeoutMs ?? this.shortTimeoutMs, longestTimeoutMs);
    const detail = (): string => this.#describe(request);
    return withDeadline(signal, timeoutMs, request.action, work, { detail, kind: "engine" });
  }

  /** For what is said of a request that takes long. */
  #describe({ method, path }: EngineRequest): string {
    const [action, status] = this.#lastAnswer;
    const last =
      action === ""
        ? "has not answered yet"
        : `last answered ${formatAge(performance.now() - this.#anyAnswerAtMs)} ago: ${status} to ${action}`;
    return `${method} /${path.join("/")}; the engine at ${this.#endpoint} ${last}`;
  }

  #path(request: EngineRequest): string | undefined {
    if (
      request.path.some((part) => part === "" || part === "." || part === ".." || part.length > partLimit)
    ) {
      return undefined;
    }
    if (this.#versionPrefix === undefined && request.unversioned !== true)
      throw new ShimError("unavailable", `${request.action}: not connected to the Docker Engine yet`);
    const version = request.apiMinor === undefined ? this.#versionPrefix : versionPrefix(request.apiMinor);
    const prefix = request.unversioned === true ? "" : (version ?? "");
    const path = `${prefix}/${request.path.map(encodeURIComponent).join("/")}`;
    const query = request.query === undefined ? "" : new URLSearchParams(request.query).toString();
    return query === "" ? path : `${path}?${query}`;
  }

  async #readRefusal(request: EngineRequest, response: HttpAnswer, signal: AbortSignal): Promise<ShimError> {
    const limits = { action: request.action, limitBytes: refusalLimitBytes };
    return refusal(response.status, await readBody(response, limits, signal));
  }

  async #dialResponse(request: EngineRequest, path: string, signal: AbortSignal): Promise<HttpAnswer> {
    const result = await this.#dial(request, path, signal);
    if (!(result instanceof Socket)) return result;
    result.destroy();
    throw new ShimError("unknown", `${request.action}: the engine left HTTP without being asked to`);
  }

  async #dial(
    request: EngineRequest & { readonly hijack?: true },
    path: string,
    signal: AbortSignal,
  ): Promise<HttpAnswer | Socket> {
    const { method, json, tar, hijack } = request;
    const traceparent = traceParentOf(signal);
    const headers = traceparent === undefined ? request.headers : { ...request.headers, traceparent };
    if (this.#readOnly && method !== "GET" && method !== "HEAD")
      throw new ShimError("precondition", `${request.action}: this server only reads (--read-only)`);
    try {
      const answer = await this.#modem.dial({ method, path, headers, json, tar, hijack }, signal);
      // An engine that has only errors is no better than one that is silent.
      const status = answer instanceof Socket ? 101 : answer.status;
      this.#anyAnswerAtMs = performance.now();
      if (status < 500) this.#answeredAtMs = this.#anyAnswerAtMs;
      this.#lastAnswer = [request.action, status];
      return answer;
    } catch (error) {
      if (signal.aborted) throw ShimError.from(signal.reason);
      throw unreachable(this.#endpoint, error, this.#tunnel?.failure);
    }
  }
}

function versionPrefix(minor: number): string {
  return `/v1.${minor}`;
}

function nothingThere(): Answer {
  return { status: 404, headers: {}, body: Buffer.from('{"message":"no such object"}'), isTrimmed: false };
}

/** The error that an unsuccessful answer means. */
export function refusalOf(answer: Answer): ShimError {
  return refusal(answer.status, answer.body);
}
