/** All pods of the node, each with the newest attempts of its containers. */
import { type Container, newestFirst } from "../../domain/container.js";
import { exitOf } from "../../domain/container-state.js";
import { ContainerState } from "../../domain/cri.js";
import type { Sandbox } from "../../domain/sandbox.js";
import { html, type Html } from "./html.js";
import type { PageSources } from "./page-sources.js";
import { milliseconds, shownDuration, shownName, shownTime } from "./shown-values.js";
import { table } from "./table.js";

const shownPods = 500;
const shownContainers = 10;

export function podTable(model: PageSources["model"], nowMs: number): Html {
  const all = [...model.sandboxes()].sort((a, b) => Number(b.snapshot.created - a.snapshot.created));
  const shown = all.slice(0, shownPods);
  const ready = all.filter((sandbox) => sandbox.ready).length;
  const rest = all.length > shown.length ? `; the ${String(shown.length)} newest are shown` : "";
  return table({
    id: "pods",
    heading: "Pods",
    caption: `Pod sandboxes: ${String(all.length)}, of which ${String(ready)} are ready; the newest first${rest}`,
    columns: ["Pod", "State", "Created", "Age", "Containers"],
    rows: shown.map((sandbox) => {
      const createdMs = milliseconds(sandbox.snapshot.created);
      return [
        html`<a href="./pods/${sandbox.id}">${podName(sandbox)}</a>`,
        podState(sandbox),
        shownTime(createdMs),
        shownDuration(nowMs - createdMs),
        containerList(model.containersOf(sandbox.id), nowMs),
      ];
    }),
  });
}

export function podName({ pod: { namespace, name } }: Pick<Sandbox, "pod">): string {
  return `${shownName(namespace)}/${shownName(name)}`;
}

export function podState({ ready }: Pick<Sandbox, "ready">): Html {
  return ready ? html`<span class="good">ready</span>` : html`<span class="work">not ready</span>`;
}

/** Of each name the newest attempt, in the order of the names. */
function containerList(containers: readonly Container[], nowMs: number): Html | string {
  const newest = new Map<string, Container>();
  for (const container of newestFirst(containers))
    if (!newest.has(container.identity.name)) newest.set(container.identity.name, container);
  if (newest.size === 0) return "none";
  const shown = [...newest.keys()].sort().slice(0, shownContainers);
  const rest = newest.size - shown.length;
  return html`<ul>
    ${shown.map((name) => {
      const container = newest.get(name);
      return container && html`<li>${shownName(name)}: ${containerState(container, nowMs)}</li>`;
    })}
    ${rest > 0 ? html`<li>and ${rest} more</li>` : undefined}
  </ul>`;
}

/** `running for 3 min 2 s, attempt 4`, `OOMKilled (137) 5.1 s ago`. */
export function containerState({ snapshot, state, identity }: Container, nowMs: number): Html {
  const attempt = identity.attempt > 0 ? `, attempt ${String(identity.attempt)}` : "";
  const { reason, startedAt, finishedAt } = exitOf(snapshot);
  switch (state) {
    case ContainerState.CONTAINER_RUNNING: {
      const ms = nowMs - milliseconds(startedAt);
      return html`<span class="good">running</span> for ${shownDuration(ms)}${attempt}`;
    }
    case ContainerState.CONTAINER_EXITED: {
      const ms = nowMs - milliseconds(finishedAt);
      const { exitCode } = snapshot.state;
      const style = exitCode === 0 ? "good" : "bad";
      return html`<span class="${style}">${reason} (${exitCode})</span> ${shownDuration(ms)} ago${attempt}`;
    }
    case ContainerState.CONTAINER_CREATED:
      return html`<span class="work">created</span>${attempt}`;
    default:
      return html`<span class="work">${snapshot.state.status}</span>${attempt}`;
  }
}
