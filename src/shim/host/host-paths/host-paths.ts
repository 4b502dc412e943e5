/** A helper looks at paths of requests: their volumes' servers may hang, and threads are few. */
import { posix } from "node:path";
import { getSystemErrorMap } from "node:util";
import { formatDuration, linkAbort } from "../../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { SizedFrames } from "../../../lib/sized-frames.js";
import type { FoundDevices, FoundMount, FoundPaths, PathProblem, PathsToFind } from "../../ports/host.js";
import type { StartProgram } from "../../native/start-program.js";

export interface HostPathsOptions {
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  /** Directory below which directories of devices may be; `/dev` by default. */
  readonly deviceRoot?: string;
  readonly log: Pick<Logger, "warn">;
  /** For the paths of a container; default 10 s. */
  readonly timeoutMs?: number;
  /** How long a killed process may take before its path counts as one that hangs; default 200 ms. */
  readonly killTimeoutMs?: number;
}

/** As many requests of one pod may hang and not end when they are killed; what comes then is refused. */
const hangingPerPod = 4;

/** A request whose process was killed and is still there: the kernel does not let it end. */
interface Hanging {
  readonly pod: string;
  readonly path: string;
}

interface Entry {
  readonly task: PathTask;
  /** As the request of the CRI has it. */
  readonly given: string;
  readonly text: string;
}

interface Found {
  readonly mounts: Map<string, FoundMount>;
  readonly devices: Map<string, FoundDevices>;
}

export class HostPaths {
  readonly #options: HostPathsOptions;
  readonly #timeoutMs: number;
  readonly #killTimeoutMs: number;
  readonly #hanging = new Set<Hanging>();
  #hasWarned = false;

  constructor(options: HostPathsOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#killTimeoutMs = options.killTimeoutMs ?? 200;
  }

  /** As the port says, for the pod with this sandbox. */
  async find(paths: PathsToFind, pod: string, signal: AbortSignal): Promise<FoundPaths | undefined> {
    const entries = [
      ...paths.look.map((path) => toEntry("look", path)),
      ...paths.make.map((path) => toEntry("make", path)),
      ...paths.devices.map((path) => toEntry("devices", path)),
    ];
    const found: Found = { mounts: new Map(), devices: new Map() };
    // Nothing is asked for a container that is refused in any case.
    if (this.#refuse(entries, pod, found)) return found;
    try {
      if (entries.length > 0) await this.#askTwice(entries, pod, found, signal);
      this.#hasWarned = false;
      return found;
    } catch (error) {
      if (!isKind(error, "unavailable", "unsupported") || signal.aborted) throw error;
      // Once until it works again: a pod that can bring this about must not fill the log.
      if (!this.#hasWarned) {
        const message = "paths of mounts and devices are not looked at, and left to the Docker Engine";
        this.#options.log.warn({ err: messageOf(error) }, message);
      }
      this.#hasWarned = true;
      return undefined;
    }
  }

  /** Whether the paths cannot be looked at, as known without asking; the problem is noted. */
  #refuse(entries: readonly Entry[], pod: string, found: Found): boolean {
    const hanging = [...this.#hanging];
    // A lookup below such a path would hang, too. Other paths are not affected.
    const isHanging = ({ text }: Entry): boolean =>
      hanging.some(({ path }) => text === path || text.startsWith(`${path}/`));
    for (const entry of entries) {
      if (Buffer.byteLength(entry.text) >= pathLimitBytes) {
        const reason = `longer than ${pathLimitBytes - 1} bytes`;
        note(entry, { kind: "precondition", reason }, found);
      } else if (isHanging(entry)) {
        note(entry, { kind: "timeout", reason: "the file system still does not answer" }, found);
      } else {
        continue;
      }
      return true;
    }
    const [first] = entries;
    if (first === undefined || hanging.filter((one) => one.pod === pod).length < hangingPerPod) return false;
    const reason = `${hangingPerPod} other paths of this pod are on file systems that do not answer`;
    note(first, { kind: "exhausted", reason }, found);
    return true;
  }

  /** The helper may have been killed meanwhile: a second one is started. */
  async #askTwice(entries: readonly Entry[], pod: string, found: Found, signal: AbortSignal) {
    try {
      await this.#ask(entries, pod, found, signal);
    } catch (error) {
      if (!isKind(error, "unavailable") || signal.aborted) throw error;
      await this.#ask(entries, pod, found, signal);
    }
  }

  /** A path that hangs is noted as its problem. `unavailable` without a process. */
  #ask(entries: readonly Entry[], pod: string, found: Found, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    // Of a helper that was lost amid its answers.
    for (const { task, given } of entries) if (task === "devices") found.devices.delete(given);
    return new Promise((resolve, reject) => {
      let current = 0;
      let isGivenUp = false;
      let hanging: Hanging | undefined;
      let killed: NodeJS.Timeout | undefined;
      let abortLink: Disposable | undefined = undefined;
      const settle = (): void => {
        clearTimeout(timer);
        abortLink?.[Symbol.dispose]();
      };
      // Most end when they are killed: only those that stay are known to hang.
      const giveUp = (then: () => void): void => {
        settle();
        isGivenUp = true;
        killed = setTimeout(() => {
          hanging = { pod, path: entries[current]?.text ?? "" };
          this.#hanging.add(hanging);
          then();
        }, this.#killTimeoutMs);
        looking.kill();
      };
      const gone = (reason: string): void => {
        clearTimeout(killed);
        if (hanging !== undefined) this.#hanging.delete(hanging);
        settle();
        if (isGivenUp) resolve();
        else reject(new ShimError("unavailable", reason));
      };
      const onAbort = (): void => {
        giveUp(() => undefined);
        reject(ShimError.from(signal.reason));
      };
      const reader = pathAnswers();
      const answered = (answer: PathAnswer): void => {
        const entry = entries[answer.entry];
        if (entry === undefined || isGivenUp) return;
        take(entry, answer, found);
        if (answer.outcome === "devices") return;
        current = answer.entry + 1;
        if (current < entries.length) return;
        settle();
        resolve();
      };
      const { startVerb, deviceRoot = "/dev" } = this.#options;
      const words = [deviceRoot, ...entries.map(({ task, text }) => pathWord(task, text))];
      const looking = startVerb(
        { program: "host-paths", words, environment: {} },
        {
          started: () => undefined,
          output: (stream, chunk) => {
            if (stream !== "stdout") return;
            // An answer that is malformed must not end the helper, and other programs with it.
            try {
              for (const answer of reader.take(chunk)) answered(answer);
            } catch (error) {
              looking.kill();
              gone(messageOf(error));
            }
          },
          ended: () => {
            gone("the process that looked at paths of the node ended before its time");
          },
          closed: () => undefined,
          failed: (error) => {
            gone(error.message);
          },
        },
      );
      const timer = setTimeout(() => {
        const entry = entries[current];
        const reason = `the file system does not answer (${formatDuration(this.#timeoutMs)})`;
        if (entry !== undefined) note(entry, { kind: "timeout", reason }, found);
        giveUp(resolve);
      }, this.#timeoutMs);
      abortLink = linkAbort(signal, onAbort);
    });
  }
}

function toEntry(task: PathTask, given: string): Entry {
  // The engine takes `..` out of sources of mounts as text; of devices it follows links first.
  const text = task === "devices" ? withoutLastSlashes(given) : posix.resolve("/", given);
  return { task, given, text };
}

/** A pattern would look at all slashes after each of them. */
function withoutLastSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === "/") end -= 1;
  return path.slice(0, end);
}

function note(entry: Entry, problem: PathProblem, { mounts, devices }: Found): void {
  if (entry.task === "devices") devices.set(entry.given, problem);
  else mounts.set(entry.given, problem);
}

function take(entry: Entry, answer: PathAnswer, found: Found): void {
  if (entry.task === "devices") {
    found.devices.set(entry.given, devicesOf(entry, answer, found.devices.get(entry.given)));
  } else {
    found.mounts.set(entry.given, mountOf(entry, answer));
  }
}

function mountOf({ text }: Entry, { outcome, errno, length }: PathAnswer): FoundMount {
  if (outcome === "present" || outcome === "made" || outcome === "missing") return outcome;
  const part = JSON.stringify(Buffer.from(text).toString("utf8", 0, length));
  const problem = (reason: string): PathProblem => ({ kind: "precondition", reason });
  if (outcome === "danglingLink") {
    return problem(`${part} is a symbolic link that leads to nothing; no directory is made there`);
  }
  if (outcome === "makeFailed") return problem(`make directory ${part}: ${systemErrorText(errno)}`);
  return problem(systemErrorText(errno));
}

function devicesOf(
  { given }: Entry,
  { outcome, errno, names }: PathAnswer,
  before: FoundDevices = [],
): FoundDevices {
  const devices = Array.isArray(before) ? (before as readonly string[]) : [];
  switch (outcome) {
    case "present":
      return [given];
    case "devices":
      return [...devices, ...names];
    case "devicesEnd":
      return [...devices].sort();
    case "outside":
      return { kind: "invalid", reason: "is a directory outside of /dev" };
    case "tooMany":
      return { kind: "precondition", reason: "is a directory of more than 10000 entries or 16 levels" };
    default:
      return doesNotExist.has(errno)
        ? { kind: "invalid", reason: "does not exist" }
        : { kind: "precondition", reason: systemErrorText(errno) };
  }
}

/** ENOENT, ENOTDIR, ELOOP. */
const doesNotExist: ReadonlySet<number> = new Set([2, 20, 40]);

// What the helper is told, and answers: the format of native/host-paths.c.

/** `look`: does it exist; `make`: make a missing directory; `devices`: which device nodes are there. */
type PathTask = "look" | "make" | "devices";

const letters: Readonly<Record<PathTask, string>> = { look: "l", make: "m", devices: "d" };

/** What a path may have with its NUL; the kernel takes no longer ones. */
const pathLimitBytes = 4096;

/** `path` is absolute, of less than `pathLimitBytes`. */
function pathWord(task: PathTask, path: string): string {
  return `${letters[task]}${path}`;
}

const outcomes = [
  "none",
  "present",
  "made",
  "missing",
  "lookFailed",
  "makeFailed",
  "danglingLink",
  "devices",
  "devicesEnd",
  "outside",
  "tooMany",
] as const;

interface PathAnswer {
  /** Index of the entry. */
  readonly entry: number;
  readonly outcome: (typeof outcomes)[number];
  /** A number of a system error, or 0. */
  readonly errno: number;
  /** How many bytes of the path the failure is about. */
  readonly length: number;
  /** Paths of some of `devices`. */
  readonly names: readonly string[];
}

const answerHeadBytes = 20;
const answerLimitBytes = 4096;

/** Cuts a stream of bytes into answers. */
function pathAnswers(): SizedFrames<PathAnswer> {
  return new SizedFrames({ headBytes: answerHeadBytes, limitBytes: answerLimitBytes }, parseAnswer);
}

/** Both architectures that the program is for are little endian. */
function parseAnswer(bytes: Buffer): PathAnswer {
  const [entry = 0, kind = 0, errno = 0, length = 0] = [4, 8, 12, 16].map((at) => bytes.readUInt32LE(at));
  const outcome = outcomes[kind];
  if (outcome === undefined) throw new Error("an answer of an unknown kind");
  const names = bytes.toString("utf8", answerHeadBytes).split("\0").slice(0, -1);
  return { entry, outcome, errno, length, names };
}

/** `no space left on device (ENOSPC)` */
function systemErrorText(errno: number): string {
  const [name, text] = getSystemErrorMap().get(-errno) ?? [];
  return name === undefined ? `error ${errno}` : `${text ?? ""} (${name})`;
}
