/** Files of variables (fileKeyRef), as the kubelet reads them (1.36). Pure. */
import { ShimError } from "../../lib/errors.js";

/** The value of `key` in lines `NAME='VALUE'`, else "". Throws `invalid` with the number of a line alone. */
export function envFileValue(text: string, key: string): string {
  const lines = text.replace(/\n$/, "").split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lineAt(lines, at).replace(/^[ \t]+/, "");
    if (line === "" || line.startsWith("#")) continue;
    const first = at + 1;
    const refuse = (reason: string): ShimError => new ShimError("invalid", `line ${first}: ${reason}`);
    const [, name = "", rest] = /^([^=]*)=(.*)$/s.exec(line) ?? [];
    if (rest === undefined) throw refuse('it has no "="');
    if (name.trim() === "") throw refuse("it has no name");
    if (/[ \t]$/.test(name)) throw refuse('it has white space before "="');
    // As in a shell, where what follows would be a command.
    if (/^[ \t]/.test(rest)) {
      if (name === key) return "";
      continue;
    }
    if (!rest.startsWith("'")) throw refuse("the value must be in single quotes");
    let last = rest.slice(1);
    const parts = [last];
    while (!last.includes("'")) {
      at += 1;
      if (at >= lines.length) throw refuse("the quote has no end");
      last = lineAt(lines, at);
      parts.push(last);
    }
    const value = parts.join("\n");
    const end = value.indexOf("'");
    if (!/^[ \t]*(#|$)/.test(value.slice(end + 1))) throw refuse("something follows the value");
    if (name === key) return value.slice(0, end);
  }
  return "";
}

function lineAt(lines: readonly string[], at: number): string {
  return (lines[at] ?? "").replace(/\r$/, "");
}
