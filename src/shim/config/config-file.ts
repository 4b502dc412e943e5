/** Options from the YAML configuration file. */
import { ShimError, messageOf } from "../../lib/errors.js";
import { type Given, didYouMean, fieldOfFlag, fieldOfName, optionNames } from "./given.js";
import { options } from "./options.js";

const largestFileCharacters = 1024 * 1024;

/**
 * The options of the file: one mapping, whose keys are the names of the flags without dashes. An empty file
 * has no options. Throws `invalid`, with line and column if known, for a file that cannot be read, is not
 * such a mapping or has an unknown option.
 */
export async function readConfigFile(
  path: string,
  readFile: (path: string) => Promise<string>,
): Promise<Given[]> {
  const fail = (reason: string, offset?: number): never => {
    const place = offset === undefined ? "" : ` line ${position(offset)}`;
    throw new ShimError("invalid", `config file "${path}"${place}: ${reason}`);
  };
  const text = await readFile(path).catch((error: unknown) => fail(`cannot be read: ${messageOf(error)}`));
  if (text.length > largestFileCharacters) fail("is larger than 1 MiB");

  const { isMap, isScalar, isSeq, LineCounter, parseDocument } = await import("../../lib/yaml.js");
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  function position(offset: number): string {
    const { line, col } = lines.linePos(offset);
    return `${line} column ${col}`;
  }

  const [fault] = document.errors;
  if (fault !== undefined) fail(fault.message.replaceAll(/\s+/g, " "), fault.pos[0]);
  const root: unknown = document.contents;
  if (root === null || (isScalar(root) && root.value === null)) return [];
  if (!isMap(root)) return fail('is not a mapping of options, such as "log-level: debug"', 0);
  const kind: unknown = root.get("kind");
  if (kind === "KubeletConfiguration") {
    fail("is a configuration of the kubelet and not of dockershim");
  }

  /** The source text of a scalar, so that the option and not YAML interprets `010` or `1e3`. */
  const scalarText = (node: unknown): string | undefined => {
    if (!isScalar(node) || node.value === null) return undefined;
    return typeof node.value === "string" ? node.value : node.source;
  };
  const given: Given[] = [];
  for (const { key, value } of root.items) {
    const offset = isScalar(key) ? (key.range?.[0] ?? 0) : 0;
    const name = scalarText(key) ?? fail("keys must be names of options", offset);
    const field = fieldOfName(name);
    if (field === undefined) {
      const alias = fieldOfFlag(name);
      const nearest =
        alias === undefined ? didYouMean(name, optionNames) : `: did you mean "${options[alias].name}"?`;
      return fail(`unknown option "${name}"${nearest}`, offset);
    }
    let optionText = scalarText(value);
    if (isSeq(value)) {
      if (options[field].kind.isList !== true)
        fail(`option "${name}": takes one value and not a list`, offset);
      optionText = value.items
        .map((item) => scalarText(item) ?? fail(`option "${name}": items must be plain values`, offset))
        .join(",");
    }
    const place = `config file "${path}" line ${position(offset)}: option "${name}"`;
    given.push({
      field,
      text: optionText ?? fail(`option "${name}": needs a plain value`, offset),
      source: "file",
      detail: `${path}:${lines.linePos(offset).line}`,
      place,
    });
  }
  return given;
}
