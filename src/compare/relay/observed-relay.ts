/** A relay whose calls go to an observer process, behind a link that leads to the server without the relay. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { CallObserver } from "./call-observer.js";
import { Budget } from "./message-reader.js";
import { ObserverProcess, type ObserverProcessOptions } from "./observer-process.js";
import { checkLink, pointAtPrimary, pointAtRelay, type RelayPaths } from "./relay-link.js";
import { Relay } from "./relay.js";

export interface ObservedRelayOptions extends Omit<ObserverProcessOptions, "name" | "niceness"> {
  /** Starts the link guard, as `command` the observer. */
  readonly guardCommand: ObserverProcessOptions["command"];
  readonly paths: RelayPaths;
  readonly log: Logger;
}

/** Limit for the messages of calls under way. */
const budgetBytes = 128 * 1024 * 1024;
/** Grace for connections that clients do not end: a kubelet keeps its one. */
const graceMs = 10_000;
const observerLimitMs = 10_000;
const guardLimitMs = 1_000;
/** What it does can wait for the relay, and for the runtime. Clients wait for the link guard. */
const observerNiceness = 10;

export interface ObservedRelay {
  readonly relay: Relay;
  readonly observer: ObserverProcess;
  readonly guard: ObserverProcess;
  /** Ends within 20 s. True when the observer has worked on all that it got. Never throws. */
  stop(options?: { readonly graceMs?: number }): Promise<boolean>;
}

/** Clients reach the relay when it resolves. When it rejects, nothing has changed. */
export async function startObservedRelay(options: ObservedRelayOptions): Promise<ObservedRelay> {
  const { paths, log, guardCommand } = options;
  const observer = new ObserverProcess({ ...options, name: "observer", niceness: observerNiceness });
  const guard = new ObserverProcess({ name: "link guard", command: guardCommand, log });
  const budget = new Budget(budgetBytes);
  await checkLink(paths);
  const relay = new Relay({
    path: paths.relay,
    primary: paths.primary,
    log,
    tap: () =>
      new CallObserver({
        budget,
        now: () => performance.timeOrigin + performance.now(),
        onCall: (call) => observer.offer(call),
        onGivenUp: (reason) => {
          observer.connectionGivenUp();
          log.warn({ reason }, "stopped observing a connection (still relaying)");
        },
      }),
  });
  await relay.start();
  observer.start();
  guard.start();
  try {
    await pointAtRelay(paths);
  } catch (error) {
    await Promise.all([relay.stop(0), observer.stop(0), guard.stop(0)]);
    throw error;
  }
  return {
    relay,
    observer,
    guard,
    stop: async ({ graceMs: limitMs = graceMs } = {}) => {
      await pointAtPrimary(paths).catch((error: unknown) =>
        log.error({ err: messageOf(error), link: paths.listen }, "cannot point the link at the server"),
      );
      await relay.stop(limitMs);
      const [isWhole] = await Promise.all([observer.stop(observerLimitMs), guard.stop(guardLimitMs)]);
      return isWhole;
    },
  };
}
