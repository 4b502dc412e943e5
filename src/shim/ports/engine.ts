/**
 * The container engine as the shim needs it: our types in, our types out, and every wait ends with its signal.
 * Implemented by engine/docker-engine.ts over the Docker Engine API and by test/fakes/fake-engine.ts.
 *
 * Errors are ShimErrors: 404 is `notFound` (or an `undefined` answer where a method says so), 409 `conflict` or
 * `precondition`, 400 `invalid`, 501 `unsupported`, 401/403 `denied`, a socket that cannot be reached `unavailable`.
 */
import type { Readable, Writable } from "node:stream";
import type { CreateBody, DockerResources } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { ImageSnapshot, ListedContainer, ListedImage, Snapshot } from "../domain/snapshot.js";

export interface EngineVersion {
  /** As `20.10.24`. */
  readonly version: string;
  /** Highest API version of the engine, as `1.41`. */
  readonly apiVersion: string;
}

export interface EngineEvent {
  readonly type: "container" | "image";
  /** Docker's word: create, start, die, destroy, …; for images pull, tag, untag, delete, … */
  readonly action: string;
  /** Container id, or image id or reference. */
  readonly id: string;
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

export interface OutputChunk {
  /** With a tty everything is `stdout`. */
  readonly stream: "stdout" | "stderr";
  readonly data: Buffer;
}

/** A hijacked connection to a process. `close` ends it at once and is always called by whoever opened it. */
export interface ProcessStreams {
  /** `end()` half-closes: the process sees the end of its standard input. */
  readonly input: Writable;
  /** Ends with the process; reading slowly makes the engine wait. May be iterated once. */
  readonly output: AsyncIterable<OutputChunk>;
  close(): void;
}

/** Metadata of a file inside a container. */
export interface ArchiveStat {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly isDirectory: boolean;
  readonly linkTarget: string;
}

export interface ContainerFilter {
  readonly labelKey?: string;
  readonly labelValue?: string;
  readonly ancestor?: string;
}

export interface Engine {
  /** Cheapest proof that the engine answers. */
  ping(signal: AbortSignal): Promise<void>;
  version(signal: AbortSignal): Promise<EngineVersion>;
  /**
   * Negotiates the API version anew and reads version and info. Must be called before any call below, and after each
   * reconnect. Fails `precondition` for an engine older than API 1.41.
   */
  connect(signal: AbortSignal): Promise<NodeFacts>;

  /**
   * All containers of the engine, running or not, that pass the filter: with label `labelKey`, and of that exact value;
   * made from image `ancestor`, or from one that was built on it.
   */
  listContainers(
    filter: ContainerFilter,
    signal: AbortSignal,
  ): Promise<readonly ListedContainer[]>;
  /** Undefined: no such container. */
  inspectContainer(id: string, signal: AbortSignal): Promise<Snapshot | undefined>;
  /**
   * The engine finishes a create although its caller left, and the id would then be lost: so this waits for the answer
   * even after `signal` aborted (under a deadline of its own), and hands the id back for the caller to undo.
   * A taken name is `conflict` with field `rivalId` (id of the container that has it).
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
  updateContainer(id: string, resources: DockerResources, signal: AbortSignal): Promise<void>;

  /** Tar of `path` in the container's file system; undefined when the path does not exist. */
  getArchive(id: string, path: string, signal: AbortSignal): Promise<Readable | undefined>;
  /**
   * Content of one regular file of a container (running or not), symbolic links inside the container followed; undefined
   * when it does not exist or is no file. More than `limitBytes` is `invalid`.
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

  /** Exec id. */
  createExec(containerId: string, options: ExecOptions, signal: AbortSignal): Promise<string>;
  startExec(execId: string, options: ExecOptions, signal: AbortSignal): Promise<ProcessStreams>;
  /** Undefined: no such exec. */
  inspectExec(execId: string, signal: AbortSignal): Promise<ExecState | undefined>;

  listImages(signal: AbortSignal): Promise<readonly ListedImage[]>;
  /** By name, digest or id, full or short, as Docker resolves it. Undefined: no such image. */
  inspectImage(reference: string, signal: AbortSignal): Promise<ImageSnapshot | undefined>;
  /** The answer of `GET /images/{id}/history`, oldest last. */
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

  /**
   * Container events of containers with label `labelKey`, and image events, until `signal` aborts or the connection
   * breaks (which throws). `onOpen` runs when the engine has accepted the subscription: events after it are not missed.
   */
  events(labelKey: string, onOpen: () => void, signal: AbortSignal): AsyncIterable<EngineEvent>;
}
