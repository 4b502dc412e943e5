/** `dockershim checkpoint repair`: missing and corrupt checkpoints, from the engine or from the files. */
import { join, resolve } from "node:path";
import { linkIntoQuarantine } from "../src/lib/files/state-files.js";
import type { CheckpointPortMapping, PodSandboxCheckpoint } from "../src/shim/ports/checkpoint-store.js";
import { encodeCheckpoint, type WrittenFlavour } from "./checkpoint.js";
import { isCriDockerds, quarantineOf, readFilesAtRest } from "./files-at-rest.js";
import { writeTogether } from "./stage-files.js";

/** What the engine says of one sandbox. */
export interface EngineSandbox {
  readonly checkpoint: PodSandboxCheckpoint;
  /** Why its host ports are unknown. */
  readonly portsUnknown?: string;
}

/** The sandboxes of an engine. */
export interface EngineSandboxes {
  readonly ids: readonly string[];
  /** Undefined when there is none. A string says why it is unknown. */
  read(id: string): Promise<EngineSandbox | string | undefined>;
}

export interface RepairOptions {
  /** Missing: by the name of each directory. */
  readonly to?: WrittenFlavour;
  /** Without one, only files whose checksum alone is wrong can be repaired. */
  readonly engine?: EngineSandboxes;
  /** Where a checkpoint may be, too, before it counts as missing. */
  readonly alsoLookIn?: readonly string[];
  readonly dryRun: boolean;
}

export interface RepairedFile {
  readonly id: string;
  readonly path: string;
  /** What was wrong: the reason why it is corrupt, or `missing`. */
  readonly problem: string;
  /** What the new file was made from; `none`: it cannot be repaired, and stays as it is. */
  readonly source: "engine" | "file" | "none";
  readonly checkpoint?: PodSandboxCheckpoint;
  /** What the reader should know: why it cannot be repaired, or what is missing in the new file. */
  readonly note?: string;
  /** Where the bad file is kept. */
  readonly quarantined?: string;
}

/** Rewrites corrupt checkpoints, which go to the quarantine, and writes those that are missing. */
export async function repairFiles(
  directories: readonly string[],
  options: RepairOptions,
): Promise<readonly RepairedFile[]> {
  const { engine, dryRun, alsoLookIn = [] } = options;
  const { intact, corrupt } = await readFilesAtRest(directories);
  const plans: RepairedFile[] = [];
  for (const { id, path, reason, content, isLater = false } of corrupt) {
    if (isLater) {
      plans.push({ id, path, problem: reason, source: "none" });
      continue;
    }
    const said = await engine?.read(id);
    plans.push({ id, path, problem: reason, ...chooseSource(said, content, engine !== undefined) });
  }
  const [first] = directories;
  if (engine !== undefined && first !== undefined) {
    const elsewhere = await readFilesAtRest(alsoLookIn);
    const present = [...intact, ...corrupt, ...elsewhere.intact, ...elsewhere.corrupt];
    const known = new Set(present.map(({ id }) => id));
    for (const id of engine.ids) {
      if (known.has(id)) continue;
      const said = await engine.read(id);
      // Removed since the engine was asked.
      if (said === undefined) continue;
      plans.push({
        id,
        path: join(resolve(first), id),
        problem: "missing",
        ...chooseSource(said, undefined, true),
      });
    }
  }
  return dryRun ? plans : write(plans, options.to);
}

async function write(
  plans: readonly RepairedFile[],
  to: WrittenFlavour | undefined,
): Promise<readonly RepairedFile[]> {
  const kept = new Map<string, string>();
  const missing = new Set(plans.filter(({ problem }) => problem === "missing").map(({ path }) => path));
  const files = plans.flatMap(({ path, checkpoint }) => {
    if (checkpoint === undefined) return [];
    const directory = join(path, "..");
    const flavour = to ?? (isCriDockerds(directory) ? "criDockerd" : "dockershim");
    return [{ path, bytes: encodeCheckpoint(checkpoint, flavour) }];
  });
  await writeTogether(files, async (path) => {
    if (missing.has(path)) return;
    kept.set(path, await linkIntoQuarantine(path, quarantineOf(join(path, "..")), "sandbox"));
  });
  return plans.map((plan) => {
    const quarantined = kept.get(plan.path);
    return quarantined === undefined ? plan : { ...plan, quarantined };
  });
}

type Choice = Pick<RepairedFile, "source" | "checkpoint" | "note">;

/** The engine is believed before a file with a wrong checksum, unless the file only says more than it. */
function chooseSource(
  said: EngineSandbox | string | undefined,
  content: PodSandboxCheckpoint | undefined,
  asked: boolean,
): Choice {
  if (typeof said === "object") {
    const { checkpoint, portsUnknown } = said;
    if (content !== undefined && saysNoLess(content, said)) return { source: "file", checkpoint: content };
    return { source: "engine", checkpoint, ...(portsUnknown === undefined ? {} : { note: portsUnknown }) };
  }
  if (content !== undefined) {
    const note = said ?? (asked ? "the engine has no such sandbox" : undefined);
    return { source: "file", checkpoint: content, ...(note === undefined ? {} : { note }) };
  }
  const why = asked
    ? (said ?? "the engine has no such sandbox; remove the file when its pod is gone")
    : "its content cannot be read; give an engine with --docker-endpoint";
  return { source: "none", note: why };
}

/** Whether a file agrees with the engine, which has no mappings without a host port, and another order. */
function saysNoLess(content: PodSandboxCheckpoint, { checkpoint, portsUnknown }: EngineSandbox): boolean {
  const isSame =
    content.name === checkpoint.name &&
    content.namespace === checkpoint.namespace &&
    content.data.hostNetwork === checkpoint.data.hostNetwork;
  return isSame && (portsUnknown !== undefined || hostPorts(content) === hostPorts(checkpoint));
}

function hostPorts({ data: { portMappings = [] } }: PodSandboxCheckpoint): string {
  const text = ({ protocol, containerPort, hostPort, hostIp = "" }: CheckpointPortMapping): string =>
    [protocol, containerPort, hostPort, hostIp].join(" ");
  return portMappings
    .filter(({ hostPort }) => hostPort !== 0)
    .map(text)
    .sort()
    .join(",");
}
