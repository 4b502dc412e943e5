/** Whether the checkpoints of a rehearsal are those that dockershim and cri-dockerd would read. */
import { join } from "node:path";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import type { Flavour } from "../../../checkpoints/checksum.js";
import { flavourName } from "../../../checkpoints/files-at-rest.js";
import { maximumFileBytes } from "../../../checkpoints/file-format.js";
import { readRegularFile } from "../../lib/files/state-files.js";
import type { Problem } from "./verdict.js";

export interface ExpectedCheckpoint {
  readonly id: string;
  readonly subject: string;
  readonly namespace: string;
  readonly name: string;
  /** The flavour of the program that made the pod, which reads the file again. */
  readonly flavour: Flavour;
}

export async function checkCheckpoints(
  directory: string,
  expected: readonly ExpectedCheckpoint[],
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  for (const { id, subject, namespace, name, flavour } of expected) {
    const reading = await readRegularFile(join(directory, id), maximumFileBytes);
    const add = (text: string): void => void problems.push({ subject, text: `its checkpoint ${text}` });
    if (reading.kind !== "read") {
      add(reading.kind === "absent" ? "is missing" : `is ${reading.reason}`);
      continue;
    }
    const found = decodeCheckpoint(reading.bytes);
    if (found.kind === "corrupt") add(`is corrupt: ${found.reason}`);
    else if (found.flavour !== flavour)
      add(`has the checksum of ${flavourName(found.flavour)}, not of ${flavourName(flavour)}`);
    else if (found.checkpoint.namespace !== namespace || found.checkpoint.name !== name)
      add(`is that of ${found.checkpoint.namespace}/${found.checkpoint.name}`);
  }
  return problems;
}
