/** docs/run/flags.md, made from the table of options. */
import { criDockerdVersion, environmentName, optionGroups, type Option } from "./option.js";
import { optionList, options } from "./options.js";
import { commandFlags, ignoredFlags } from "./other-flags.js";

const { stateDir, ipv6DualStack, dockerEndpoint } = options;

const namedDefaults = Object.values<Option<unknown>>(options).filter(
  ({ isNamedDefault }) => isNamedDefault === true,
);

const introduction = `# Flags

This file is made from the table in \`src/shim/config/options.ts\`. After a change of the table, run
\`node scripts/generate-flags-doc.mjs\`.

The program accepts every flag of cri-dockerd 0.4.3 and every flag of the kubelet 1.20 that concerned its
dockershim, with the same name and meaning. A unit file only has to name the other binary.
\`dockershim config\`, with the flags of the unit file, prints each effective value and its source.

Started by the name \`cri-dockerd\`, it has cri-dockerd's defaults for
${namedDefaults.map(({ name }) => code(`--${name}`)).join(", ")}, its checkpoints are those of cri-dockerd, and
\`--version\` prints the version whose place it takes, ${criDockerdVersion}:
[install.md](install.md#in-cri-dockerds-place).

## Sources of a value

The order of precedence:

1. The flag: \`--${stateDir.name} /srv/dockershim\` or \`--${stateDir.name}=/srv/dockershim\`. The last of
   repeated flags wins, except for flags whose rows allow repetition: their values add up. A switch stands
   alone (\`--${ipv6DualStack.name}\`) or has its value after \`=\` (\`--${ipv6DualStack.name}=false\`).
   As with the kubelet, underscores in names mean hyphens.
2. The environment variable: \`DOCKERSHIM_\` and the flag in upper case with underscores, such as
   \`${environmentName(stateDir.name)}\`. A variable that is set but empty gives the empty value.
3. The configuration file of \`--config\` or \`DOCKERSHIM_CONFIG\`: YAML (or JSON), one mapping, whose keys
   are the flags without dashes. Lists may be YAML lists. \`dockershim config --output yaml\` writes such a file.
4. The default.

\`\`\`yaml
# /etc/dockershim.yaml
container-runtime-endpoint: unix:///run/dockershim.sock
network-plugin: cni
cni-bin-dir:
  - /opt/cni/bin
runtime-request-timeout: 2m
\`\`\`

In all three places an unknown name is an error, which suggests the nearest known name. An invalid value is an
error, too, even if a source of higher precedence overrides it. Aliases exist only as flags. Durations have
Go's form: \`300ms\`, \`90s\`, \`1m30s\`, \`4h\`, or \`0\`. A wrong option ends the start with one line and
exit code 1.

Two variables set no option. \`DOCKER_HOST\` is the Docker Engine when \`--${dockerEndpoint.name}\` is not
given; without it, Docker's context counts: [remote.md](remote.md). \`DOCKERSHIM_NO_SETUP\` has the effect of \`--no-setup\` on \`npm start\` and \`npm test\`.

In the columns cri-dockerd and dockershim, "–" means that the program has no such flag, and "none" means that
its default is empty.
`;

/** The text of docs/run/flags.md. */
export function renderFlagTable(): string {
  const commandRows = commandFlags.map(({ name, placeholder, help }) => [
    code(placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`),
    help,
  ]);
  const ignoredRows = ignoredFlags.map(({ name, reason }) => [code(`--${name}`), reason]);
  return [
    filled(introduction),
    ...optionGroups.map(renderGroup),
    "## General\n",
    table(["flag", "meaning"], [...commandRows, [code("-h, --help"), "Print all flags and exit"]]),
    "## Ignored flags of the kubelet\n",
    "The program accepts these flags with a warning, so that a unit file keeps working.\n",
    table(["flag", "why it is ignored"], ignoredRows),
  ].join("\n");
}

function renderGroup(group: (typeof optionGroups)[number]): string {
  const members = optionList.map(([, option]) => option).filter((option) => option.group === group);
  const rows = table(["flag", "default", "meaning", "cri-dockerd", "dockershim"], members.map(optionRow));
  const reasons = members.flatMap(({ name, why }) =>
    why === undefined ? [] : [`- ${code(`--${name}`)}: ${why}.\n`],
  );
  const list = reasons.length === 0 ? "" : `\nReasons for the defaults:\n\n${reasons.join("")}`;
  return `## ${group}\n\n${rows}${filled(list)}`;
}

const lineWidth = 110;

/** Fills the lines of paragraphs and list items. Blocks of code stay as they are. */
function filled(markdown: string): string {
  const block = /```[^]*?```|\S[^]*?(?=\n\n|\n- |\n\d\. |\n*$)/g;
  return markdown.replaceAll(block, (text) => (text.startsWith("```") ? text : fillBlock(text)));
}

function fillBlock(text: string): string {
  const indent = " ".repeat(/^(?:-|\d\.) /.exec(text)?.[0].length ?? 0);
  const lines: string[] = [];
  let line = "";
  for (const [word] of text.matchAll(/(?:`[^`]*`|\S)+/g)) {
    if (line !== "" && line.length + 1 + word.length > lineWidth) {
      lines.push(line);
      line = indent + word;
    } else {
      line += line === "" ? word : ` ${word}`;
    }
  }
  return [...lines, line].join("\n");
}

function optionRow(option: Option<unknown>): string[] {
  const { name, aliases = [], kind, default: text, defaultShown, help } = option;
  const flags = [name === "v" ? "-v, --v" : `--${name}`, ...aliases.map((alias) => `--${alias}`)];
  const isChoice = kind.placeholder.includes("|") && kind.isBoolean !== true;
  const choice = isChoice ? `. One of ${kind.placeholder.split("|").map(code).join(", ")}` : "";
  return [
    flags.map(code).join("<br>"),
    defaultShown ?? code(text),
    `${help}${choice}`,
    elsewhere(option.criDockerdDefault),
    elsewhere(option.kubeletDefault),
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
