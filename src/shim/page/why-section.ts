/** Why a pod was slow, failed or ended: causes, a picture, and the same steps as a table. */
import type { Explanation, Step } from "../../history/explain.js";
import type { RecordedSpan } from "../../history/history-record.js";
import { renderSvg } from "../../history/render-svg.js";
import { messageOf } from "../../lib/errors.js";
import { html, type Html } from "./html.js";
import type { PageSources } from "./page-sources.js";
import { shownDuration, shownMessage, shownTime } from "./shown-values.js";
import { section, table } from "./table.js";

const shownCauses = 5;
const shownSteps = 100;
const shownWaits = 3;

export async function whySection({ why }: Pick<PageSources, "why">, podUid: string): Promise<Html> {
  if (why === undefined)
    return whyNot("The history of pods is off: by --history-max-bytes=0 or --read-only.");
  let explanation: Explanation | undefined;
  try {
    explanation = await why(podUid);
  } catch (error) {
    return whyNot(shownMessage(messageOf(error)));
  }
  if (explanation === undefined) return whyNot("The latest history has no record of this pod.");
  return html`${section("why", "Why", causes(explanation))} ${timeLine(explanation.steps)}`;
}

function whyNot(reason: string): Html {
  return section("why", "Why", html`<p>${reason}</p>`);
}

/** The picture is part of the page, and no document of its own: no script could run in it. */
function causes(explanation: Explanation): Html {
  const shown = explanation.causes.slice(0, shownCauses).map(shownMessage);
  const picture = Buffer.from(renderSvg(explanation)).toString("base64");
  return html`<ol>
      ${shown.map((cause) => html`<li>${cause}</li>`)}
    </ol>
    <div class="scroll" role="region" aria-label="Picture of the time line" tabindex="0">
      <img
        src="data:image/svg+xml;base64,${picture}"
        alt="Picture of the time line: ${shown[0]}. The table below has its steps."
      />
    </div>`;
}

function timeLine(all: readonly Step[]): Html {
  const shown = all.slice(-shownSteps);
  const rest = all.length > shown.length ? `; the ${String(shown.length)} latest are shown` : "";
  return table({
    id: "steps",
    heading: "Time line",
    caption: `Calls that changed something, and ends of containers: ${String(all.length)}; the oldest first${rest}`,
    columns: ["Step", "Time", "Duration", "Result", "Longest waits"],
    rows: shown.map(({ kind, what, at, ms, result, failed, waits }) => [
      shownMessage(what),
      shownTime(at),
      `${kind === "exit" ? "ran " : ""}${shownDuration(ms)}`,
      failed ? html`<strong class="bad">${shownMessage(result)}</strong>` : shownMessage(result),
      longestWaits(waits),
    ]),
  });
}

function longestWaits(waits: readonly RecordedSpan[]): Html | string {
  const innermost = waits.flatMap(innermostOf);
  if (innermost.length === 0) return "none";
  const longest = innermost.toSorted((a, b) => b.ms - a.ms).slice(0, shownWaits);
  return html`<ul>
    ${longest.map(
      ({ kind, what, ms, error }) =>
        html`<li>
          ${kind === "wait" ? "" : `${kind}: `}${shownMessage(what)}
          (${shownDuration(ms)})${error === undefined ? "" : `: ${shownMessage(error)}`}
        </li>`,
    )}
  </ul>`;
}

function innermostOf(span: RecordedSpan): readonly RecordedSpan[] {
  const { below = [] } = span;
  return below.length === 0 ? [span] : below.flatMap(innermostOf);
}
