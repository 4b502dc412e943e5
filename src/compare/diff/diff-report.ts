/** What `dockershim diff` prints: a page for people, and plain values for JSON. */
import { groupBy } from "../../lib/group-by.js";
import { cutText, shownText } from "../../lib/shown-text.js";
import { codeName } from "../../client/cri-connection.js";
import type { AskedServer } from "../answers/asked-server.js";
import { valueAt } from "../answers/answer-shape.js";
import type { Difference } from "../answers/compare-answers.js";
import type { Comparison, Servers } from "./diff-servers.js";
import { intendedDifferences } from "../answers/find-intended.js";
import { serverKinds } from "../answers/server-kind.js";

/** The JSON of `dockershim diff --output json`. Keys are never removed, and new ones may come. */
export interface DiffReport {
  readonly left: ReportedServer;
  readonly right: ReportedServer;
  readonly asked: Comparison["asked"];
  /** Differences that are not intended; with `--all` also those that are. */
  readonly differences: readonly Difference[];
  /** The intended differences by their reason, most frequent first. */
  readonly intended: readonly IntendedCount[];
}

export interface ReportedServer {
  readonly socket: string;
  readonly kind: AskedServer["kind"];
  readonly criVersion: string;
  readonly runtimeName: string;
  readonly runtimeVersion: string;
}

export interface IntendedCount {
  readonly key: string;
  readonly what: string;
  readonly reason: string;
  readonly count: number;
}

export function isIntended({ intended }: Difference): boolean {
  return intended !== undefined;
}

export function diffReport(
  { left, right }: Servers,
  { differences, asked }: Comparison,
  { all }: { readonly all: boolean },
): DiffReport {
  return {
    left: reported(left),
    right: reported(right),
    asked,
    differences: all ? differences : differences.filter((difference) => !isIntended(difference)),
    intended: countIntended(differences),
  };
}

function reported({ socket, kind, criVersion, runtimeName, runtimeVersion }: AskedServer): ReportedServer {
  return { socket, kind, criVersion, runtimeName, runtimeVersion };
}

function countIntended(differences: readonly Difference[]): readonly IntendedCount[] {
  const counts = new Map<string, IntendedCount>();
  for (const { intended } of differences) {
    if (intended === undefined) continue;
    const count = (counts.get(intended.key)?.count ?? 0) + 1;
    const what = intendedDifferences.find(({ key }) => key === intended.key)?.what ?? "";
    counts.set(intended.key, { key: intended.key, what, reason: intended.reason, count });
  }
  return [...counts.values()].sort((one, other) => other.count - one.count);
}

const pageWidth = 100;

/** At most 100 columns. */
export function diffPage(report: DiffReport): string {
  const { left, right, asked, differences, intended } = report;
  const open = differences.filter((difference) => !isIntended(difference));
  const intendedCount = intended.reduce((sum, { count }) => sum + count, 0);
  const lines = [
    `left   ${describeServer(left)}`,
    `right  ${describeServer(right)}`,
    `asked  ${counted(asked.questions, "question")} about ${counted(asked.pods, "pod")}, ` +
      `${counted(asked.containers, "container")}, ${counted(asked.images, "image")}`,
    "",
    ...grouped(differences),
    ...(intended.length === 0 ? [] : ["Intended differences (docs/understand/differences.md, by key):"]),
    ...intended.flatMap(({ key, what, reason, count }) => [
      `${String(count).padStart(6)}  ${key}: ${what}`,
      ...wrapped(reason, "        "),
    ]),
    ...(intended.length === 0 ? [] : [""]),
    open.length === 0
      ? `No difference${intendedCount === 0 ? "" : ` beside ${counted(intendedCount, "intended one")}`}.`
      : `${counted(open.length, "difference")}${intendedCount === 0 ? "" : `, and ${String(intendedCount)} intended`}.`,
  ];
  return `${lines.map((line) => cutText(line, pageWidth)).join("\n")}\n`;
}

function describeServer({ socket, kind, criVersion, runtimeName, runtimeVersion }: ReportedServer): string {
  return shownText(`${socket}: ${serverKinds[kind]}, ${runtimeName} ${runtimeVersion}, CRI ${criVersion}`);
}

/** By RPC, then by pod, container or image. */
function grouped(differences: readonly Difference[]): readonly string[] {
  const lines: string[] = [];
  for (const [rpc, ofRpc] of groupBy(differences, (difference) => difference.rpc)) {
    lines.push(rpc);
    for (const [subject, ofSubject] of groupBy(ofRpc, (difference) => difference.subject)) {
      lines.push(`  ${shownText(subject)}`);
      for (const { field, left, right, intended } of ofSubject) {
        const note = intended === undefined ? "" : `  (intended: ${intended.key})`;
        lines.push(`    ${shownText(field)}${note}`);
        lines.push(`      left   ${shownValue(left)}`, `      right  ${shownValue(right)}`);
      }
    }
    lines.push("");
  }
  return lines;
}

function shownValue(value: unknown): string {
  if (value === null) return "-";
  const code = valueAt(value, "code");
  if (typeof code === "number") return shownText(`${codeName(code)}: ${String(valueAt(value, "message"))}`);
  return shownText(typeof value === "string" && value !== "" ? value : JSON.stringify(value));
}

function wrapped(text: string, indent: string): readonly string[] {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(" ")) {
    if (line.trim() !== "" && line.length + 1 + word.length > pageWidth) {
      lines.push(line);
      line = indent;
    }
    line += line === indent ? word : ` ${word}`;
  }
  return [...lines, line];
}

function counted(count: number, noun: string): string {
  return `${String(count)} ${noun}${count === 1 ? "" : "s"}`;
}
