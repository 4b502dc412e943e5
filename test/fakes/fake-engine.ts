import { existsSync } from "node:fs";
import { Readable } from "node:stream";
import { orAbort } from "../../src/lib/abort.js";
import { ShimError } from "../../src/lib/errors.js";
import type { CreateBody } from "../../src/domain/create-body.js";
import type { Labels } from "../../src/domain/labels.js";
import type { NodeFacts } from "../../src/domain/node-facts.js";
import type { EngineReading } from "../../src/domain/resource-reading.js";
import type {
  Engine,
  EngineEvent,
  EngineVersion,
  ExecOptions,
  ProcessStreams,
  PullProgress,
  RegistryCredentials,
  VolumeSnapshot,
} from "../../src/shim/ports/engine.js";
import { FakeContainers } from "./fake-containers.js";
import { FakeEvents } from "./fake-events.js";
import { FakeExecs } from "./fake-execs.js";
import { FakeImages } from "./fake-images.js";
import { Journal } from "./journal.js";
import { nodeFacts } from "./node-facts.js";

/** What a registry does with a pull; it may wait, and must then heed the signal. */
export type PullScript = (
  reference: string,
  credentials: RegistryCredentials | undefined,
  onProgress: (progress: PullProgress) => void,
  signal: AbortSignal,
) => Promise<void> | void;

/**
 * An engine in memory that behaves: `containers`, `images`, `execs` and `events` are its inside, for tests to
 * look at and to meddle with. Every verb is noted in the journal as `engine.<verb>`.
 */
export class FakeEngine implements Engine {
  readonly events$ = new FakeEvents();
  readonly images: FakeImages;
  readonly containers: FakeContainers;
  readonly execs = new FakeExecs();
  facts: NodeFacts;
  /** Files that were put into containers, `<id>:<path>`. */
  readonly archives = new Map<string, Buffer>();
  /** What containers use, by id. */
  readonly readings = new Map<string, EngineReading>();
  /** Calls for which this answers true hang until their signal aborts. */
  hangs: (verb: string, args: readonly unknown[]) => boolean = () => false;
  /** Pulls of images that are not there yet; by default the image appears. */
  onPull: PullScript = (reference) => {
    this.images.add({ tags: [reference] });
  };
  /** Start attempts that fail, by container name. */
  startFailure: (name: string, body: CreateBody) => Error | undefined = () => undefined;
  /** Inspects that fail, by container id. */
  inspectFailure: (id: string) => Error | undefined = () => undefined;
  readonly #lostAnswers = new Set<keyof Engine>();
  #isDown = false;
  #isFrozen = false;
  #wakes: (() => void)[] = [];

  constructor(readonly journal = new Journal()) {
    this.facts = nodeFacts();
    this.images = new FakeImages(
      (event) => this.events$.emit(event),
      (imageId) => this.containers.usesImage(imageId),
    );
    this.containers = new FakeContainers(
      (event, labels) => this.events$.emit(event, labels),
      () => this.images,
    );
  }

  /** All verbs so far, with their arguments. */
  get calls(): readonly { readonly verb: string; readonly args: readonly unknown[] }[] {
    return this.journal.steps.filter((step) => step.port === "engine");
  }

  /** The next call of `verb` fails without doing anything. */
  failNext(verb: keyof Engine, error: Error): void {
    this.journal.failNext(`engine.${verb}`, error);
  }

  /** The next call of `verb` does its work, and the connection breaks before the answer. */
  loseNextAnswer(verb: keyof Engine): void {
    this.#lostAnswers.add(verb);
  }

  /** The engine dies: streams break, calls fail `unavailable`. */
  down(): void {
    this.#isDown = true;
    this.events$.breakAll(unreachable());
  }

  /** It accepts calls and answers none. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Ends `down` and `freeze`. Frozen calls go on. */
  up(): void {
    this.#isDown = false;
    this.#isFrozen = false;
    for (const wake of this.#wakes.splice(0)) wake();
  }

  hasAnswered(_recentMs: number): boolean {
    return false;
  }

  ping: Engine["ping"] = (limits, signal) => this.#call("ping", [limits], signal, () => undefined);

  async version(signal: AbortSignal): Promise<EngineVersion> {
    const { engineVersion: version, engineApiVersion: apiVersion } = this.facts;
    return this.#call("version", [], signal, () => ({ version, apiVersion }));
  }

  connect: Engine["connect"] = (signal) => this.#call("connect", [], signal, () => this.facts);

  hasDefaultNetwork: Engine["hasDefaultNetwork"] = (signal) =>
    this.#call("hasDefaultNetwork", [], signal, () => true);

  /** Finds what is on this machine: paths of tests. */
  firstMissingPath: Engine["firstMissingPath"] = (paths, signal) =>
    this.#call("firstMissingPath", [paths], signal, () => paths.find((path) => !existsSync(path)));

  listContainers: Engine["listContainers"] = (filter, signal, onProgress) =>
    this.#call("listContainers", [filter], signal, () => {
      onProgress?.();
      return this.containers.list(filter);
    });

  inspectContainer: Engine["inspectContainer"] = (id, signal) =>
    this.#call("inspectContainer", [id], signal, () => {
      const failure = this.inspectFailure(id);
      if (failure !== undefined) throw failure;
      return this.containers.inspect(id);
    });

  createContainer: Engine["createContainer"] = (name, body, signal) =>
    this.#goingOn(signal, (uncancelled) =>
      this.#call("createContainer", [name, body], uncancelled, () => this.containers.create(name, body)),
    );

  startContainer: Engine["startContainer"] = (id, signal) =>
    this.#goingOn(signal, (uncancelled) =>
      this.#call("startContainer", [id], uncancelled, () => {
        const known = this.containers.find(id);
        const failure = known === undefined ? undefined : this.startFailure(known.name, known.body);
        if (failure === undefined) return this.containers.start(id);
        this.containers.failStart(id, failure.message);
        throw failure;
      }),
    );

  stopContainer: Engine["stopContainer"] = (id, graceSeconds, signal) =>
    this.#call("stopContainer", [id, graceSeconds], signal, () => this.containers.stop(id, graceSeconds));

  killContainer: Engine["killContainer"] = (id, signalName, signal) =>
    this.#call("killContainer", [id, signalName], signal, () => {
      const outcome = this.containers.stop(id, 0);
      if (outcome === "missing") return "missing";
      return outcome === "stopped" ? "killed" : "notRunning";
    });

  async removeContainer(
    id: string,
    options: { readonly force: boolean },
    signal: AbortSignal,
  ): Promise<"removed" | "missing"> {
    return this.#call("removeContainer", [id, options], signal, () => this.containers.remove(id, options));
  }

  containerStats: Engine["containerStats"] = (id, signal) =>
    this.#call("containerStats", [id], signal, () => this.readings.get(id));

  writableLayerBytes: Engine["writableLayerBytes"] = (id, signal) =>
    this.#call("writableLayerBytes", [id], signal, () =>
      this.containers.inspect(id) === undefined ? undefined : 4096,
    );

  updateContainer: Engine["updateContainer"] = (id, resources, signal) =>
    this.#call("updateContainer", [id, resources], signal, () => this.containers.update(id, resources));

  /** Nothing was kept. */
  containerLogs: Engine["containerLogs"] = (id, options, signal) =>
    this.#call("containerLogs", [id, options], signal, () => ({
      readOutput: () => Promise.resolve(),
      close: () => undefined,
    }));

  getArchive: Engine["getArchive"] = (id, path, signal) =>
    this.#call("getArchive", [id, path], signal, () => {
      const tar = this.archives.get(`${id}:${path}`);
      return tar === undefined ? undefined : Readable.from([tar]);
    });

  readContainerFile: Engine["readContainerFile"] = (id, path, limitBytes, signal) =>
    this.#call("readContainerFile", [id, path], signal, () => {
      const image = this.images.find(this.containers.get(id).imageId);
      const content = image?.files[path];
      if (content === undefined) return undefined;
      if (content.length > limitBytes) throw new ShimError("invalid", `file "${path}" is too large`);
      return Buffer.from(content);
    });

  statArchive: Engine["statArchive"] = (id, path, signal) =>
    this.#call("statArchive", [id, path], signal, () => {
      const { body, imageId } = this.containers.get(id);
      const directory = { name: path, size: 0, isDirectory: true, linkTarget: "" };
      if (body.HostConfig.Mounts?.some((mount) => mount.Target === path) === true) return directory;
      const files = this.images.find(imageId)?.files ?? {};
      const content = files[path];
      if (content?.startsWith("-> ") === true)
        return { ...directory, isDirectory: false, linkTarget: content.slice(3) };
      if (content !== undefined) return { ...directory, isDirectory: false };
      if (Object.keys(files).some((file) => file.startsWith(`${path}/`))) return directory;
      const tar = this.archives.get(`${id}:${path}`);
      return tar === undefined
        ? undefined
        : { name: path, size: tar.length, isDirectory: false, linkTarget: "" };
    });

  async putArchive(id: string, path: string, tar: Buffer | Readable, signal: AbortSignal): Promise<void> {
    const content = Buffer.isBuffer(tar) ? tar : Buffer.concat((await tar.toArray()) as Buffer[]);
    await this.#call("putArchive", [id, path], signal, () => this.archives.set(`${id}:${path}`, content));
  }

  copyDirectory: Engine["copyDirectory"] = (from, to, options, signal) =>
    this.#call("copyDirectory", [from, to, options.leaveOut], signal, () => {
      const [source, target] = [this.containers.get(from.id), this.containers.get(to.id)];
      const volume = target.body.HostConfig.Mounts?.find((mount) => mount.Target === to.path)?.Source ?? "";
      this.containers.volumes.set(volume, { ...this.containers.volumes.get(volume), copyOf: source.imageId });
    });

  listVolumes: Engine["listVolumes"] = (label, signal) =>
    this.#call("listVolumes", [label], signal, () => this.containers.listVolumes(label));

  inspectVolume: Engine["inspectVolume"] = (name, signal) =>
    this.#call("inspectVolume", [name], signal, () =>
      this.containers.volumes.has(name) ? volumeSnapshot(name) : undefined,
    );

  async createVolume(name: string, labels: Labels, signal: AbortSignal): Promise<VolumeSnapshot> {
    return this.#call("createVolume", [name, labels], signal, () => {
      if (!this.containers.volumes.has(name)) this.containers.volumes.set(name, { labels, options: {} });
      return volumeSnapshot(name);
    });
  }

  removeVolume: Engine["removeVolume"] = (name, signal) =>
    this.#call("removeVolume", [name], signal, () => this.containers.removeVolume(name));

  createExec: Engine["createExec"] = (containerId, options, signal) =>
    this.#call("createExec", [containerId, options], signal, () => {
      if (!this.containers.require(containerId).state.running)
        throw new ShimError("precondition", `Container ${containerId} is not running`, { status: 409 });
      return this.execs.create(containerId, options);
    });

  async startExec(execId: string, options: ExecOptions, signal: AbortSignal): Promise<ProcessStreams> {
    return this.#call("startExec", [execId, options], signal, () => this.execs.start(execId, signal));
  }

  resizeExec: Engine["resizeExec"] = (execId, size, signal) =>
    this.#call("resizeExec", [execId, size], signal, () => this.execs.resize(execId, size));

  /** The first process is what `execs.script` says for the command `["attach"]`. */
  attachContainer: Engine["attachContainer"] = (id, options, signal) =>
    this.#call("attachContainer", [id, options], signal, () =>
      this.execs.start(this.execs.create(id, { ...options, command: ["attach"] }), signal),
    );

  resizeContainer: Engine["resizeContainer"] = (id, size, signal) =>
    this.#call("resizeContainer", [id, size], signal, () => undefined);

  inspectExec: Engine["inspectExec"] = (execId, signal) =>
    this.#call("inspectExec", [execId], signal, () => this.execs.inspect(execId));

  listImages: Engine["listImages"] = (signal) =>
    this.#call("listImages", [], signal, () => this.images.list());

  inspectImage: Engine["inspectImage"] = (reference, signal) =>
    this.#call("inspectImage", [reference], signal, () => this.images.inspect(reference));

  imageHistory: Engine["imageHistory"] = (id, signal) =>
    this.#call("imageHistory", [id], signal, () => {
      if (this.images.find(id) === undefined) throw new ShimError("notFound", `No such image: ${id}`);
      return [
        { Created: 1_700_000_100, CreatedBy: "CMD sh", Comment: "", Size: 0 },
        { Created: 1_700_000_000, CreatedBy: "ADD rootfs", Comment: "first", Size: 1000 },
      ];
    });

  pullImage: Engine["pullImage"] = (reference, credentials, onProgress, signal) =>
    this.#call("pullImage", [reference, credentials], signal, () =>
      this.onPull(reference, credentials, onProgress, signal),
    );

  removeImage: Engine["removeImage"] = (reference, signal) =>
    this.#call("removeImage", [reference], signal, () => this.images.remove(reference));

  loadImage: Engine["loadImage"] = (archive, signal) =>
    this.#call("loadImage", [archive.length], signal, () => {
      this.images.add({ tags: [`loaded:${archive.length}`] });
    });

  imageDiskUsage: Engine["imageDiskUsage"] = (signal) =>
    this.#call("imageDiskUsage", [], signal, () =>
      this.images.list().reduce((sum, { size }) => sum + size, 0),
    );

  async *events(
    labelKey: string,
    onOpen: () => void,
    signal: AbortSignal,
  ): AsyncGenerator<EngineEvent, void> {
    await this.#call("events", [labelKey], signal, () => undefined);
    yield* this.events$.subscribe(labelKey, signal, onOpen);
  }

  async #call<T>(
    verb: keyof Engine,
    args: readonly unknown[],
    signal: AbortSignal,
    work: () => T | Promise<T>,
  ): Promise<T> {
    if (signal.aborted) throw ShimError.from(signal.reason);
    const step = this.journal.enter("engine", verb, args);
    this.#refuseWhenDown();
    // Every answer takes a turn, as over a socket.
    await orAbort(new Promise<void>((resolve) => setImmediate(resolve)), signal);
    while (this.#isFrozen || this.hangs(verb, args))
      await orAbort(new Promise<void>((wake) => this.#wakes.push(wake)), signal);
    this.#refuseWhenDown();
    const result = await work();
    if (this.#lostAnswers.delete(verb))
      throw new ShimError("unavailable", `${verb}: connection closed`, { answer: "lost" });
    this.journal.leave(step);
    return result;
  }

  /** Docker goes on with a create and a start although its caller left. */
  async #goingOn<T>(signal: AbortSignal, work: (uncancelled: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const working = work(new AbortController().signal);
    working.catch(() => undefined);
    return orAbort(working, signal);
  }

  #refuseWhenDown(): void {
    if (this.#isDown) throw unreachable();
  }
}

function unreachable(): ShimError {
  return new ShimError(
    "unavailable",
    "cannot reach the Docker Engine at unix:///fake.sock: connection refused",
  );
}

function volumeSnapshot(name: string): VolumeSnapshot {
  return { mountpoint: `/var/lib/docker/volumes/${name}/_data`, driver: "local" };
}
