/** The page `/pods/ID`: one pod sandbox, by its id, with all attempts of its containers. */
import { type Container, newestFirst } from "../../domain/container.js";
import { exitOf } from "../../domain/container-state.js";
import type { Sandbox } from "../../domain/sandbox.js";
import { documentOf, type PageAnswer } from "./document.js";
import { html, type Html } from "./html.js";
import type { PageSources } from "./page-sources.js";
import { containerState, podName, podState } from "./pod-table.js";
import { milliseconds, shownDuration, shownMessage, shownName, shownTime } from "./shown-values.js";
import { table, valueTable } from "./table.js";
import { whySection } from "./why-section.js";

const shownContainers = 100;

/** 404 for an id that no sandbox in memory has. */
export async function podPage(sources: PageSources, id: string): Promise<PageAnswer> {
  const { model, now } = sources;
  const nowMs = now();
  const sandbox = [...model.sandboxes()].find((one) => one.id === id);
  const navigation = html`<nav aria-label="Pages">
    <ul>
      <li><a href="../">All pods of the node</a></li>
    </ul>
  </nav>`;
  const common = { root: "../", nowMs, navigation } as const;
  if (sandbox === undefined) {
    const content = html`<p>No pod sandbox has this id. It may have been removed.</p>`;
    return documentOf({ ...common, title: "No such pod", status: 404, content });
  }
  return documentOf({
    ...common,
    title: `Pod ${podName(sandbox)}`,
    content: html`${await whySection(sources, sandbox.pod.uid)} ${sandboxTable(sandbox, nowMs)}
    ${containerTable(model.containersOf(id), nowMs)}`,
  });
}

function sandboxTable(sandbox: Sandbox, nowMs: number): Html {
  const { id, pod, snapshot, hostNetwork, runtimeHandler } = sandbox;
  const createdMs = milliseconds(snapshot.created);
  return valueTable({ id: "sandbox", heading: "Sandbox", caption: "The pod and its sandbox" }, [
    ["State", podState(sandbox)],
    ["Created", html`${shownTime(createdMs)} (${shownDuration(nowMs - createdMs)} ago)`],
    ["Started", timeOf(snapshot.state.started)],
    ["Ended", timeOf(snapshot.state.finished)],
    ["Namespace", shownName(pod.namespace)],
    ["Name", shownName(pod.name)],
    ["UID", shownName(pod.uid)],
    ["Attempt", String(pod.attempt)],
    ["Sandbox id", html`<code>${id}</code>`],
    ["Network", hostNetwork ? "of the host" : "its own"],
    ["Runtime handler", runtimeHandler === "" ? "the default" : shownName(runtimeHandler)],
  ]);
}

function containerTable(all: readonly Container[], nowMs: number): Html {
  const shown = newestFirst(all).slice(0, shownContainers);
  const rest = all.length > shown.length ? `; the ${String(shown.length)} newest are shown` : "";
  return table({
    id: "containers",
    heading: "Containers",
    caption: `Containers with all attempts that are kept: ${String(all.length)}; the newest first${rest}`,
    columns: ["Container", "State", "Started", "Ended", "Image", "Message", "Id"],
    rows: shown.map((container) => {
      const { id, identity, snapshot } = container;
      const exit = exitOf(snapshot);
      return [
        shownName(identity.name),
        containerState(container, nowMs),
        timeOf(exit.startedAt),
        timeOf(exit.finishedAt),
        shownName(snapshot.imageName),
        shownMessage(exit.message),
        html`<code>${id.slice(0, 12)}</code>`,
      ];
    }),
  });
}

function timeOf(nanoseconds: bigint): Html | string {
  return nanoseconds === 0n ? "–" : shownTime(milliseconds(nanoseconds));
}
