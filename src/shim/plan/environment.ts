/** Environment of containers and of execs. */
import type { KeyValue } from "../../domain/cri.js";
import { unsupportedField } from "../../domain/field-errors.js";

/**
 * `NAME=value` in order, duplicates kept. The Engine API and OCI specifications are JSON, so a value that is
 * not UTF-8 cannot be said to either. Values may be secrets: no error shows one. `field` is the path of the list in the request.
 */
export function environment(envs: readonly KeyValue[], field: string): readonly string[] {
  return envs.map(({ key, value }, index) => {
    try {
      return `${key}=${new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value)}`;
    } catch {
      throw unsupportedField(
        `${field}[${index}].value`,
        `the value of ${key} is not UTF-8: Docker and OCI runtimes read JSON, which has text alone`,
      );
    }
  });
}
