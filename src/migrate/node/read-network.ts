/** CNI configuration, plugins and caches, and the checkpoints of all programs. Reads files only. */
import { basename, join } from "node:path/posix";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { legacyResultDirs } from "../../network/libcni/cache.js";
import { readConfigurationFiles } from "../../network/libcni/configuration-files.js";
import { messageOf } from "../../lib/errors.js";
import { needsCgroup } from "../../shim/plan/cgroups.js";
import { isFileKey } from "../../lib/files/state-files.js";
import type { CheckpointFact, NetworkFacts } from "../facts/facts.js";
import type { Problem } from "../systemd/unit-file.js";
import type { NodeFiles } from "../files/node-files.js";

export interface NetworkPlaces {
  readonly configurationDirectory: string;
  readonly binDirectories: readonly string[];
  readonly cacheDirectories: readonly string[];
}

export async function readNetwork(
  files: NodeFiles,
  { configurationDirectory, binDirectories, cacheDirectories }: NetworkPlaces,
): Promise<NetworkFacts> {
  const local = files.local(await files.resolve(configurationDirectory));
  let configurations: NetworkFacts["configurations"];
  try {
    configurations = (await readConfigurationFiles(local)).map(({ path, list, problem }) => ({
      path: join(configurationDirectory, basename(path)),
      network: list?.name,
      problem: problem?.replaceAll(local, configurationDirectory),
    }));
  } catch (error) {
    const problem = messageOf(error).replaceAll(local, configurationDirectory);
    configurations = [{ path: configurationDirectory, network: undefined, problem }];
  }
  const cached = new Map<string, string>();
  const directories = [...cacheDirectories.map((path) => join(path, "results")), ...legacyResultDirs];
  for (const directory of new Set(directories)) {
    for (const name of await files.names(directory)) {
      const [, network = "", id] = /^(.+)-([0-9a-f]{64})-[^-]+$/.exec(name) ?? [];
      if (id !== undefined && network !== "") cached.set(id, network);
    }
  }
  return {
    configurationDirectory,
    configurations,
    binDirectories: await Promise.all(
      binDirectories.map(async (path) => ({ path, programs: (await files.names(path)).length })),
    ),
    cached,
  };
}

/** All files of a checkpoint directory without a leading dot. */
export async function readCheckpoints(
  files: NodeFiles,
  directory: string,
): Promise<readonly CheckpointFact[]> {
  const facts: CheckpointFact[] = [];
  for (const sandboxId of await files.names(directory)) {
    if (sandboxId.startsWith(".")) continue;
    const path = join(directory, sandboxId);
    const reading = await files.read(path);
    if (reading.kind === "absent") continue;
    const corrupt = (reason: string): CheckpointFact => ({
      sandboxId,
      path,
      reason,
      flavour: undefined,
      hasHostPorts: false,
    });
    if (reading.kind === "unreadable") {
      facts.push(corrupt(reading.reason));
      continue;
    }
    const result = isFileKey(sandboxId) ? decodeCheckpoint(Buffer.from(reading.text)) : undefined;
    if (result?.kind !== "checkpoint") {
      facts.push(corrupt(result?.reason ?? "its name is not that of a sandbox"));
      continue;
    }
    const { portMappings = [] } = result.checkpoint.data;
    const hasHostPorts = portMappings.some(({ hostPort }) => hostPort > 0);
    facts.push({ sandboxId, path, flavour: result.flavour, reason: undefined, hasHostPorts });
  }
  return facts;
}

const notJson = "is not JSON; dockershim moves it to quarantine/ at its start";

export interface PodRecordFact {
  readonly plugin: string;
  readonly path: string;
}

/** Records of this program by sandbox, and those containers that have limits beyond what kubelets send. */
export async function readRecords(
  files: NodeFiles,
  stateDirectory: string,
): Promise<{
  readonly pods: ReadonlyMap<string, PodRecordFact>;
  readonly limits: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}> {
  const pods = new Map<string, PodRecordFact>();
  const limits = new Set<string>();
  const problems: Problem[] = [];
  /** `take` throws for a value that this program does not write. */
  const readEach = async (kind: string, take: (id: string, path: string, record: unknown) => void) => {
    for (const name of await files.names(join(stateDirectory, kind))) {
      if (!name.endsWith(".json") || name.startsWith(".")) continue;
      const path = join(stateDirectory, kind, name);
      const reading = await files.read(path);
      try {
        const record: unknown = reading.kind === "read" ? JSON.parse(reading.text) : undefined;
        take(name.slice(0, -".json".length), path, record);
      } catch {
        problems.push({ place: path, text: notJson });
      }
    }
  };
  await readEach("pods", (id, path, record) => {
    pods.set(id, { path, plugin: pluginOf(record as PodRecordShape | undefined) });
  });
  await readEach("containers", (id, _path, record) => {
    if (hasLimits(record as ContainerRecordShape | undefined)) limits.add(id);
  });
  return { pods, limits, problems };
}

/** The part of a container's record that is read. */
interface ContainerRecordShape {
  readonly cgroup?: {
    readonly unified?: Readonly<Record<string, string>>;
    readonly hugepages?: readonly { readonly limitBytes?: string }[];
  } | null;
}

/** Throws for a value that this program does not write. */
function hasLimits(record: ContainerRecordShape | null | undefined): boolean {
  const { unified = {}, hugepages = [] } = record?.cgroup ?? {};
  return needsCgroup({
    unified,
    hugepages: hugepages.map(({ limitBytes }) => ({ pageSize: "", limitBytes: BigInt(limitBytes ?? 0) })),
  });
}

/** The part of a pod's record that is read. */
interface PodRecordShape {
  readonly network?: { readonly plugin?: unknown } | null;
}

/** Empty, which counts as unknown, for a value that this program does not write. */
function pluginOf(record: PodRecordShape | null | undefined): string {
  const plugin = record?.network?.plugin;
  return typeof plugin === "string" && /^[a-z-]{1,32}$/.test(plugin) ? plugin : "";
}
