/** The engine's event stream. */
import type { EngineEvent } from "../ports/engine.js";
import { parseJson, splitLines } from "./answer.js";
import { asObject, objectOf, textOf } from "./json.js";

const action = "read engine events";
const lineLimitBytes = 1024 * 1024;

/**
 * What the shim wants to hear of. Exec events above all are not in it: each probe makes three of them.
 */
const wantedTypes = ["container", "image"];
const wantedActions = [
  ...["create", "start", "restart", "die", "oom", "pause", "unpause", "update", "rename", "destroy"],
  ...["pull", "tag", "untag", "delete", "import", "load"],
];

/**
 * The query of the subscription. No filter for the label: it would apply to images as well. The engine answers before
 * it subscribes, so events in between are lost, unless it is asked for those of the last seconds, which it adds
 * without a gap; older events that come with them do no harm.
 */
export function eventsQuery(nowMs: number): Readonly<Record<string, string>> {
  return {
    since: String(Math.floor(nowMs / 1000) - 5),
    filters: JSON.stringify({ type: wantedTypes, event: wantedActions }),
  };
}

/** The events in `chunks`, those of containers without label `labelKey` left out. */
export async function* readEvents(
  chunks: AsyncIterable<Buffer>,
  labelKey: string,
): AsyncGenerator<EngineEvent, void, undefined> {
  for await (const line of splitLines(chunks, { action, limitBytes: lineLimitBytes })) {
    const event = toEvent(parseJson(line, action), labelKey);
    if (event !== undefined) yield event;
  }
}

/** The old fields `status`, `id` and `from` are gone at API 1.52: only those that replaced them are read. */
function toEvent(answer: unknown, labelKey: string): EngineEvent | undefined {
  const json = asObject(answer);
  const type = textOf(json, "Type");
  const actor = objectOf(json, "Actor");
  if (type === "container") {
    if (!Object.hasOwn(objectOf(actor, "Attributes"), labelKey)) return undefined;
  } else if (type !== "image") {
    return undefined;
  }
  return { type, action: textOf(json, "Action"), id: textOf(actor, "ID") };
}
