/** What is passed over, for people. */
import type { Notice } from "./workloads.js";

const shownObjects = 3;

/** One line for each reason; names of many objects are counted. */
export function summarizeNotices(notices: readonly Notice[]): readonly string[] {
  const reasons = [...new Set(notices.map(({ reason }) => reason))];
  return reasons.map((reason) => {
    const own = notices.filter((notice) => notice.reason === reason);
    const objects = unique(own.map(({ object, source }) => (object === "" ? source : object)));
    const fields = unique(
      own.map(({ path }) => path.replace(/^items\[\d+\]\./, "").replace(/\[\d+\]/g, "[]")),
    );
    const whole = fields.every((field) => field === "kind");
    return `passed over${whole ? "" : ` in`} ${shorten(objects)}: ${whole ? "" : `${shorten(fields)}: `}${reason}`;
  });
}

function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)];
}

function shorten(texts: readonly string[]): string {
  const shown = texts.slice(0, shownObjects).join(", ");
  return texts.length > shownObjects ? `${shown} and ${texts.length - shownObjects} more` : shown;
}
