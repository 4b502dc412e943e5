import type { ContainerFilter, EngineEvent } from "../../src/shim/ports/engine.js";
import { createHash } from "node:crypto";
import { ShimError } from "../../src/lib/errors.js";
import { type CreateBody, type DockerResources, scopePropertyPrefix } from "../../src/domain/create-body.js";
import type { DockerStatus, ListedContainer, Snapshot } from "../../src/domain/snapshot.js";
import { madeLabels, type Labels } from "../../src/domain/labels.js";
import type { FakeImages } from "./fake-images.js";
import { createdAt, snapshotOf } from "./snapshots.js";

interface FakeContainer {
  readonly id: string;
  readonly name: string;
  readonly body: CreateBody;
  readonly imageId: string;
  readonly imageLabels: Labels;
  readonly program: string;
  readonly created: bigint;
  resources: DockerResources;
  state: Snapshot["state"];
}

const neverStarted: Snapshot["state"] = {
  status: "created",
  running: false,
  pid: 0,
  exitCode: 0,
  oomKilled: false,
  error: "",
  started: 0n,
  finished: 0n,
};

interface FakeVolume {
  readonly labels?: Labels;
  readonly options?: Readonly<Record<string, string>>;
  /** The image whose files were put into it. */
  readonly copyOf?: string;
}

/** The containers of a fake engine: what Docker's state machine does, and what the world does to it. */
export class FakeContainers {
  readonly #containers = new Map<string, FakeContainer>();
  readonly volumes = new Map<string, FakeVolume>();
  #count = 0;
  #clock = createdAt;
  #pid = 1000;
  /** Of the files of containers. */
  logRoot = "/var/lib/docker/containers";

  constructor(
    private readonly emit: (event: EngineEvent, labels: Readonly<Record<string, string>>) => void,
    private readonly images: () => FakeImages,
  ) {}

  get ids(): readonly string[] {
    return [...this.#containers.keys()];
  }

  /** By id, prefix of it, or name. */
  find(text: string): FakeContainer | undefined {
    const exact = this.#containers.get(text);
    if (exact !== undefined) return exact;
    return [...this.#containers.values()].find((one) => one.name === text || one.id.startsWith(text));
  }

  /** As `find`; a test that asks for one that is not there is wrong. */
  get(text: string): FakeContainer {
    const container = this.find(text);
    if (container === undefined) throw new Error(`test asks for container "${text}", which does not exist`);
    return container;
  }

  usesImage(imageId: string): boolean {
    return [...this.#containers.values()].some((container) => container.imageId === imageId);
  }

  create(name: string, body: CreateBody): string {
    const conflicting = [...this.#containers.values()].find((container) => container.name === name);
    if (conflicting !== undefined) {
      const message = `Conflict. The container name "/${name}" is already in use by container "${conflicting.id}"`;
      throw new ShimError("conflict", message, { status: 409, conflictingId: conflicting.id });
    }
    const image = this.images().find(body.Image);
    if (image === undefined)
      throw new ShimError("notFound", `No such image: ${body.Image}`, { status: 404, missing: "image" });
    this.#count += 1;
    const id = createHash("sha256").update(String(this.#count)).digest("hex");
    const created = this.#tick();
    const imageEntrypoint = (image.changes.config?.["Entrypoint"] ?? []) as readonly string[];
    const [program = "sh"] = [...(body.Entrypoint ?? imageEntrypoint), ...(body.Cmd ?? [])];
    this.#containers.set(id, {
      ...{ id, name, body, created, program, imageId: image.id, imageLabels: image.changes.labels ?? {} },
      resources: body.HostConfig,
      state: neverStarted,
    });
    for (const { Type, Source, VolumeOptions } of body.HostConfig.Mounts ?? []) {
      if (Type !== "volume" || this.volumes.has(Source)) continue;
      const { Labels: labels = {}, DriverConfig } = VolumeOptions ?? {};
      this.volumes.set(Source, { labels, options: DriverConfig?.Options ?? {} });
    }
    this.#emit("create", id);
    return id;
  }

  listVolumes({ key, value }: { readonly key: string; readonly value: string }): readonly string[] {
    return [...this.volumes].filter(([, { labels }]) => labels?.[key] === value).map(([name]) => name);
  }

  removeVolume(name: string): "removed" | "missing" {
    const user = [...this.#containers.values()].find(({ body }) =>
      body.HostConfig.Mounts?.some((mount) => mount.Source === name),
    );
    if (user !== undefined)
      throw new ShimError("precondition", `remove ${name}: volume is in use - [${user.id}]`, { status: 409 });
    return this.volumes.delete(name) ? "removed" : "missing";
  }

  start(id: string): "started" | "already" {
    const container = this.require(id);
    if (container.state.running) return "already";
    this.#pid += 1;
    container.state = {
      ...neverStarted,
      status: "running",
      running: true,
      pid: this.#pid,
      started: this.#tick(),
    };
    this.#emit("start", container.id);
    return "started";
  }

  /** What Docker leaves behind when the OCI runtime refused: created, with an exit code and the reason. */
  failStart(id: string, reason: string): void {
    const container = this.get(id);
    container.state = { ...neverStarted, exitCode: 127, error: reason };
    this.#emit("die", container.id);
  }

  stop(id: string, graceSeconds: number): "stopped" | "already" | "missing" {
    const container = this.find(id);
    if (container === undefined) return "missing";
    if (!container.state.running) return "already";
    const isKilled = graceSeconds === 0 || container.body.StopSignal === "SIGKILL";
    this.exit(container.id, isKilled ? 137 : 143);
    return "stopped";
  }

  /** The main process ends by itself. */
  exit(id: string, exitCode: number, changes: Partial<Snapshot["state"]> = {}): void {
    const container = this.get(id);
    const { started } = container.state;
    const finished = this.#tick();
    container.state = { ...neverStarted, status: "exited", exitCode, started, finished, ...changes };
    this.#emit("die", container.id);
  }

  /** Another program restarts it, or sets it to another state. */
  restart(id: string): void {
    this.exit(id, 0);
    this.start(id);
    this.#emit("restart", id);
  }

  setStatus(id: string, status: DockerStatus): void {
    const container = this.get(id);
    container.state = { ...container.state, status };
    this.#emit(status === "paused" ? "pause" : "update", id);
  }

  remove(id: string, { force }: { readonly force: boolean }): "removed" | "missing" {
    const container = this.find(id);
    if (container === undefined) return "missing";
    if (container.state.running) {
      if (!force)
        throw new ShimError("precondition", `You cannot remove a running container ${id}`, { status: 409 });
      this.exit(container.id, 137);
    }
    this.#emit("destroy", container.id);
    this.#containers.delete(container.id);
    return "removed";
  }

  /** It is gone, and no event says so. */
  lose(id: string): void {
    this.#containers.delete(this.get(id).id);
  }

  update(id: string, resources: DockerResources): void {
    const container = this.require(id);
    container.resources = { ...container.resources, ...resources };
    this.#emit("update", container.id);
  }

  list({ labelKey, labelValue, ancestor, id }: ContainerFilter): readonly ListedContainer[] {
    return [...this.#containers.values()]
      .filter((container) => {
        const value = labelKey === undefined ? "" : mergedLabels(container)[labelKey];
        return value !== undefined && (labelValue === undefined || value === labelValue);
      })
      .filter((container) => id === undefined || container.id === id)
      .filter(
        (container) => ancestor === undefined || toSnapshot(container, this.logRoot).imageId === ancestor,
      )
      .map((container) => {
        const { id, name, body, state, imageId, created } = container;
        return {
          ...{ id, status: state.status, labels: madeLabels(mergedLabels(container)), names: [name] },
          ...{ imageId, imageName: body.Image, created: created - (created % 1_000_000_000n) },
        };
      });
  }

  inspect(id: string): Snapshot | undefined {
    const container = this.find(id);
    return container === undefined ? undefined : toSnapshot(container, this.logRoot);
  }

  /** As `find`; throws as Docker answers. */
  require(id: string): FakeContainer {
    const container = this.find(id);
    if (container !== undefined) return container;
    throw new ShimError("notFound", `No such container: ${id}`, { status: 404, missing: "container" });
  }

  #emit(action: string, id: string): void {
    const { name } = this.get(id);
    this.emit({ type: "container", action, id, name }, mergedLabels(this.get(id)));
  }

  #tick(): bigint {
    this.#clock += 1_000_000n;
    return this.#clock;
  }
}

/** As Docker has them: a container gets the labels of its image, too. */
function mergedLabels({ body, imageLabels }: FakeContainer): Labels {
  return { ...imageLabels, ...body.Labels };
}

function scopePropertiesOf(annotations: Labels = {}): Pick<Snapshot, "scopeProperties"> {
  const found = Object.entries(annotations).flatMap(([key, value]) =>
    key.startsWith(scopePropertyPrefix) ? [[key.slice(scopePropertyPrefix.length), value] as const] : [],
  );
  return found.length > 0 ? { scopeProperties: Object.fromEntries(found) } : {};
}

function toSnapshot(container: FakeContainer, logRoot: string): Snapshot {
  const { id, name, body, program, imageId, created, state, resources } = container;
  const { HostConfig: host } = body;
  const ownNetwork = host.NetworkMode === undefined || host.NetworkMode === "default";
  return snapshotOf({
    ...{
      id,
      name,
      imageId,
      created,
      state,
      labels: madeLabels(mergedLabels(container)),
      imageName: body.Image,
      programBytes: Buffer.byteLength(program),
      user: body.User ?? "",
    },
    ...(host.Runtime === undefined ? {} : { runtime: host.Runtime }),
    tty: body.Tty ?? false,
    openStdin: body.OpenStdin ?? false,
    stdinOnce: body.StdinOnce ?? false,
    stopSignal: body.StopSignal ?? "",
    logPath: host.LogConfig?.Type === "none" ? "" : `${logRoot}/${id}/${id}-json.log`,
    resolvConfPath: `/var/lib/docker/containers/${id}/resolv.conf`,
    networkMode: host.NetworkMode ?? "default",
    pidMode: host.PidMode ?? "",
    ipcMode: host.IpcMode ?? "private",
    ...scopePropertiesOf(host.Annotations),
    cgroupParent: host.CgroupParent ?? "",
    groupAdd: host.GroupAdd ?? [],
    privileged: host.Privileged ?? false,
    addresses: ownNetwork && state.running ? ["172.17.0.2"] : [],
    resources: {
      cpuPeriod: resources.CpuPeriod ?? 0,
      cpuQuota: resources.CpuQuota ?? 0,
      cpuShares: resources.CpuShares ?? 0,
      memory: resources.Memory ?? 0,
      memorySwap: resources.MemorySwap ?? 0,
      cpusetCpus: resources.CpusetCpus ?? "",
      cpusetMems: resources.CpusetMems ?? "",
      oomScoreAdj: host.OomScoreAdj ?? 0,
    },
  });
}
