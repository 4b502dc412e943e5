/** The section of docs/understand/differences.md about answers, made from the table of intended differences. */
import { ShimError } from "../../lib/errors.js";
import type { IntendedDifference } from "./intended-entry.js";
import { intendedDifferences } from "./find-intended.js";

const begin = "<!-- made by scripts/generate-differences-doc.mjs -->";
const end = "<!-- end of what is made -->";

/** `document` with the section between its markers replaced. Throws `internal` without the markers. */
export function withIntendedDifferences(document: string): string {
  const from = document.indexOf(begin);
  const to = document.indexOf(end);
  if (from < 0 || to < from)
    throw new ShimError("internal", `write the section of answers: no lines "${begin}" and "${end}"`);
  return `${document.slice(0, from + begin.length)}\n\n${section()}\n${document.slice(to)}`;
}

function section(): string {
  const isLegacy = ({ against }: IntendedDifference): boolean =>
    against.some((kind) => kind === "kubelet-dockershim" || kind === "cri-dockerd");
  const others = intendedDifferences.filter((entry) => !isLegacy(entry));
  const shared = intendedDifferences.filter(
    (entry) => isLegacy(entry) && entry.against.includes("containerd"),
  );
  return [
    table(intendedDifferences.filter(isLegacy)),
    "These of them apply beside containerd and CRI-O, too:",
    `${shared.map(({ key }) => `\`${key}\``).join(", ")}.\n`,
    "Beside containerd and CRI-O alone:\n",
    table(others),
  ].join("\n");
}

function table(entries: readonly IntendedDifference[]): string {
  const rows = entries.map(({ key, what, they, here, reason, see }) => [
    `\`${key}\``,
    what,
    they,
    here,
    see === undefined ? reason : `${reason}: ${see}`,
  ]);
  const header = ["key", "answer", "they", "here", "reason"];
  return [header, header.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}
