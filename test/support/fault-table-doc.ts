/** The fault table of docs/run/faults.md. `node --import tsx test/support/fault-table-doc.ts` writes it there. */
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Fault } from "./engine-proxy.js";
import { faults, faultTable, type FaultRow, type Outcome } from "./fault-table.js";

export const faultsDocument = fileURLToPath(new URL("../../docs/run/faults.md", import.meta.url));

const begin = "<!-- fault table: begin -->";
const end = "<!-- fault table: end -->";

const headings: Readonly<Record<Fault, string>> = {
  delay: "late",
  stall: "not heard",
  withhold: "not answered",
  close: "closed before",
  lose: "answer lost",
  cut: "answer cut",
  garble: "no JSON",
  error: "status 500",
};

const words: Readonly<Record<Outcome, string>> = {
  OK: "OK",
  NOT_READY: "not ready",
  DEADLINE_EXCEEDED: "deadline",
  UNAVAILABLE: "UNAVAILABLE",
  UNKNOWN: "UNKNOWN",
  FAILED: "failed",
};

/** The document with the present table in it; throws when it has no place for one. */
export async function documentWithTable(): Promise<{ readonly present: string; readonly wanted: string }> {
  const present = await readFile(faultsDocument, "utf8");
  const [before, rest] = present.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined)
    throw new Error(`no place for the table in ${faultsDocument}`);
  return { present, wanted: `${before}${begin}\n\n${table()}\n\n${end}${after}` };
}

function table(): string {
  const lines = [
    ["RPC", "engine request", ...faults.map((fault) => headings[fault])],
    ["---", "---", ...faults.map(() => "---")],
    ...faultTable.map(cellsOf),
  ];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function cellsOf({ rpc, request, api, strikes, outcomes }: FaultRow): readonly string[] {
  const results = faults.map((fault) => {
    const outcome = outcomes[fault];
    return outcome === undefined ? "–" : words[outcome];
  });
  const versions = api === undefined ? "" : ` (API ${api})`;
  return [rpc, `\`${request}\`${versions}${strikes === "every" ? "" : ", once"}`, ...results];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await writeFile(faultsDocument, (await documentWithTable()).wanted);
}
