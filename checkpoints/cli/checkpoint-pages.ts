/** What `dockershim checkpoint` prints: a page for people, and plain values for JSON. */
import { dirname } from "node:path";
import type { ConvertedFile } from "../convert-files.js";
import { flavourName, type FilesAtRest } from "../files-at-rest.js";
import type { RepairedFile } from "../repair-files.js";
import type { CheckpointPortMapping, PodSandboxCheckpoint } from "../../src/shim/ports/checkpoint-store.js";
import { shownText } from "../../src/lib/shown-text.js";
import type { CheckpointProgram } from "./checkpoint-options.js";

export function listedPage({ intact, corrupt }: FilesAtRest): string {
  const lines: string[] = [];
  for (const directory of directoriesOf([...intact, ...corrupt])) {
    lines.push(shownText(directory));
    for (const { id, checkpoint, flavour } of intact.filter((file) => file.directory === directory))
      lines.push(`  ${shortId(id)}  ${podOf(checkpoint)}  (${flavourName(flavour)})${networkOf(checkpoint)}`);
    for (const { id, reason } of corrupt.filter((file) => file.directory === directory))
      lines.push(`  ${shortId(id)}  corrupt: ${shownText(reason)}`);
  }
  const count = `${intact.length} checkpoints, ${corrupt.length} corrupt files`;
  return `${[...lines, count].join("\n")}\n`;
}

export function verifiedPage({ intact, corrupt }: FilesAtRest): string {
  const lines: string[] = [];
  for (const directory of directoriesOf(intact)) {
    lines.push(shownText(directory));
    for (const { id, flavour } of intact.filter((file) => file.directory === directory))
      lines.push(`  right  ${shortId(id)}  (${flavourName(flavour)})`);
  }
  for (const { path, reason, content } of corrupt) {
    lines.push(`corrupt  ${shownText(path)}`, `         ${shownText(reason)}`);
    if (content !== undefined) lines.push(`         its content can be read: ${podOf(content)}`);
  }
  if (corrupt.length > 0) {
    const directories = directoriesOf(corrupt).map((directory) => ` --directory ${shownText(directory)}`);
    lines.push(`Next: dockershim checkpoint repair --dry-run${directories.join("")}`);
  }
  return `${[...lines, `${intact.length} right, ${corrupt.length} corrupt`].join("\n")}\n`;
}

export function convertedPage(files: readonly ConvertedFile[], to: CheckpointProgram): string {
  const written = files.filter((file) => file.written);
  const lines = written.flatMap(({ from, to: target, flavour }) => [
    `written  ${shownText(target)}`,
    `         was ${flavourName(flavour)}${from === target ? "" : `, in ${shownText(dirname(from))}`}`,
  ]);
  const rest = files.length - written.length;
  return `${[...lines, `${written.length} written for ${to}, ${rest} were right already`].join("\n")}\n`;
}

export function repairedPage(
  files: readonly RepairedFile[],
  { dryRun }: { readonly dryRun: boolean },
): string {
  const lines = files.flatMap(({ path, problem, source, checkpoint, note, quarantined }) => {
    const verb = source === "none" ? "left    " : dryRun ? "would be written" : "written ";
    const detail = [
      shownText(problem),
      ...(checkpoint === undefined
        ? []
        : [
            `from the ${source === "engine" ? "engine" : "content of the file"}: ${podOf(checkpoint)}${networkOf(checkpoint)}`,
          ]),
      ...(note === undefined ? [] : [shownText(note)]),
      ...(quarantined === undefined ? [] : [`the bad file: ${shownText(quarantined)}`]),
    ];
    return [`${verb} ${shownText(path)}`, ...detail.map((line) => `         ${line}`)];
  });
  const done = files.filter(({ source }) => source !== "none").length;
  const verb = dryRun ? "to be written" : "written";
  const left = files.length - done;
  return `${[...lines, `${done} ${verb}, ${left} cannot be repaired`].join("\n")}\n`;
}

export function listedJson({ intact, corrupt }: FilesAtRest): object {
  return {
    checkpoints: intact.map(({ id, path, directory, flavour, checkpoint }) => ({
      id,
      directory,
      path,
      flavour,
      ...content(checkpoint),
    })),
    corrupt: corrupt.map(({ id, path, directory, reason, content: said }) => ({
      id,
      directory,
      path,
      reason,
      ...(said === undefined ? {} : { content: content(said) }),
    })),
  };
}

export function repairedJson(
  files: readonly RepairedFile[],
  { dryRun }: { readonly dryRun: boolean },
): object {
  return {
    dryRun,
    files: files.map(({ checkpoint, ...file }) => ({
      ...file,
      ...(checkpoint === undefined ? {} : { content: content(checkpoint) }),
    })),
  };
}

function content({ namespace, name, data }: PodSandboxCheckpoint): object {
  const { portMappings = [], hostNetwork = false } = data;
  return { namespace, name, hostNetwork, portMappings };
}

function podOf({ namespace, name }: PodSandboxCheckpoint): string {
  return shownText(`${namespace}/${name}`);
}

/** The first of many host ports: JSON has all. */
const shownPorts = 3;

function networkOf({ data: { portMappings = [], hostNetwork } }: PodSandboxCheckpoint): string {
  const ports = portMappings.filter(({ hostPort }) => hostPort !== 0);
  const more = ports.length - shownPorts;
  const words = [
    ...(hostNetwork === true ? ["host network"] : []),
    ...ports.slice(0, shownPorts).map(portText),
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
  return words.length === 0 ? "" : `  ${words.join(", ")}`;
}

/** `8080->80/tcp`, `[fd00::1]:8080->80/tcp`. */
function portText({ protocol, containerPort, hostPort, hostIp = "" }: CheckpointPortMapping): string {
  const address =
    hostIp === "" ? "" : `${hostIp.includes(":") ? `[${shownText(hostIp)}]` : shownText(hostIp)}:`;
  return `${address}${hostPort}->${containerPort}/${protocol}`;
}

/** As Docker shortens ids; other names of files as they are. */
function shortId(id: string): string {
  return /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 12) : shownText(id);
}

function directoriesOf(files: readonly { readonly directory: string }[]): readonly string[] {
  return [...new Set(files.map(({ directory }) => directory))];
}
