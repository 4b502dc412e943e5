/** Calls of the CRI: those without an answer, the slowest, and those that failed. */
import type { CallUnderWay } from "../../lib/call.js";
import { html, type Html } from "./html.js";
import type { PageSources } from "./page-sources.js";
import type { RecentCall } from "./recent-calls.js";
import { shownDuration, shownMessage, shownName, shownTime } from "./shown-values.js";
import { type Cell, table } from "./table.js";

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

export function slowestCalls({ recent, model }: Pick<PageSources, "recent" | "model">): Html {
  const { calls, sinceMs } = recent.slowest();
  const since = new Date(sinceMs).toISOString().slice(0, 19);
  return table({
    id: "slowest",
    heading: "Slowest calls",
    caption: `The slowest calls that have ended since ${since}Z, without lists and statuses`,
    columns: ["Call", "About", "Begun", "Duration", "Longest wait", "Result"],
    rows: calls.map(({ rpc, code, subject, startedAtMs, ms, longestWait }) => [
      rpc,
      about(subject, model),
      shownTime(startedAtMs),
      shownDuration(ms),
      longestWait === undefined
        ? "none"
        : `${shownMessage(longestWait.what)} (${shownDuration(longestWait.ms)})`,
      result(code),
    ]),
  });
}

export function recentErrors({ recent, model }: Pick<PageSources, "recent" | "model">): Html {
  return table({
    id: "errors",
    heading: "Recent errors",
    caption: "The latest calls that failed, without lists and statuses; the newest first",
    columns: ["Call", "About", "Begun", "Duration", "Result", "Message"],
    rows: recent
      .failures()
      .map(({ rpc, code, message, subject, startedAtMs, ms }) => [
        rpc,
        about(subject, model),
        shownTime(startedAtMs),
        shownDuration(ms),
        result(code),
        shownMessage(message),
      ]),
  });
}

/** Leads to the pod while that is there. */
function about(subject: RecentCall["subject"], model: PageSources["model"]): Cell {
  const { pod, sandboxId, containerName, image } = subject;
  const name = shownName(pod ?? sandboxId ?? "");
  const isThere = sandboxId !== undefined && model.snapshot(sandboxId) !== undefined;
  const parts = [
    ...(name === "" ? [] : [isThere ? html`<a href="./pods/${sandboxId}">${name}</a>` : html`${name}`]),
    ...(containerName === undefined ? [] : [html`container ${shownName(containerName)}`]),
    ...(image === undefined ? [] : [html`image ${shownName(image)}`]),
  ];
  return html`<ul>
    ${parts.map((part) => html`<li>${part}</li>`)}
  </ul>`;
}

function result(code: string): Html {
  return code === "OK" ? html`<span class="good">OK</span>` : html`<span class="bad">${code}</span>`;
}
