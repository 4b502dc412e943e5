/** What a rehearsal found, for people and for scripts. */
import { wrap } from "../judge/render-page.js";
import { shownText } from "../../lib/shown-text.js";

const pageWidth = 100;

export const stepNames = ["make", "switch", "new", "after", "back", "remove"] as const;
export type StepName = (typeof stepNames)[number];

export interface Finding {
  readonly step: StepName;
  /** `pod NAMESPACE/NAME`, `container NAMESPACE/NAME/CONTAINER`, or `rehearsal`. */
  readonly subject: string;
  readonly text: string;
}

/** A finding of the step that is under way. */
export type Problem = Omit<Finding, "step">;

export interface Verdict {
  readonly recording: string;
  readonly as: string;
  readonly pods: number;
  readonly containers: number;
  /** What the rehearsal does not show, or did in another way than the node. */
  readonly notes: readonly string[];
  /** In order; those that were reached. */
  readonly steps: readonly { readonly name: StepName; readonly did: string }[];
  readonly findings: readonly Finding[];
}

export function verdictPage(verdict: Verdict): string {
  const { recording, as, pods, containers, notes, steps, findings } = verdict;
  const lines = [
    `Rehearsal of ${shownText(recording)}: ${pods} pods, ${containers} containers, made as ${as}`,
    "",
  ];
  for (const { name, did } of steps) {
    const found = findings.filter(({ step }) => step === name);
    const head = `${found.length === 0 ? "ok     " : "FINDING"}  ${name.padEnd(6)}  `;
    const [first = "", ...rest] = wrap(shownText(did), "", pageWidth - head.length);
    lines.push(head + first, ...rest.map((line) => " ".repeat(head.length) + line));
    for (const { subject, text } of found) lines.push(`         ${shownText(subject)}: ${shownText(text)}`);
  }
  if (notes.length > 0)
    lines.push(
      "",
      "Not as on the node:",
      ...notes.flatMap((note) => wrap(`- ${shownText(note)}`, " ").map((line) => line.slice(1))),
    );
  const end =
    findings.length === 0
      ? "Verdict: what was compared of the recorded pods stayed the same, there and on the way back."
      : `Verdict: ${findings.length} findings.`;
  return `${[...lines, "", end].join("\n")}\n`;
}
