/** `dockershim config`: every effective value and its source. */
import type { EffectiveValue, ResolvedConfig } from "../config/resolve.js";
import type { PlainValue } from "../config/option.js";
import { options } from "../config/options.js";
import type { ProcessIo } from "../../cli/process-io.js";

export type ConfigFormat = "table" | "yaml" | "json" | "commented";

export interface ConfigOptions {
  readonly resolved: ResolvedConfig;
  readonly format: ConfigFormat;
}

/** YAML and JSON as `--config` give the same configuration again. */
export async function runConfig(
  { resolved, format }: ConfigOptions,
  io: Pick<ProcessIo, "writeOut" | "writeError">,
): Promise<number> {
  for (const warning of resolved.warnings) io.writeError(`dockershim: ${warning}\n`);
  io.writeOut(await renderConfig(resolved, format));
  return 0;
}

async function renderConfig(resolved: ResolvedConfig, format: ConfigFormat): Promise<string> {
  if (format === "table") return renderTable(resolved);
  const { stringify } = await import("../../lib/yaml.js");
  const valuesOf = (sources: readonly (readonly [string, EffectiveValue])[]): Record<string, PlainValue> =>
    Object.fromEntries(
      sources
        // The effective log level includes the verbosity. A file with both would contradict itself.
        .filter(([name]) => name !== options.verbosity.name)
        .map(([name, { value }]) => [name, value]),
    );
  const all = Object.entries(resolved.sources);
  if (format === "commented") {
    const set = valuesOf(all.filter(([, { source }]) => source !== "default"));
    return (await import("../config/commented-file.js")).commentedFile(stringify, set);
  }
  const values = valuesOf(all);
  if (format === "json") return `${JSON.stringify(values, undefined, 2)}\n`;
  return stringify(values);
}

function renderTable({ sources }: ResolvedConfig): string {
  const rows = [
    ["OPTION", "VALUE", "FROM"],
    ...Object.entries(sources).map(([name, effective]) => [
      name,
      showValue(effective),
      showOrigin(effective),
    ]),
  ];
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("  ")
          .trimEnd() + "\n",
    )
    .join("");
}

function showValue({ value }: EffectiveValue): string {
  const text = typeof value === "object" ? value.join(",") : String(value);
  return text === "" ? "-" : text;
}

function showOrigin({ source, detail }: EffectiveValue): string {
  return detail === "" ? source : `${source} ${detail}`;
}
