/** Deadlines and cancellation. Every waiting function takes a signal; limits are linked signals. */
import { setMaxListeners } from "node:events";
import { setTimeout as sleepFor } from "node:timers/promises";
import { ShimError } from "./errors.js";
import { describeWaits, noteWait, waitedFor, type WaitKind } from "./waits.js";

/** A signal that aborts with a `timeout` ShimError; it does not keep the process alive. */
export function deadline(milliseconds: number, action: string): AbortSignal {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(overdue(action, milliseconds));
  }, milliseconds);
  timer.unref();
  return controller.signal;
}

/**
 * Runs `work` under a fresh deadline linked to `parent`. `work` must end when its signal aborts; the caller
 * sees the reason of the abort. `restart` begins the time anew, for work whose progress can be seen.
 */
export async function withDeadline<T>(
  parent: AbortSignal | undefined,
  milliseconds: number,
  action: string,
  work: (signal: AbortSignal, restart: () => void) => Promise<T>,
  { detail, kind }: WaitDescription = {},
): Promise<T> {
  const controller = new LinkingController();
  const timer = setTimeout(() => {
    const inside = waitedFor(describeWaits(controller.signal));
    controller.abort(overdue(action, milliseconds, inside === "" && detail ? `; ${detail()}` : inside));
  }, milliseconds);
  const noted = parent && noteWait(parent, { action, detail, kind, inner: controller.signal });
  const link = linkAbort(parent, () => {
    controller.abort(parent?.reason);
  });
  try {
    controller.signal.throwIfAborted();
    return await work(controller.signal, () => timer.refresh());
  } catch (error) {
    const isEnd = controller.signal.aborted && !(error instanceof ShimError);
    const thrown: unknown = isEnd ? ShimError.from(controller.signal.reason) : error;
    noted?.fail(thrown);
    throw thrown;
  } finally {
    clearTimeout(timer);
    // Not `using`, here and below: the build makes it four calls, and every wait comes through here.
    link[Symbol.dispose]();
    noted?.[Symbol.dispose]();
  }
}

export interface WaitDescription {
  /** What messages say of the wait beyond the action. */
  readonly detail?: () => string;
  readonly kind?: WaitKind;
}

function overdue(action: string, milliseconds: number, more = ""): ShimError {
  return new ShimError("timeout", `${action}: not finished after ${formatDuration(milliseconds)}${more}`);
}

/** Waits, or throws the reason of `signal` when it aborts first. */
export async function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleepFor(milliseconds, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** `promise`, or the reason of `signal` when it aborts first; the result of the promise is then ignored. */
export async function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let abort!: () => void;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      reject(ShimError.from(signal.reason));
    };
  });
  const link = linkAbort(signal, abort);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    link[Symbol.dispose]();
  }
}

/** Waits for the end of something that is stopped, `timeoutMs` at most. */
export function stopWithin(timeoutMs: number, promise: Promise<unknown>): Promise<unknown> {
  return withDeadline(undefined, timeoutMs, "stop", (signal) => orAbort(promise, signal));
}

/** On the signal itself: a WeakMap would make each garbage collection slower. */
const linksOf = Symbol("links");
const hasOwner = Symbol("hasOwner");

interface LinkedSignal extends AbortSignal {
  [linksOf]?: Set<Link> | undefined;
  /** Of a LinkingController. */
  [hasOwner]?: true;
}

/**
 * Tells the links of its signal itself. Any other signal has a listener for them, which most waits would add and
 * remove alone, several times each.
 */
export class LinkingController extends AbortController {
  constructor() {
    super();
    (this.signal as LinkedSignal)[hasOwner] = true;
  }

  override abort(reason?: unknown): void {
    if (this.signal.aborted) return;
    super.abort(reason);
    tellLinks.call(this.signal);
  }
}

class Link implements Disposable {
  constructor(
    readonly onAbort: () => void,
    private readonly signal?: LinkedSignal,
  ) {}

  [Symbol.dispose](): void {
    const links = this.signal?.[linksOf];
    if (links?.delete(this) === true && links.size === 0 && this.signal?.[hasOwner] === undefined)
      this.signal?.removeEventListener("abort", tellLinks);
  }
}

/**
 * Runs `onAbort` at most once: when `signal` aborts, or at once when it has aborted before, which
 * `addEventListener` would never tell. Disposing of the link takes it back. Nothing else of this program listens
 * to a signal.
 *
 * One listener for all links of a signal: Node.js looks through all listeners to add or remove one. It goes with
 * the last link: Node.js 20 keeps what `AbortSignal.any()` made in memory as long as it has a listener.
 */
export function linkAbort(signal: AbortSignal | undefined, onAbort: () => void): Disposable {
  if (signal === undefined) return new Link(onAbort);
  if (signal.aborted) {
    onAbort();
    return new Link(onAbort);
  }
  const linked: LinkedSignal = signal;
  const links = (linked[linksOf] ??= noLinks(signal));
  if (links.size === 0 && linked[hasOwner] === undefined)
    signal.addEventListener("abort", tellLinks, { once: true });
  const link = new Link(onAbort, signal);
  links.add(link);
  return link;
}

function noLinks(signal: AbortSignal): Set<Link> {
  // Timers and streams of Node.js listen, too: more than ten would be taken for a leak, and a warning be printed.
  setMaxListeners(0, signal);
  return new Set();
}

function tellLinks(this: LinkedSignal): void {
  const links = this[linksOf] ?? new Set<Link>();
  for (const link of links) {
    links.delete(link);
    try {
      link.onAbort();
    } catch (error) {
      // As an error of a listener: it ends the process, after the others were told.
      process.nextTick(() => {
        throw error;
      });
    }
  }
}

/** `90000` → `1m30s`, `1500` → `1.5s`, `20` → `20ms`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${milliseconds}ms`;
  const minutes = Math.floor(milliseconds / 60_000);
  const seconds = (milliseconds % 60_000) / 1000;
  if (minutes === 0) return `${seconds}s`;
  return seconds === 0 ? `${minutes}m` : `${minutes}m${seconds}s`;
}

/** Begins work whose result is awaited later, or never: then its error is not reported. Answers the same promise. */
export function inBackground<T>(work: Promise<T>): Promise<T> {
  work.catch(() => undefined);
  return work;
}
