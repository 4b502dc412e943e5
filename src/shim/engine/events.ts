/** The engine's event stream. */
import type { EngineEvent } from "../ports/engine.js";
import { splitLines } from "./http/answer.js";
import { asObject, objectOf, textOf } from "../../lib/json/json-readers.js";
import { type Essentials, members } from "./http/json-stream.js";

const action = "read engine events";
/** A larger event is reduced to its essentials: Docker puts all labels into its events. */
const lineLimitBytes = 64 * 1024;

/** The events that the shim subscribes to. Exec events are left out: each exec probe makes three of them. */
const wantedTypes = ["container", "image", "daemon"];
const wantedActions = [
  ...["create", "start", "restart", "die", "oom", "pause", "unpause", "update", "rename", "destroy"],
  // A push adds digests. The containerd image store of older engines reports nothing else of a prune.
  ...["pull", "push", "tag", "untag", "delete", "import", "load", "prune"],
  "reload",
];
/** Events that add or remove a container. */
const otherActions = ["create", "destroy"];

/**
 * The query of the subscription. No filter for the label: it would apply to images as well. The engine
 * answers before it subscribes, so events in between are lost, unless it is asked for those of the last
 * seconds, which it adds without a gap; older events that come with them do no harm.
 */
export function eventsQuery(nowMs: number): Readonly<Record<string, string>> {
  return {
    since: String(Math.floor(nowMs / 1000) - 5),
    filters: JSON.stringify({ type: wantedTypes, event: wantedActions }),
  };
}

/** Fields read of an event: the action and its subject. Everything else is inspected. */
function eventEssentials(labelKey: string): Essentials {
  return { ...members("Type", "Action"), Actor: { ID: true, Attributes: members("name", labelKey) } };
}

/** The events in `chunks`; of containers without `labelKey` only those in `otherActions`. No event breaks the stream. */
export async function* readEvents(
  chunks: AsyncIterable<Buffer>,
  labelKey: string,
): AsyncGenerator<EngineEvent, void, undefined> {
  const essentials = eventEssentials(labelKey);
  for await (const line of splitLines(chunks, { action, limitBytes: lineLimitBytes, essentials })) {
    const event = toEvent(parseEvent(line), labelKey);
    if (event !== undefined) yield event;
  }
}

function parseEvent(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The subscriber has to find out what the event was about.
    return { Type: "unknown" };
  }
}

/** The old fields `status`, `id` and `from` are gone at API 1.52: only those that replaced them are read. */
function toEvent(answer: unknown, labelKey: string): EngineEvent | undefined {
  const json = asObject(answer);
  const type = textOf(json, "Type");
  const actor = objectOf(json, "Actor");
  const attributes = objectOf(actor, "Attributes");
  const event = { action: textOf(json, "Action"), id: textOf(actor, "ID") };
  if (type === "image" || type === "daemon" || type === "unknown") return { type, ...event };
  if (type !== "container") return undefined;
  const name = textOf(attributes, "name");
  if (Object.hasOwn(attributes, labelKey)) return { type, ...event, ...(name === "" ? {} : { name }) };
  return otherActions.includes(event.action) ? { type: "otherContainer", ...event } : undefined;
}
