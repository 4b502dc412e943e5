/** `dockershim pod events`. */
import { findPods } from "../pod-commands/find-pod.js";
import { byTime, eventLine, eventTime, historyOf } from "../pod-commands/pod-events.js";
import { ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import type { PodContext, RequestOf } from "./pod-context.js";

type PodEvent = ReturnType<typeof eventLine>;

export async function podEvents(
  request: RequestOf<"events">,
  { client, print, signal }: Pick<PodContext, "client" | "print" | "signal">,
): Promise<number> {
  const { selection, follow } = request;
  const events = follow ? client.containerEvents(signal)[Symbol.asyncIterator]() : undefined;
  // Before the past is read, so that nothing is missed in between.
  let next = events?.next();
  next?.catch(() => undefined); // Its error is thrown below.
  const pods = await findPods(client, selection, signal);
  const readAt = BigInt(Date.now()) * 1_000_000n;
  const past = pods.flatMap((pod) =>
    historyOf(pod).map((event) => ({ ...event, pod: `${pod.namespace}/${pod.name}` })),
  );
  const show = (event: PodEvent): void =>
    print(`${eventTime(event)}  ${shownText(event.pod)}  ${shownText(event.what)}\n`);
  past.sort(byTime).forEach(show);
  if (events === undefined) return 0;
  const shown = new Set(past.map(nameOf));
  const { namespace, labels } = selection;
  // With labels, or by name, those that were found: events of others do not tell what they have.
  const names = new Set(pods.map((pod) => `${pod.namespace}/${pod.name}`));
  const isWanted = ({ pod }: PodEvent): boolean =>
    selection.pods.length > 0 || labels.length > 0
      ? names.has(pod)
      : namespace === undefined || pod.startsWith(`${namespace}/`);
  for (;;) {
    const result = await next;
    if (result === undefined || result.done === true) break;
    next = events.next();
    next.catch(() => undefined);
    const line = eventLine(result.value);
    const isShown = line.time <= readAt && shown.has(nameOf(line));
    if (isWanted(line) && !isShown) show(line);
  }
  throw new ShimError("unavailable", "the CRI server has ended the events");
}

function nameOf({ pod, what }: PodEvent): string {
  return `${pod} ${what}`;
}
