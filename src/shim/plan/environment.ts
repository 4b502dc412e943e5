/** Environment of a container. Values may be secrets: no error names one. */
import type { KeyValue } from "../domain/cri.js";
import { unsupportedField } from "../domain/field-errors.js";

/** `NAME=value` in order, duplicates kept. The Engine API is JSON, so a value that is not UTF-8 cannot be sent. */
export function environment(envs: readonly KeyValue[]): readonly string[] {
  return envs.map(({ key, value }, index) => {
    try {
      return `${key}=${new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value)}`;
    } catch {
      throw unsupportedField(
        `config.envs[${String(index)}].value`,
        `the value of ${key} is not UTF-8, which Docker cannot take`,
      );
    }
  });
}

/** `entries` with `overrides`, each of which replaces the entries of its name that come before it. */
export function overrideEnvironment(
  entries: readonly string[],
  overrides: readonly string[],
): readonly string[] {
  const last = new Map(overrides.map((entry) => [nameOf(entry), entry]));
  return [...entries.filter((entry) => !last.has(nameOf(entry))), ...last.values()];
}

function nameOf(entry: string): string {
  const equals = entry.indexOf("=");
  return equals === -1 ? entry : entry.slice(0, equals);
}
