/** The page of `migrate check`, for people: plain text of at most 100 columns. Pure. */
import type { CheckReport } from "./check-report.js";
import { type Finding, type Level, levels } from "./finding.js";
import { groupBy } from "../../lib/group-by.js";
import { targetNames } from "../kubelet/target.js";

const width = 100;
/** Subjects of one finding that are named; all of them are in the JSON. */
const subjectsShown = 8;

const headings: Readonly<Record<Level, string>> = {
  lost: "LOST: cannot be had back",
  blocked: "BLOCKED: to be solved before the change",
  restart: "RESTARTS: containers are made again",
  change: "CHANGES: pods, or programs beside them, see a difference",
  note: "NOTES: nothing changes for pods",
  ok: "IN ORDER",
};

/** `colour`: whether a terminal shows it. */
export function renderPage(report: CheckReport, { colour = false } = {}): string {
  const bold = (text: string): string => (colour ? `\u001b[1m${text}\u001b[0m` : text);
  const lines = [
    bold(`Migration check of node ${clean(report.node)}, to ${targetNames[report.target]}`),
    "",
    ...rows(header(report)),
    "",
    ...wrap(summary(report), ""),
  ];
  for (const level of [...levels].reverse()) {
    const findings = report.findings.filter((finding) => finding.level === level);
    if (findings.length === 0) continue;
    lines.push("", bold(headings[level]), ...groups(findings));
  }
  lines.push("", ...podTable(report, bold));
  return `${lines.join("\n")}\n`;
}

function header(report: CheckReport): readonly (readonly [string, string])[] {
  const { engine, kubelet, network } = report;
  const made = Object.entries(report.makers).map(([maker, count]) => `${count} by ${maker}`);
  const checkpoints = Object.entries(network.checkpoints).map(([flavour, count]) => `${count} ${flavour}`);
  return [
    ["date", report.at],
    ["program", `dockershim ${report.program}`],
    ...(report.root === "/" ? [] : [["files below", report.root] as const]),
    [
      "engine",
      engine.version === ""
        ? `${engine.endpoint}: no answer`
        : `Docker Engine ${engine.version}, API ${engine.apiVersion}, ${engine.endpoint}`,
    ],
    ...(engine.version === ""
      ? []
      : [
          [
            "",
            `cgroup ${engine.cgroups}; ${engine.storage}; log driver ${engine.logDriver}; live-restore ${engine.liveRestore ? "on" : "off"}`,
          ] as const,
        ]),
    [
      "kubelet",
      `${kubelet.version === "" ? "version not known" : kubelet.version}, runtime ${kubelet.runtime}${kubelet.endpoint === "" ? "" : ` at ${kubelet.endpoint}`}`,
    ],
    ...kubelet.flags.map(({ name, value, source }) => ["", `--${name}=${value}  (${source})`] as const),
    [
      "network",
      `${network.networks.length === 0 ? "no network" : network.networks.join(", ")} in ${network.configurationDirectory}; ${network.cachedPods} cached results`,
    ],
    ["checkpoints", checkpoints.length === 0 ? "none" : checkpoints.join(", ")],
    ["pods", made.length === 0 ? "none" : made.join(", ")],
  ];
}

function rows(pairs: readonly (readonly [string, string])[]): readonly string[] {
  return pairs.flatMap(([name, text]) => {
    const [first = "", ...rest] = wrap(clean(text), "", width - 15);
    return [`  ${name.padEnd(13)}${first}`.trimEnd(), ...rest.map((line) => `${" ".repeat(15)}${line}`)];
  });
}

function summary({ pods, summary: { counts, exitCode } }: CheckReport): string {
  const of = (verdicts: readonly Level[]): number =>
    pods.filter(({ level }) => verdicts.includes(level)).length;
  const parts = [
    `${pods.length} pods`,
    `${of(["ok", "note"])} continue as they are`,
    `${of(["change", "blocked"])} continue with a change`,
    `${of(["restart"])} are made again`,
    `${of(["lost"])} lose something`,
  ];
  const verdict =
    exitCode === 0
      ? "Nothing blocks the change, and nothing changes for pods."
      : `To look at: lost ${counts.lost}, blocked ${counts.blocked}, restarts ${counts.restart}, changes ${counts.change}.`;
  return `${parts.join(", ")}. ${verdict}`;
}

/** Findings that say the same about several subjects are one entry. */
function groups(findings: readonly Finding[]): readonly string[] {
  const byText = groupBy(findings, ({ id, text, reason, next }) => JSON.stringify([id, text, reason, next]));
  return [...byText.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const { id, text, reason, next } = first;
    const subjects = [...new Set(group.map(({ subject }) => subject))];
    const more = subjects.length - subjectsShown;
    const shown = subjects.slice(0, subjectsShown).join(", ") + (more > 0 ? `, and ${more} more` : "");
    const sources = [...new Set(group.map(({ source }) => source))];
    const seen =
      sources.length === 1 ? (sources[0] ?? "") : `${sources[0] ?? ""}, and ${sources.length - 1} more`;
    return [
      ...wrap(`- [${id}] ${clean(shown)}: ${clean(text)}`, "  "),
      ...wrap(`why: ${clean(reason)}`, "      "),
      ...(next === "" ? [] : wrap(`do: ${clean(next)}`, "      ")),
      ...(seen === "" ? [] : wrap(`seen: ${clean(seen)}`, "      ")),
    ];
  });
}

function podTable({ pods }: CheckReport, bold: (text: string) => string): readonly string[] {
  if (pods.length === 0) return ["No pods."];
  const cells = pods.map((pod) => [
    clean(`${pod.namespace}/${pod.name}`),
    pod.maker,
    pod.network,
    pod.state,
    pod.verdict,
  ]);
  const head = ["POD", "MADE BY", "NETWORK", "STATE", "VERDICT"];
  const others = [1, 2, 3].map((column) =>
    Math.max(...[head, ...cells].map((row) => row[column]?.length ?? 0)),
  );
  const last = Math.max(...cells.map((row) => row[4]?.length ?? 0));
  const room = width - last - others.reduce((sum, one) => sum + one + 2, 2);
  const longest = Math.max(...[head, ...cells].map((row) => row[0]?.length ?? 0));
  const widths = [Math.min(longest, Math.max(room, 20)), ...others];
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => fit(cell, widths[column]))
      .join("  ")
      .trimEnd();
  return [bold(line(head)), ...cells.map(line)];
}

function fit(text: string, size: number | undefined): string {
  if (size === undefined) return text;
  return text.length > size ? `${text.slice(0, size - 1)}…` : text.padEnd(size);
}

/** Names and paths of nodes and tenants: control characters, and those that reverse text, as escapes. */
export function clean(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Words longer than a line are cut, so that no line is longer. */
export function wrap(text: string, indent: string, columns = width): readonly string[] {
  const room = columns - indent.length - 2;
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
    while (line.length > room) {
      lines.push(line.slice(0, room));
      line = line.slice(room);
    }
  }
  if (line !== "") lines.push(line);
  return lines.map((one, index) => `${indent}${index > 0 && indent !== "" ? "  " : ""}${one}`);
}
