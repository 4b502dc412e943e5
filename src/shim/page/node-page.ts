/** The page `/`: the node, its link to the engine, what is under way, and its pods. */
import type { Html } from "./html.js";
import { html } from "./html.js";
import { documentOf, type PageAnswer } from "./document.js";
import { callsUnderWay, recentErrors, slowestCalls } from "./call-tables.js";
import type { PageSources } from "./page-sources.js";
import { podTable } from "./pod-table.js";
import { shownDuration, shownMessage, shownName, shownTime } from "./shown-values.js";
import { table, valueTable } from "./table.js";

/** How often `/watch` asks again. */
export const reloadSeconds = 10;

const sections = [
  ["conditions", "Conditions"],
  ["engine", "Docker Engine"],
  ["calls", "Calls under way"],
  ["pods", "Pods"],
  ["slowest", "Slowest calls"],
  ["errors", "Recent errors"],
  ["node", "Node"],
] as const;

/** `watched`: the page reloads itself, which its reader has asked for. */
export function nodePage(sources: PageSources, { watched }: { readonly watched: boolean }): PageAnswer {
  const nowMs = sources.now();
  const { link, model } = sources;
  return documentOf({
    title: `Node ${shownName(link.facts?.hostName ?? "")}`.trim(),
    root: "./",
    nowMs,
    ...(watched ? { reloadSeconds } : {}),
    navigation: navigation(watched),
    content: html`${conditionTable(sources)} ${engineTable(sources, nowMs)}
    ${callsUnderWay(sources.underWay())} ${podTable(model, nowMs)} ${slowestCalls(sources)}
    ${recentErrors(sources)} ${nodeTable(sources, nowMs)}`,
  });
}

function navigation(watched: boolean): Html {
  return html`<nav aria-label="Sections and reloading">
    <ul>
      ${sections.map(([id, name]) => html`<li><a href="#${id}">${name}</a></li>`)}
      <li>
        ${
          watched
            ? html`<a href="./">Stop reloading every ${reloadSeconds} s</a>`
            : html`<a href="./watch">Reload every ${reloadSeconds} s</a>`
        }
      </li>
    </ul>
  </nav>`;
}

function conditionTable({ conditions }: PageSources): Html {
  return table({
    id: "conditions",
    heading: "Conditions",
    caption: "As the kubelet is told, without a new request to the Docker Engine",
    columns: ["Condition", "Status", "Reason", "Message"],
    rows: conditions().map(({ type, status, reason, message }) => [
      type,
      status ? html`<span class="good">true</span>` : html`<span class="bad">false</span>`,
      reason,
      shownMessage(message),
    ]),
  });
}

const phaseClasses = { live: "good", recovering: "work", lost: "bad" } as const;

function engineTable({ link, model, comparedMsAgo }: PageSources, nowMs: number): Html {
  const { state, facts, sinceMs, lastLoss } = link;
  const { pending, stale } = model.unsynced;
  const compared = comparedMsAgo();
  return valueTable(
    { id: "engine", heading: "Docker Engine", caption: "The link to the engine, and what is known of it" },
    [
      ["Link", html`<span class="${phaseClasses[state.phase]}">${state.phase}</span>`],
      ["Since", since(sinceMs, nowMs)],
      ...(state.phase === "lost" ? [["Error", shownMessage(state.reason.message)] as const] : []),
      [
        "Last loss",
        lastLoss === undefined
          ? "none since the start"
          : html`${since(lastLoss.atMs, nowMs)}: ${shownMessage(lastLoss.reason.message)}`,
      ],
      ...engineFacts(facts),
      [
        "Containers in memory",
        `compared with the engine ${compared === undefined ? "never" : `${shownDuration(compared)} ago`}; ${String(pending)} not inspected yet, ${String(stale)} stale`,
      ],
    ],
  );
}

function engineFacts(facts: PageSources["link"]["facts"]): readonly (readonly [string, string])[] {
  if (facts === undefined) return [["Version", "not known while the link is not there"]];
  return [
    ["Version", `${facts.engineVersion}, API 1.${String(facts.apiMinor)} of ${facts.engineApiVersion}`],
    ["Cgroups", `version ${String(facts.cgroupVersion)}, driver ${facts.cgroupDriver}`],
    ["Images", `${facts.storageDriver} in ${shownName(facts.dockerRootDir)}`],
    ...facts.warnings
      .slice(0, 10)
      .map((warning, index) => [`Warning ${String(index + 1)}`, shownMessage(warning)] as const),
  ];
}

function nodeTable({ version, nodeVersion, startedAtMs, link, network }: PageSources, nowMs: number): Html {
  const { facts } = link;
  return valueTable({ id: "node", heading: "Node", caption: "This program and its host" }, [
    ["dockershim", version],
    ["Node.js", nodeVersion],
    ["Started", since(startedAtMs, nowMs)],
    ["Network plugin", `${network.name} (${shownMessage(network.reason)})`],
    ...(facts === undefined
      ? []
      : [
          ["Operating system", shownName(facts.operatingSystem)] as const,
          ["Kernel", `${shownName(facts.kernelVersion)}, ${facts.architecture}`] as const,
          ["Capacity", `${String(facts.cpus)} CPUs, ${gibibytes(facts.totalMemory)} GiB of memory`] as const,
        ]),
  ]);
}

function gibibytes(bytes: number): string {
  return (bytes / 1024 ** 3).toFixed(1);
}

function since(ms: number, nowMs: number): Html {
  return html`${shownTime(ms)} (${shownDuration(nowMs - ms)} ago)`;
}
