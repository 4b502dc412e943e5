/** The table of docs/run/doctor.md. `node --import tsx test/support/doctor-doc.ts` writes it there. */
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { diagnose } from "../../src/doctor/judge/diagnose.js";
import { breakages } from "./doctor-breakages.js";

export const doctorDocument = fileURLToPath(new URL("../../docs/run/doctor.md", import.meta.url));

const begin = "<!-- findings: begin -->";
const end = "<!-- findings: end -->";

/** The document with the present table in it; throws when it has no place for one. */
export async function documentWithFindings(): Promise<{ readonly present: string; readonly wanted: string }> {
  const present = await readFile(doctorDocument, "utf8");
  const [before, rest] = present.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined)
    throw new Error(`no place for the table in ${doctorDocument}`);
  return { present, wanted: `${before}${begin}\n\n${table()}\n\n${end}${after}` };
}

function table(): string {
  const rows = breakages.map(({ name, facts, check }) => {
    const found = diagnose(facts, "").findings.find((finding) => finding.check === check);
    if (found === undefined) throw new Error(`${name}: ${check} finds nothing`);
    const { severity, what, meaning, remedy } = found;
    return [name, `${severity}: ${what}`, meaning, remedy];
  });
  const lines = [
    ["broken", "doctor says", "it means", "what to type"],
    ["---", "---", "---", "---"],
    ...rows,
  ];
  return lines.map((cells) => `| ${cells.map(escaped).join(" | ")} |`).join("\n");
}

/** As Markdown's text. */
function escaped(text: string): string {
  return text.replaceAll(/[|<>*]/g, "\\$&");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await writeFile(doctorDocument, (await documentWithFindings()).wanted);
}
