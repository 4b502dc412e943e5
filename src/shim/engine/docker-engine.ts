/** The engine port over the Docker Engine API. */
import type { Readable } from "node:stream";
import type { CreateBody, DockerResources } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { EngineReading } from "../domain/resource-reading.js";
import type { ImageSnapshot, ListedContainer, ListedImage, Snapshot } from "../domain/snapshot.js";
import type {
  ArchiveStat,
  AttachOptions,
  ContainerFilter,
  ContainerPath,
  Engine,
  EngineEvent,
  EngineVersion,
  ExecOptions,
  ExecState,
  LogOptions,
  LogStream,
  ProcessStreams,
  PullProgress,
  RegistryCredentials,
} from "../ports/engine.js";
import type { TerminalSize } from "../ports/streaming.js";
import { readChunks } from "./http/answer.js";
import { EngineClient, type EngineClientOptions, refusalOf } from "./http/client.js";
import { ContainerFiles } from "./container-files.js";
import { Containers } from "./containers.js";
import { brokenAnswer } from "./http/errors.js";
import { execEssentials } from "./essentials.js";
import { eventsQuery, readEvents } from "./events.js";
import { openLogs } from "./logs.js";
import { highestMinor, negotiateMinor, toEngineVersion, toNodeFacts } from "./facts.js";
import { ImageCalls } from "./image-calls.js";
import { asObject, flagOf, type Json, numberOf } from "./http/json.js";
import { openProcessStreams } from "./http/process-streams.js";
import { listVolumes, removeVolume } from "./volumes.js";

/**
 * One Docker Engine. Every call ends when its signal aborts and, streams and pulls aside, when its own deadline passes;
 * its connection is then closed, so that a frozen engine holds no more of them than there are callers.
 */
export class DockerEngine implements Engine {
  readonly #client: EngineClient;
  readonly #containers: Containers;
  readonly #files: ContainerFiles;
  readonly #images: ImageCalls;
  #apiMinor = 0;

  constructor(options: EngineClientOptions) {
    this.#client = new EngineClient(options);
    this.#containers = new Containers(this.#client, options.shortTimeoutMs);
    this.#files = new ContainerFiles(this.#client, options.shortTimeoutMs);
    this.#images = new ImageCalls(this.#client);
  }

  /** Breaks all connections, streams included. For the end of the program. */
  close(): void {
    this.#client.close();
  }

  async ping(signal: AbortSignal): Promise<void> {
    const answer = await this.#client.request(
      {
        action: "ping the engine",
        method: "GET",
        path: ["_ping"],
        concurrency: "unlimited",
        unversioned: true,
      },
      signal,
    );
    if (answer.status !== 200) throw refusalOf(answer);
  }

  async version(signal: AbortSignal): Promise<EngineVersion> {
    return toEngineVersion(await this.#readVersion(signal));
  }

  async connect(signal: AbortSignal): Promise<NodeFacts> {
    const version = await this.#readVersion(signal);
    const apiMinor = negotiateMinor(version);
    this.#client.useApiMinor(apiMinor);
    this.#apiMinor = apiMinor;
    this.#images.useApi({ apiMinor, highestMinor: highestMinor(version) });
    const action = "read the engine's configuration";
    const info = await this.#client.json(
      { action, method: "GET", path: ["info"], concurrency: "unlimited" },
      signal,
    );
    return toNodeFacts(version, info, apiMinor);
  }

  async listContainers(
    filter: ContainerFilter,
    signal: AbortSignal,
    onProgress?: () => void,
  ): Promise<readonly ListedContainer[]> {
    return this.#containers.list(filter, signal, onProgress);
  }

  async inspectContainer(id: string, signal: AbortSignal): Promise<Snapshot | undefined> {
    return this.#containers.inspect(id, signal);
  }

  async createContainer(name: string, body: CreateBody, signal: AbortSignal): Promise<string> {
    return this.#containers.create(name, body, signal);
  }

  async startContainer(id: string, signal: AbortSignal): Promise<"started" | "already"> {
    return this.#containers.start(id, signal);
  }

  async stopContainer(
    id: string,
    graceSeconds: number,
    signal: AbortSignal,
  ): Promise<"stopped" | "already" | "missing"> {
    return this.#containers.stop(id, graceSeconds, signal);
  }

  async killContainer(
    id: string,
    signalName: string,
    signal: AbortSignal,
  ): Promise<"killed" | "notRunning" | "missing"> {
    return this.#containers.kill(id, signalName, signal);
  }

  async removeContainer(
    id: string,
    options: { readonly force: boolean },
    signal: AbortSignal,
  ): Promise<"removed" | "missing"> {
    return this.#containers.remove(id, options, signal);
  }

  async containerStats(id: string, signal: AbortSignal): Promise<EngineReading | undefined> {
    return this.#containers.stats(id, signal);
  }

  async writableLayerBytes(id: string, signal: AbortSignal): Promise<number | undefined> {
    return this.#containers.writableLayerBytes(id, signal);
  }

  async updateContainer(id: string, resources: DockerResources, signal: AbortSignal): Promise<void> {
    await this.#containers.update(id, resources, signal);
  }

  async createCheckpoint(
    id: string,
    to: { readonly checkpointId: string; readonly directory: string },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#containers.checkpoint(id, to, signal);
  }

  async containerLogs(id: string, options: LogOptions, signal: AbortSignal): Promise<LogStream> {
    return openLogs(this.#client, id, options, signal);
  }

  async getArchive(id: string, path: string, signal: AbortSignal): Promise<Readable | undefined> {
    return this.#files.open(id, path, signal);
  }

  async readContainerFile(
    id: string,
    path: string,
    limitBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer | undefined> {
    return this.#files.read(id, path, limitBytes, signal);
  }

  /** The engine's answer does not tell a missing path from a missing container: both are undefined. */
  async statArchive(id: string, path: string, signal: AbortSignal): Promise<ArchiveStat | undefined> {
    return this.#files.stat(id, path, signal);
  }

  /** A buffer goes under the deadline of short calls; a stream is as slow as its source, and is destroyed at the end. */
  async putArchive(id: string, path: string, tar: Buffer | Readable, signal: AbortSignal): Promise<void> {
    await this.#files.put(id, path, tar, signal);
  }

  async copyDirectory(
    from: ContainerPath,
    to: ContainerPath,
    leaveOut: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#files.copy(from, to, leaveOut, signal);
  }

  async listVolumes(
    label: { readonly key: string; readonly value: string },
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    return listVolumes(this.#client, label, signal);
  }

  async removeVolume(name: string, signal: AbortSignal): Promise<"removed" | "missing"> {
    return removeVolume(this.#client, name, signal);
  }

  async createExec(containerId: string, options: ExecOptions, signal: AbortSignal): Promise<string> {
    const json = {
      Cmd: options.command,
      Tty: options.tty,
      AttachStdin: options.stdin,
      AttachStdout: options.stdout,
      AttachStderr: options.stderr,
    };
    const action = `create exec in container "${containerId}"`;
    return this.#client.createdId(
      { action, method: "POST", path: ["containers", containerId, "exec"], json, concurrency: "write" },
      signal,
    );
  }

  /** The streams, too, end when `signal` aborts. */
  async startExec(execId: string, options: ExecOptions, signal: AbortSignal): Promise<ProcessStreams> {
    const json = { Detach: false, Tty: options.tty };
    const action = `start exec "${execId}"`;
    const socket = await this.#client.hijack(
      { action, method: "POST", path: ["exec", execId, "start"], json, concurrency: "unlimited" },
      signal,
    );
    return openProcessStreams(socket, options, signal);
  }

  async resizeExec(execId: string, size: TerminalSize, signal: AbortSignal): Promise<void> {
    await this.#resize(`exec "${execId}"`, ["exec", execId], size, signal);
  }

  async attachContainer(id: string, options: AttachOptions, signal: AbortSignal): Promise<ProcessStreams> {
    const flag = (value: boolean): string => (value ? "1" : "0");
    const query = {
      ...{ stream: "1", logs: "0", stdin: flag(options.stdin) },
      ...{ stdout: flag(options.stdout), stderr: flag(options.stderr) },
    };
    const action = `attach to container "${id}"`;
    const path = ["containers", id, "attach"];
    const socket = await this.#client.hijack(
      { action, method: "POST", path, query, concurrency: "unlimited" },
      signal,
    );
    return openProcessStreams(socket, options, signal);
  }

  async resizeContainer(id: string, size: TerminalSize, signal: AbortSignal): Promise<void> {
    await this.#resize(`container "${id}"`, ["containers", id], size, signal);
  }

  async inspectExec(execId: string, signal: AbortSignal): Promise<ExecState | undefined> {
    const action = `inspect exec "${execId}"`;
    const answer = await this.#client.jsonIfThere(
      {
        ...{ action, method: "GET", path: ["exec", execId, "json"], concurrency: "read" },
        essentials: execEssentials,
      },
      signal,
    );
    if (answer === undefined) return undefined;
    const json = asObject(answer);
    const exitCode = json["ExitCode"];
    return {
      running: flagOf(json, "Running"),
      exitCode: typeof exitCode === "number" ? exitCode : undefined,
      pid: numberOf(json, "Pid"),
    };
  }

  async listImages(signal: AbortSignal): Promise<readonly ListedImage[]> {
    return this.#images.list(signal);
  }

  async inspectImage(reference: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    return this.#images.inspect(reference, signal);
  }

  async imageHistory(id: string, signal: AbortSignal): Promise<readonly Json[]> {
    return this.#images.history(id, signal);
  }

  async pullImage(
    reference: string,
    credentials: RegistryCredentials | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#images.pull(reference, credentials, onProgress, signal);
  }

  async removeImage(reference: string, signal: AbortSignal): Promise<"removed" | "missing"> {
    return this.#images.remove(reference, signal);
  }

  async loadImage(archive: Buffer, signal: AbortSignal): Promise<void> {
    await this.#images.load(archive, signal);
  }

  async imageDiskUsage(signal: AbortSignal): Promise<number | undefined> {
    return this.#images.diskUsage(this.#apiMinor, signal);
  }

  async *events(
    labelKey: string,
    onOpen: () => void,
    signal: AbortSignal,
  ): AsyncGenerator<EngineEvent, void, undefined> {
    const action = "read engine events";
    try {
      const response = await this.#client.open(
        { action, method: "GET", path: ["events"], query: eventsQuery(Date.now()), concurrency: "unlimited" },
        signal,
      );
      onOpen();
      yield* readEvents(readChunks(response, action, signal), labelKey);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    throw brokenAnswer(action);
  }

  async #resize(
    what: string,
    path: readonly string[],
    { columns, rows }: TerminalSize,
    signal: AbortSignal,
  ): Promise<void> {
    const action = `resize the terminal of ${what}`;
    const query = { w: String(columns), h: String(rows) };
    const answer = await this.#client.request(
      { action, method: "POST", path: [...path, "resize"], query, concurrency: "unlimited" },
      signal,
    );
    if (answer.status !== 200 && answer.status !== 201) throw refusalOf(answer);
  }

  async #readVersion(signal: AbortSignal): Promise<unknown> {
    const action = "read the engine's version";
    return this.#client.json(
      { action, method: "GET", path: ["version"], concurrency: "unlimited", unversioned: true },
      signal,
    );
  }
}
