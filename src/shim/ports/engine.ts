/**
 * The container engine as the shim uses it: the types are those of src/domain, and every wait ends with
 * its signal. Implemented by engine/docker-engine.ts over the Docker Engine API and by
 * test/fakes/fake-engine.ts.
 *
 * Errors are ShimErrors: 404 is `notFound` (or an `undefined` answer where a method says so), 409 `conflict`
 * or `precondition`, 400 `invalid`, 501 `unsupported`, 401/403 `denied`, a socket that cannot be reached
 * `unavailable`.
 */
import type { Readable, Writable } from "node:stream";
import type { CreateBody, DockerResources } from "../../domain/create-body.js";
import type { Labels } from "../../domain/labels.js";
import type { NodeFacts, Owner } from "../../domain/node-facts.js";
import type { EngineReading } from "../../domain/resource-reading.js";
import type { ImageSnapshot, ListedContainer, ListedImage, Snapshot } from "../../domain/snapshot.js";
import type { TerminalSize } from "./streaming.js";

export interface EngineVersion {
  /** As `20.10.24`. */
  readonly version: string;
  /** Highest API version of the engine, as `1.41`. */
  readonly apiVersion: string;
}

export interface EngineEvent {
  /**
   * `otherContainer`: without the label of the subscription; only its creation and its removal are told.
   * `daemon` is the engine itself. `unknown`: an event that cannot be parsed.
   */
  readonly type: "container" | "otherContainer" | "image" | "daemon" | "unknown";
  /** Docker's word: create, start, die, destroy, …; pull, tag, untag, delete, …; reload. */
  readonly action: string;
  /** Container id, or image id or reference. */
  readonly id: string;
  /** Docker name of a container. */
  readonly name?: string;
}

export interface RegistryCredentials {
  readonly username?: string;
  readonly password?: string;
  readonly serverAddress?: string;
  readonly identityToken?: string;
  readonly registryToken?: string;
}

export interface PullProgress {
  /** Layer id, or the tag for messages about the whole image. */
  readonly layer: string;
  /** `Downloading`, `Extracting`, `Pull complete`, … */
  readonly status: string;
  /** Bytes. */
  readonly current: number;
  readonly total: number;
}

export interface ExecOptions {
  readonly command: readonly string[];
  /** `NAME=value`, added to the environment of the container. */
  readonly env?: readonly string[];
  readonly tty: boolean;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
}

export interface ExecState {
  readonly running: boolean;
  /** Undefined while it runs or was never started. */
  readonly exitCode: number | undefined;
  /** Process id in the PID namespace of the engine's host; 0 before the start. */
  readonly pid: number;
}

/** With a tty everything is `stdout`. */
export type OutputStream = "stdout" | "stderr";

/**
 * A promise makes the engine wait until it is fulfilled; when it is rejected, that ends the reading.
 * `endsFrame`: the engine's frame, which in a log is one message, ends with this piece; false with a tty,
 * where there are no frames.
 */
export type TakeOutput = (
  stream: OutputStream,
  data: Buffer,
  endsFrame: boolean,
) => Promise<void> | undefined;

/** A hijacked connection to a process. `close` ends it at once; the caller that opened it always calls it. */
export interface ProcessStreams {
  /** `end()` half-closes: the process sees the end of its standard input. */
  readonly input: Writable;
  /** Hands all output over until it ends; to be called once. Nothing is read before. */
  readOutput(take: TakeOutput): Promise<void>;
  close(): void;
}

/** Output of a process that the caller only reads: it has no input. */
export type LogStream = Pick<ProcessStreams, "readOutput" | "close">;

export interface LogOptions {
  /** Entries from this second on, since the epoch; 0: from the oldest. */
  readonly sinceSeconds: number;
  /** On to the end of the container; else it ends with the last entry that is there. */
  readonly follow: boolean;
  /** Whether the container has a terminal: its output comes as it is, without frames. */
  readonly tty: boolean;
  /** Number of the newest lines to read. Default: all. */
  readonly tail?: number;
}

/** Which streams of a container's main process are wanted. */
export interface AttachOptions {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  /** Whether the container has a terminal: it decides how the engine writes output. */
  readonly tty: boolean;
}

/** Metadata of a file inside a container. */
export interface ArchiveStat {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly isDirectory: boolean;
  readonly linkTarget: string;
}

/** A path in the file system of a container. */
export interface ContainerPath {
  readonly id: string;
  readonly path: string;
}

export interface ContainerFilter {
  readonly labelKey?: string;
  readonly labelValue?: string;
  readonly ancestor?: string;
  readonly id?: string;
}

/** Milliseconds. */
export interface PingLimits {
  readonly timeoutMs: number;
}

/** The engine itself. */
export interface SystemCalls {
  /** Whether an answer of the engine, to any request, has come in the last `recentMs` ms. Sends nothing. */
  hasAnswered(recentMs: number): boolean;
  /** Cheapest request that proves that the engine answers. */
  ping(limits: PingLimits, signal: AbortSignal): Promise<void>;
  version(signal: AbortSignal): Promise<EngineVersion>;
  /**
   * Negotiates the API version anew and reads version and info. Must be called before any call below, and
   * after each reconnect. Fails `precondition` for an engine older than API 1.41.
   */
  connect(signal: AbortSignal): Promise<NodeFacts>;
  /** Whether it has the network of containers that name none; not with `"bridge": "none"` in daemon.json. */
  hasDefaultNetwork(signal: AbortSignal): Promise<boolean>;
  /** The first of these paths that the engine does not find; undefined when its answer names none. Makes nothing. */
  firstMissingPath(paths: readonly string[], signal: AbortSignal): Promise<string | undefined>;
  /**
   * Container events of containers with label `labelKey`, the creation and removal of others, image events,
   * and reloads of the engine's configuration, until `signal` aborts or the connection breaks (which throws).
   * `onOpen` runs when the engine has accepted the subscription: events after it are not missed.
   */
  events(labelKey: string, onOpen: () => void, signal: AbortSignal): AsyncIterable<EngineEvent>;
}

/** Containers: the list of all, or one of them. */
export interface ContainerCalls {
  /**
   * All containers of the engine, running or not, that pass the filter: with label `labelKey`, and of that
   * exact value; made from image `ancestor`, or from one that was built on it; of that full `id`. The list
   * may have any size: `onProgress` is told each time that a part of it has arrived. An entry of more than
   * 32 KiB has only the labels that matter (domain/labels.ts).
   */
  listContainers(
    filter: ContainerFilter,
    signal: AbortSignal,
    onProgress?: () => void,
  ): Promise<readonly ListedContainer[]>;
  /** Undefined: no such container. */
  inspectContainer(id: string, signal: AbortSignal): Promise<Snapshot | undefined>;
  /**
   * The engine finishes a create although its caller left: after a failure that is no refusal (`answer:
   * "lost"` among the fields, a deadline, an abort) there may be a container of that name, then or a little
   * later. A taken name is `conflict` with field `conflictingId` (id of the container that has it).
   */
  createContainer(name: string, body: CreateBody, signal: AbortSignal): Promise<string>;
  startContainer(id: string, signal: AbortSignal): Promise<"started" | "already">;
  /** Waits until it has stopped. The request's own deadline is `graceSeconds` plus a margin. */
  stopContainer(
    id: string,
    graceSeconds: number,
    signal: AbortSignal,
  ): Promise<"stopped" | "already" | "missing">;
  killContainer(
    id: string,
    signalName: string,
    signal: AbortSignal,
  ): Promise<"killed" | "notRunning" | "missing">;
  /** With its anonymous volumes. A removal that already runs is waited for. */
  removeContainer(
    id: string,
    options: { readonly force: boolean },
    signal: AbortSignal,
  ): Promise<"removed" | "missing">;
  /** One sample, at once; undefined when the container is gone or does not run. */
  containerStats(id: string, signal: AbortSignal): Promise<EngineReading | undefined>;
  /** Bytes in the container's own layer, which the engine walks; undefined: no such container. */
  writableLayerBytes(id: string, signal: AbortSignal): Promise<number | undefined>;
  updateContainer(id: string, resources: DockerResources, signal: AbortSignal): Promise<void>;
  /**
   * What the engine has kept of the output: messages, each a line or piece of 16 KiB of one behind its time
   * (RFC 3339, 9 digits, UTC) and a space. Ends when `signal` aborts. `unsupported` when the log driver
   * cannot read back.
   */
  containerLogs(id: string, options: LogOptions, signal: AbortSignal): Promise<LogStream>;
}

/** Files in containers. */
export interface ArchiveCalls {
  /** Tar of `path` in the container's file system; undefined when the path does not exist. */
  getArchive(id: string, path: string, signal: AbortSignal): Promise<Readable | undefined>;
  /**
   * Content of one regular file of a container (running or not), symbolic links inside the container
   * followed; undefined when it does not exist or is no file. More than `limitBytes` is `invalid`.
   */
  readContainerFile(
    id: string,
    path: string,
    limitBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer | undefined>;
  statArchive(id: string, path: string, signal: AbortSignal): Promise<ArchiveStat | undefined>;
  /** Unpacks `tar` at directory `path` of the container. */
  putArchive(id: string, path: string, tar: Buffer | Readable, signal: AbortSignal): Promise<void>;
  /**
   * Copies what is in a directory of one container into a directory of another, with owners, modes and links,
   * but for `leaveOut`: paths below the directory. `root`: who root of a container is on the host, if another.
   * Takes as long as the engine's disk, until `signal` aborts.
   */
  copyDirectory(
    from: ContainerPath,
    to: ContainerPath,
    options: { readonly leaveOut: ReadonlySet<string>; readonly root: Owner | undefined },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Processes in containers, and the streams of a container's first one. */
export interface ExecCalls {
  /** Exec id. */
  createExec(containerId: string, options: ExecOptions, signal: AbortSignal): Promise<string>;
  startExec(execId: string, options: ExecOptions, signal: AbortSignal): Promise<ProcessStreams>;
  /** Fails while the process is not there yet, and when it has no terminal. */
  resizeExec(execId: string, size: TerminalSize, signal: AbortSignal): Promise<void>;
  /** Undefined: no such exec. */
  inspectExec(execId: string, signal: AbortSignal): Promise<ExecState | undefined>;
  /**
   * Connects to the streams of the container's first process, without what was written before. The streams
   * end with the container. Ending the input ends the container's only when it was made with `stdinOnce`.
   */
  attachContainer(id: string, options: AttachOptions, signal: AbortSignal): Promise<ProcessStreams>;
  /** The terminal of the container's first process. */
  resizeContainer(id: string, size: TerminalSize, signal: AbortSignal): Promise<void>;
}

export interface ImageCalls {
  listImages(signal: AbortSignal): Promise<readonly ListedImage[]>;
  /** By name, digest or id, full or short, as Docker resolves it. Undefined: no such image. */
  inspectImage(reference: string, signal: AbortSignal): Promise<ImageSnapshot | undefined>;
  /** The answer of `GET /images/{id}/history`, oldest last; empty when it is too large. */
  imageHistory(id: string, signal: AbortSignal): Promise<readonly Readonly<Record<string, unknown>>[]>;
  /** Ends when the image is complete; an error inside the progress stream is this call's error. */
  pullImage(
    reference: string,
    credentials: RegistryCredentials | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Untags, or deletes when it was the last reference. Never forced. */
  removeImage(reference: string, signal: AbortSignal): Promise<"removed" | "missing">;
  /** Loads an archive as `docker load` does. */
  loadImage(archive: Buffer, signal: AbortSignal): Promise<void>;
  /** Bytes that all image layers take, shared ones once; undefined when the engine cannot say. */
  imageDiskUsage(signal: AbortSignal): Promise<number | undefined>;
}

export interface VolumeSnapshot {
  /** Path on the engine's host. */
  readonly mountpoint: string;
  /** `local`, or the name of a plugin. */
  readonly driver: string;
}

export interface VolumeCalls {
  /** Names of the volumes that have label `key` with this value. */
  listVolumes(
    label: { readonly key: string; readonly value: string },
    signal: AbortSignal,
  ): Promise<readonly string[]>;
  /** Undefined: no such volume. */
  inspectVolume(name: string, signal: AbortSignal): Promise<VolumeSnapshot | undefined>;
  /** With the local driver. Answers the one that is there when the name is taken, whatever labels it has. */
  createVolume(name: string, labels: Labels, signal: AbortSignal): Promise<VolumeSnapshot>;
  /** `precondition` for one that a container has, running or not. */
  removeVolume(name: string, signal: AbortSignal): Promise<"removed" | "missing">;
}

/** Each verb belongs to one of these interfaces; engine/docker-engine.ts puts their implementations together. */
export interface Engine
  extends SystemCalls, ContainerCalls, ArchiveCalls, ExecCalls, ImageCalls, VolumeCalls {}
