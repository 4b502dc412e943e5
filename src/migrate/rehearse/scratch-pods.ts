/** Recorded pods on a scratch host: made with the engine, as a legacy program would, and removed again. */
import { aggregate } from "../../lib/errors.js";
import { rm } from "node:fs/promises";
import { basename, isAbsolute, join, normalize } from "node:path";
import { encodeCheckpoint, type WrittenFlavour } from "../../../checkpoints/checkpoint.js";
import type { CreateBody } from "../../domain/create-body.js";
import { sandboxType, typeLabel } from "../../domain/labels.js";
import type { ListedContainer } from "../../domain/snapshot.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import { type LegacyNode, legacyContainer, legacySandbox } from "./legacy-bodies.js";
import type { PodNetworks } from "./pod-networks.js";
import type { RecordedPod } from "./recorded-pods.js";

/** On everything that a rehearsal makes; the value is its directory. */
export const rehearsalLabel = "dockershim.rehearsal";

export interface MadeContainer {
  readonly id: string;
  readonly recorded: RecordedPod["containers"][number];
}

export interface MadePod {
  readonly id: string;
  /** That the network plugin gave; undefined where Docker gives them. */
  readonly addresses?: readonly string[] | undefined;
  readonly recorded: RecordedPod;
  readonly containers: readonly MadeContainer[];
}

export function podSubject({ recorded }: Pick<MadePod, "recorded">): string {
  const { metadata } = recorded.config;
  return `pod ${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}

export function containerSubject(pod: MadePod, { recorded }: MadeContainer): string {
  return `${podSubject(pod).replace(/^pod/, "container")}/${recorded.config.metadata?.name ?? ""}`;
}

export interface ScratchHost {
  readonly engine: ContainerCalls;
  readonly node: LegacyNode;
  /** The directory of this rehearsal. */
  readonly directory: string;
  readonly checkpoints: string;
  /** Undefined: Docker's own network. */
  readonly networks?: Pick<PodNetworks, "attach"> | undefined;
}

const engineCallMs = 60_000;

/** Throws when `signal` is aborted, at the end of the engine's call that is under way. */
export async function makePod(
  recorded: RecordedPod,
  host: ScratchHost,
  signal: AbortSignal,
): Promise<MadePod> {
  const { engine, node, directory, checkpoints, networks } = host;
  const { name, body, checkpoint } = legacySandbox(recorded.config, node);
  // The engine makes a container although its create was given up, and then the removal would not find it.
  const toItsEnd = async <T>(call: (limit: AbortSignal) => Promise<T>): Promise<T> => {
    const result = await call(AbortSignal.timeout(engineCallMs));
    signal.throwIfAborted();
    return result;
  };
  const create = (named: string, sent: CreateBody) =>
    toItsEnd((limit) => engine.createContainer(named, onScratch(sent, node, directory), limit));
  const start = (made: string) => toItsEnd((limit) => engine.startContainer(made, limit));
  const id = await create(name, body);
  await writeFileAtomically(join(checkpoints, id), encodeCheckpoint(checkpoint, flavourOf(node)), {
    mode: 0o600,
    temporaryPrefix: ".dockershim-",
    directoryMode: 0o755,
  });
  await start(id);
  const pid = (await engine.inspectContainer(id, signal))?.state.pid ?? 0;
  const addresses = await networks?.attach({ id, pid, config: recorded.config }, signal);
  const containers: MadeContainer[] = [];
  for (const container of recorded.containers) {
    const request = { sandboxId: id, config: container.config, sandboxConfig: recorded.config };
    const legacy = legacyContainer(request, node);
    const madeId = await create(legacy.name, legacy.body);
    if (container.started) await start(madeId);
    containers.push({ id: madeId, recorded: container });
  }
  return { id, addresses, recorded, containers };
}

/** The flavour of the checkpoints that the program writes. */
export function flavourOf({ program }: LegacyNode): WrittenFlavour {
  return program === "dockershim" ? "dockershim" : "criDockerd";
}

/** Without what belongs to the recorded node: images, files, devices, CPUs, profiles, OOM scores. */
export function onScratch(body: CreateBody, { pauseImage }: LegacyNode, directory: string): CreateBody {
  const { Entrypoint: _entrypoint, Cmd: _command, User, HostConfig, ...rest } = body;
  const { Binds: _binds, Devices: _devices, CgroupParent: _parent, ...own } = HostConfig;
  const { CpusetCpus: _cpus, CpusetMems: _nodes, OomScoreAdj: _score, ...others } = own;
  const { PidMode, SecurityOpt = [], ...host } = others;
  // The target of a debug container is an id of the recorded node.
  const hasPidMode = PidMode !== undefined && (!PidMode.startsWith("container:") || PidMode === host.IpcMode);
  return {
    ...rest,
    ...(User !== undefined && /^\d+(:\d+)?$/.test(User) ? { User } : {}),
    Image: pauseImage,
    Labels: { ...body.Labels, [rehearsalLabel]: directory },
    HostConfig: {
      ...host,
      ...(hasPidMode ? { PidMode } : {}),
      SecurityOpt: SecurityOpt.filter((option) => !/^(?:apparmor|label)=/.test(option)),
    },
  };
}

/** Ids of the sandboxes that the rehearsal of `directory` made. */
export async function sandboxesOf(
  engine: Pick<ContainerCalls, "listContainers">,
  directory: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const listed = await engine.listContainers({ labelKey: rehearsalLabel, labelValue: directory }, signal);
  return listed.filter(isSandbox).map(({ id }) => id);
}

function isSandbox({ labels }: Pick<ListedContainer, "labels">): boolean {
  return labels[typeLabel] === sandboxType;
}

/** Removes what the rehearsal of `directory` made. */
export async function removeMade(
  engine: ContainerCalls,
  directory: string,
  signal: AbortSignal,
): Promise<void> {
  const filter = { labelKey: rehearsalLabel, labelValue: directory };
  const listed = await engine.listContainers(filter, signal);
  const errors: unknown[] = [];
  // Containers before the sandboxes whose namespaces they use.
  for (const { id } of [...listed.filter((one) => !isSandbox(one)), ...listed.filter(isSandbox)]) {
    // One that cannot be removed must not keep the others.
    await engine.removeContainer(id, { force: true }, signal).catch((error: unknown) => errors.push(error));
  }
  const error = aggregate(errors);
  if (error !== undefined) throw error;
}

/** Directories that rehearsals made which still have containers. */
export async function directoriesOfMade(
  engine: ContainerCalls,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const listed = await engine.listContainers({ labelKey: rehearsalLabel }, signal);
  const directories = listed.map(({ labels }) => labels[rehearsalLabel] ?? "");
  // Every user of the engine can give a container this label.
  return [...new Set(directories)].filter(isRehearsalDirectory);
}

export const directoryPrefix = "dockershim-rehearsal-";

function isRehearsalDirectory(path: string): boolean {
  return isAbsolute(path) && normalize(path) === path && basename(path).startsWith(directoryPrefix);
}

export async function removeDirectory(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
}
