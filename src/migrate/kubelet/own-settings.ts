/** What this program's unit sets besides flags: its configuration file, and the variables of its environment. */
import { messageOf } from "../../lib/errors.js";
import { readConfigFile } from "../../shim/config/config-file.js";
import { configFileVariable, type Given, readEnvironment } from "../../shim/config/given.js";
import { options } from "../../shim/config/options.js";
import type { FlagFact } from "../facts/facts.js";
import type { NodeFiles } from "../files/node-files.js";
import type { UnitCommand } from "../systemd/unit-command.js";
import type { Problem } from "../systemd/unit-file.js";
import { lastFlag } from "./flags.js";

export interface OwnSettings {
  /** As flags without words of the command. Later ones win, and real flags win over all. */
  readonly flags: readonly FlagFact[];
  readonly problems: readonly Problem[];
}

/** Never throws. */
export async function readOwnSettings(
  files: NodeFiles,
  { variables }: UnitCommand,
  flags: readonly FlagFact[],
): Promise<OwnSettings> {
  const found: FlagFact[] = [];
  const problems: Problem[] = [];
  const add = ({ field, text: value }: Given, file: string, line: number): void => {
    found.push({ name: options[field].name, value, raw: [], file, line });
  };
  const path = lastFlag(flags, "config")?.value ?? variables.get(configFileVariable)?.value ?? "";
  try {
    for (const given of path === "" ? [] : await readConfigFile(path, (name) => textOf(files, name)))
      add(given, path, Number(given.detail.slice(path.length + 1)));
  } catch (error) {
    problems.push({ place: path, text: `is not understood: ${messageOf(error)}` });
  }
  for (const [name, { value, file, line }] of variables) {
    try {
      for (const given of readEnvironment({ [name]: value })) add(given, file, line);
    } catch (error) {
      problems.push({ place: `${file}:${line}`, text: `is not understood: ${messageOf(error)}` });
    }
  }
  return { flags: found, problems };
}

async function textOf(files: NodeFiles, path: string): Promise<string> {
  const reading = await files.read(path);
  if (reading.kind === "read") return reading.text;
  throw new Error(reading.kind === "absent" ? "there is no such file" : reading.reason);
}
