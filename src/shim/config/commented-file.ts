/** A file for `--config` with every option as a comment: /etc/dockershim/config.yaml of the packages. */
import { optionGroups, type PlainValue } from "./option.js";
import { optionList } from "./options.js";

const lineWidth = 100;

/** All options of the table with meaning and default. Those of `set`, by their names, are set. */
export function commentedFile(
  stringify: (values: object) => string,
  set: Readonly<Record<string, PlainValue>> = {},
): string {
  const groups = optionGroups.map((group) => {
    const members = optionList.map(([, option]) => option).filter((option) => option.group === group);
    const entries = members.map(({ name, help, default: text, defaultShown }) => {
      const shown = defaultShown === undefined ? "" : ` Default: ${defaultShown}.`;
      const value = /^(true|false|\d+)$/.test(text) ? (JSON.parse(text) as unknown) : text;
      const line = Object.hasOwn(set, name)
        ? stringify({ [name]: set[name] })
        : `#${stringify({ [name]: value })}`;
      return `${comment(`${help}.${shown}`)}${line}`;
    });
    return `# ---- ${group} ----\n\n${entries.join("\n")}`;
  });
  const introduction =
    "Options of dockershim, each with its default. Take the # from the line of a key to set it, then run " +
    "systemctl restart dockershim. Flags of the unit and variables DOCKERSHIM_… win over this file. " +
    "dockershim config --config FILE prints the effective values.";
  return `${comment(introduction)}\n${groups.join("\n")}`;
}

function comment(text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1) ?? "";
    if (last !== "" && last.length + word.length >= lineWidth) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines.map((line) => `# ${line}\n`).join("");
}
