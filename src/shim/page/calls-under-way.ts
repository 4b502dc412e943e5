/** The calls that have no answer yet, with what each waits for. */
import type { CallUnderWay } from "../../lib/call.js";
import { html, type Html } from "./html.js";
import { shownDuration, shownMessage, shownName } from "./shown-values.js";
import { table } from "./table.js";

const shownCalls = 50;

/** The oldest first. */
export function callsUnderWay(calls: readonly CallUnderWay[]): Html {
  const rows = calls.slice(0, shownCalls);
  const rest = calls.length > rows.length ? `; the ${String(rows.length)} oldest are shown` : "";
  return table({
    id: "calls",
    heading: "Calls under way",
    caption: `Calls of the CRI without an answer: ${String(calls.length)}${rest}`,
    columns: ["Call", "Pod", "Age", "Waits for"],
    rows: rows.map(({ rpc, pod, ms, waitsFor }) => [
      rpc,
      shownName(pod ?? ""),
      shownDuration(ms),
      waitsFor.length === 0
        ? "nothing: it is at work"
        : html`<ul>
            ${waitsFor.map((wait) => html`<li>${shownMessage(wait)}</li>`)}
          </ul>`,
    ]),
  });
}
