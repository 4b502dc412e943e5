/** docs/flags.md, made from the table of options. */
import { environmentName, optionGroups, type Option } from "./option.js";
import { optionList, options } from "./options.js";
import { commandFlags, ignoredFlags } from "./other-flags.js";

const introduction = `# Flags

This file is made from the table in \`src/shim/config/options.ts\`: change that, then run
\`node scripts/generate-flags-doc.mjs\`.

Every flag of cri-dockerd 0.4.3 and every flag of the kubelet 1.20 that concerned its dockershim is accepted under the
same name with the same meaning, so that a unit file can swap the binary. \`dockershim config\`, with the flags of the
unit file, prints each effective value and where it came from.

## Where a value can be given

One order, strongest first:

1. The flag: \`--${options.stateDir.name} /srv/dockershim\` or \`--${options.stateDir.name}=/srv/dockershim\`. Of a repeated flag the last one counts;
   values of flags that may be given repeatedly, as their rows say, add up.
   Switches stand alone (\`--${options.ipv6DualStack.name}\`) or have their value after \`=\` (\`--${options.ipv6DualStack.name}=false\`). Underscores in
   names are read as hyphens, as by the kubelet.
2. The environment variable: \`${environmentName(options.stateDir.name)}\`; that is \`DOCKERSHIM_\` and the flag in upper case with underscores.
   A variable that is set but empty gives the empty value.
3. The configuration file that \`--config\` or \`DOCKERSHIM_CONFIG\` names: YAML (or JSON), one mapping, whose keys are the
   flags without dashes. Lists may be YAML lists. \`dockershim config --output yaml\` writes such a file.
4. The default.

\`\`\`yaml
# /etc/dockershim.yaml
container-runtime-endpoint: unix:///run/dockershim.sock
network-plugin: cni
cni-bin-dir:
  - /opt/cni/bin
runtime-request-timeout: 2m
\`\`\`

Names that are not known are refused in all three places, with the nearest known name; so is a value that is not
valid, also where a stronger source overrides it. Aliases exist only as flags. Durations are written as in Go:
\`300ms\`, \`90s\`, \`1m30s\`, \`4h\`, or \`0\`. A wrong option ends the start with one line and exit code 1.

Two variables that set no option: \`DOCKER_HOST\` is the Docker Engine when \`--${options.dockerEndpoint.name}\` is not given, and
\`DOCKERSHIM_NO_SETUP\` does for \`npm start\` and \`npm test\` what \`--no-setup\` does for \`npm start\`.
`;

/** The text of docs/flags.md. */
export function renderFlagTable(): string {
  const sections = optionGroups.map((group) => {
    const rows = optionList
      .filter(([, option]) => option.group === group)
      .map(([, option]) => optionRow(option));
    return `## ${group}\n\n${table(["flag", "default", "meaning", "cri-dockerd", "dockershim", "why ours"], rows)}`;
  });
  const commandRows = commandFlags.map(({ name, placeholder, help }) => [
    code(placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`),
    help,
  ]);
  const ignoredRows = ignoredFlags.map(({ name, reason }) => [code(`--${name}`), reason]);
  return [
    introduction,
    `"–" in the columns cri-dockerd and dockershim: no such flag there. "none": its default is empty.\n`,
    ...sections,
    `## General\n\n${table(["flag", "meaning"], [...commandRows, [code("-h, --help"), "Print all flags and end"]])}`,
    "## Ignored flags of the kubelet\n\nAccepted with a warning, so that a unit file keeps working.\n",
    table(["flag", "why it is ignored"], ignoredRows),
  ].join("\n");
}

function optionRow(option: Option<unknown>): string[] {
  const { name, aliases = [], kind, default: text, defaultShown, help, why = "" } = option;
  const flags = [name === "v" ? "-v, --v" : `--${name}`, ...aliases.map((alias) => `--${alias}`)];
  const isChoice = kind.placeholder.includes("|") && kind.isBoolean !== true;
  const choice = isChoice ? `. One of ${kind.placeholder.split("|").map(code).join(", ")}` : "";
  return [
    flags.map(code).join("<br>"),
    defaultShown ?? code(text),
    `${help}${choice}`,
    elsewhere(option.criDockerdDefault),
    elsewhere(option.kubeletDefault),
    why,
  ];
}

function elsewhere(text: string | undefined): string {
  if (text === undefined) return "–";
  return text === "" ? "none" : code(text);
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return line(header) + line(header.map(() => "---")) + rows.map(line).join("");
}
