/** A CRI server in memory for the tests of play. It keeps sandboxes and containers and records calls. */
import { EventEmitter, on } from "node:events";
import { ShimError } from "../../../src/lib/errors.js";
import {
  type Answer,
  type AuthConfig,
  type Container,
  type ContainerConfig,
  type ContainerEventResponse,
  ContainerEventType,
  ContainerState,
  type ContainerStatus,
  type Image,
  type PodSandbox,
  type PodSandboxConfig,
  PodSandboxState,
  type PodSandboxStatus,
} from "../../../src/domain/cri.js";
import type { CriClient } from "../../../src/play/cri/client.js";
import type { HostFiles } from "../../../src/play/node/files.js";
import type { MountedFiles } from "../../../src/play/node/mounted-files.js";
import { type PodCgroup, podCgroupPath } from "../../../src/play/pod-config/pod-cgroup.js";
import { parse } from "yaml";
import { keyOf } from "../../../src/play/manifests/make-pod.js";
import { readPod } from "../../../src/play/manifests/pod-schema.js";
import type { Problem } from "../../../src/play/manifests/schema.js";
import { type Manifest, readWorkloads } from "../../../src/play/manifests/read-manifests.js";
import { type Clock, systemClock } from "../../../src/play/kubelet/clock.js";
import type { PodEvent } from "../../../src/play/kubelet/events.js";
import type { Handlers, HandlerTarget, ProbeOutcome } from "../../../src/play/probes/run-probes-and-hooks.js";
import { Kubelet } from "../../../src/play/kubelet/kubelet.js";
import type { KubeletDeps } from "../../../src/play/kubelet/kubelet-deps.js";
import { containerHash, podHash } from "../../../src/play/pod-config/hashes.js";
import { backOffTimes } from "../../../src/play/kubelet/back-off.js";
import { type ObservedContainer, type ObservedPod } from "../../../src/play/pod-rules/observed-pod.js";
import { ManualClock } from "./manual-clock.js";

interface FakeContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly config: Answer<ContainerConfig>;
  readonly createdAt: number;
  startedAt: number;
  finishedAt: number;
  state: ContainerState;
  exitCode: number;
}

interface FakeSandbox {
  readonly id: string;
  readonly config: Answer<PodSandboxConfig>;
  readonly createdAt: number;
  state: PodSandboxState;
}

export class FakeCri implements CriClient {
  /** Calls that change something, in order, such as `startContainer web`. */
  readonly calls: string[] = [];
  readonly images = new Map<string, Partial<Image>>([["busybox:1", {}]]);
  readonly sandboxes: FakeSandbox[] = [];
  readonly containers: FakeContainer[] = [];
  readonly runtimeHandlers: string[] = [];
  /** Exit codes of containers that end at once when started. */
  readonly exits = new Map<string, number>();
  /** Containers whose start fails. */
  readonly failingStarts = new Set<string>();
  /** Containers whose start fails so early that they stay as they were created. */
  readonly refusedStarts = new Set<string>();
  /** Containers that end only when their grace period is over. */
  readonly ignoresSignals = new Set<string>();
  /** Exit codes for one start after the other; later ones run. */
  readonly exitsInTurn = new Map<string, number[]>();
  /** Whether the server knows the signals by which it is to stop containers. */
  hasStopSignals = true;
  /** Address of the pods; empty for none. */
  ip = "10.1.2.3";
  readonly #events = new EventEmitter().setMaxListeners(0);
  #serial = 0;

  constructor(private readonly clock: Clock = systemClock) {}

  /** A call, in the form of `calls`, that fails. */
  failOn = "";
  /** Whether the call that fails has happened all the same (its answer was lost). */
  failsLate = false;

  async #change(call: string, effect: () => void): Promise<void> {
    await Promise.resolve();
    this.calls.push(call);
    if (call === this.failOn && !this.failsLate) throw new ShimError("unknown", "it broke");
    effect();
    if (call === this.failOn) throw new ShimError("timeout", "it was slow");
  }

  readonly execSync = () =>
    Promise.resolve({ stdout: Buffer.alloc(0), stderr: Buffer.alloc(0), exit_code: 0 });
  readonly execUrl = () => Promise.resolve("http://127.0.0.1:1/exec");
  readonly attachUrl = () => Promise.resolve("http://127.0.0.1:1/attach");
  readonly portForwardUrl = () => Promise.resolve("http://127.0.0.1:1/portforward");
  readonly listContainerStats = () => Promise.resolve([]);
  readonly cgroupDriver = () => Promise.resolve(undefined);
  readonly podSandboxInfo = () => Promise.resolve({});
  readonly status = () => Promise.resolve({ status: null, info: {}, runtime_handlers: [], features: null });

  async *containerEvents(signal: AbortSignal): ReturnType<CriClient["containerEvents"]> {
    await Promise.resolve();
    try {
      for await (const [pod] of on(this.#events, "pod", { signal })) yield eventOf(String(pod));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Ends a running container. */
  end(name: string, exitCode: number): void {
    const running = this.containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
    const container = running.find((entry) => nameOf(entry) === name);
    if (container === undefined) throw new Error(`${name} does not run`);
    this.#end(container, exitCode);
  }

  #end(container: FakeContainer, exitCode: number): void {
    container.state = ContainerState.CONTAINER_EXITED;
    container.exitCode = exitCode;
    container.finishedAt = this.clock.now();
    this.notify(this.#podOf(container.sandboxId));
  }

  /** Sends an event of the pod. */
  notify(pod: string): void {
    this.#events.emit("pod", pod);
  }

  version(): ReturnType<CriClient["version"]> {
    const versions = { version: "0.1.0", runtime_version: "1", runtime_api_version: "v1" };
    return Promise.resolve({ ...versions, runtime_name: "fake" });
  }

  imageStatus(image: string): Promise<Image | undefined> {
    const found = this.images.get(image.replace(/^id of /, ""));
    const texts = { repo_tags: [], repo_digests: [], size: "1", username: "" };
    return Promise.resolve(
      found && { ...texts, uid: null, spec: null, pinned: false, id: `id of ${image}`, ...found },
    );
  }

  /** Errors of the next pulls, in order. */
  readonly pullErrors: Error[] = [];
  /** Credentials of all pulls that had some. */
  readonly auths: Answer<AuthConfig>[] = [];

  async pullImage(
    image: string,
    _sandbox: Answer<PodSandboxConfig>,
    _signal: AbortSignal,
    auth?: Answer<AuthConfig>,
  ): Promise<string> {
    if (auth !== undefined) this.auths.push(auth);
    const error = this.pullErrors.shift();
    if (error !== undefined) {
      this.calls.push(`pullImage ${image}`);
      throw error;
    }
    await this.#change(`pullImage ${image}`, () => this.images.set(image, {}));
    return `id of ${image}`;
  }

  async runPodSandbox(config: Answer<PodSandboxConfig>, runtimeHandler: string): Promise<string> {
    const name = config.metadata?.name ?? "";
    this.#serial += 1;
    const id = `sandbox ${name} ${this.#serial}`;
    this.runtimeHandlers.push(runtimeHandler);
    await this.#change(`runPodSandbox ${name}`, () =>
      this.sandboxes.push({
        ...{ id, config, state: PodSandboxState.SANDBOX_READY, createdAt: this.#serial },
      }),
    );
    return id;
  }

  podSandboxStatus(id: string): Promise<PodSandboxStatus> {
    const sandbox = this.sandboxes.find((entry) => entry.id === id);
    if (sandbox === undefined) return Promise.reject(new ShimError("notFound", "no such sandbox"));
    const network = { ip: this.ip, additional_ips: this.ip === "" ? [] : [{ ip: "fd00::3" }] };
    return Promise.resolve({ ...listedSandbox(sandbox), network, linux: null });
  }

  listPodSandboxes(
    labels: Readonly<Record<string, string>>,
    _signal?: AbortSignal,
  ): Promise<readonly PodSandbox[]> {
    const matches = ({ config }: FakeSandbox): boolean =>
      Object.entries(labels).every(([key, value]) => config.labels?.[key] === value);
    return Promise.resolve(this.sandboxes.filter(matches).map(listedSandbox));
  }

  async stopPodSandbox(id: string): Promise<void> {
    await this.#change(`stopPodSandbox ${this.#podOf(id)}`, () => {
      for (const sandbox of this.sandboxes) {
        if (sandbox.id === id) sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
      }
    });
  }

  async removePodSandbox(id: string): Promise<void> {
    await this.#change(`removePodSandbox ${this.#podOf(id)}`, () => {
      removeWhere(this.sandboxes, (entry) => entry.id === id);
      removeWhere(this.containers, (entry) => entry.sandboxId === id);
    });
  }

  async createContainer(sandboxId: string, config: Answer<ContainerConfig>): Promise<string> {
    const name = config.metadata?.name ?? "";
    const attempt = config.metadata?.attempt ?? 0;
    this.#serial += 1;
    const id = `container ${name} ${attempt} of ${sandboxId}`;
    await this.#change(`createContainer ${name}${attempt === 0 ? "" : ` ${attempt}`}`, () => {
      const times = { createdAt: this.#serial, startedAt: 0, finishedAt: 0 };
      const state = ContainerState.CONTAINER_CREATED;
      this.containers.push({ id, sandboxId, config, state, exitCode: 0, ...times });
    });
    return id;
  }

  async startContainer(id: string): Promise<void> {
    const container = this.#container(id);
    const name = nameOf(container);
    await this.#change(`startContainer ${name}`, () => {
      container.startedAt = this.clock.now();
      if (this.refusedStarts.has(name)) throw new ShimError("unknown", "no such mount");
      container.state = ContainerState.CONTAINER_RUNNING;
      if (this.failingStarts.has(name)) {
        this.#end(container, 128);
        throw new ShimError("unknown", "no such program");
      }
      const exitCode = this.exitsInTurn.get(name)?.shift() ?? this.exits.get(name);
      if (exitCode === undefined) this.notify(this.#podOf(container.sandboxId));
      else this.#end(container, exitCode);
    });
  }

  containerStatus(id: string): Promise<ContainerStatus> {
    return Promise.resolve().then(() => {
      const container = this.#container(id);
      return {
        ...listedContainer(container),
        started_at: String(container.startedAt * 1_000_000),
        finished_at: String(container.finishedAt * 1_000_000),
        exit_code: container.exitCode,
        reason: container.exitCode === 0 ? "Completed" : "Error",
        message: "",
        mounts: [],
        log_path: `/logs/${container.config.log_path ?? ""}`,
        resources: null,
        user: null,
        stop_signal: this.hasStopSignals ? (container.config.stop_signal ?? 0) : 0,
      };
    });
  }

  listContainers(sandboxId: string): Promise<readonly Container[]> {
    return Promise.resolve(
      this.containers
        .filter((entry) => sandboxId === "" || entry.sandboxId === sandboxId)
        .map(listedContainer),
    );
  }

  async stopContainer(id: string, graceSeconds: number): Promise<void> {
    const container = this.#container(id);
    if (this.ignoresSignals.has(nameOf(container))) {
      this.calls.push(`stopContainer ${nameOf(container)} ${graceSeconds}s`);
      await new Promise<void>((resolve) => this.clock.after(graceSeconds * 1000, resolve));
      this.#end(container, 137);
      return;
    }
    await this.#change(`stopContainer ${nameOf(container)} ${graceSeconds}s`, () => {
      if (container.state === ContainerState.CONTAINER_RUNNING) this.#end(container, 137);
    });
  }

  async removeContainer(id: string): Promise<void> {
    await this.#change(`removeContainer ${nameOf(this.#container(id))}`, () =>
      removeWhere(this.containers, (entry) => entry.id === id),
    );
  }

  #container(id: string): FakeContainer {
    const container = this.containers.find((entry) => entry.id === id);
    if (container === undefined) throw new ShimError("notFound", "no such container");
    return container;
  }

  #podOf(sandboxId: string): string {
    return this.sandboxes.find(({ id }) => id === sandboxId)?.config.metadata?.name ?? "?";
  }
}

function nameOf({ config }: FakeContainer): string {
  return config.metadata?.name ?? "";
}

function eventOf(pod: string): ContainerEventResponse {
  const status = { metadata: { name: pod, namespace: "default", uid: "", attempt: 0 } };
  return {
    ...{ container_id: "", container_event_type: ContainerEventType.CONTAINER_STOPPED_EVENT },
    ...{ created_at: "0", containers_statuses: [] },
    pod_sandbox_status: status as ContainerEventResponse["pod_sandbox_status"],
  };
}

function listedSandbox({ id, config, state, createdAt }: FakeSandbox): PodSandbox {
  const { name = "", uid = "", namespace = "", attempt = 0 } = config.metadata ?? {};
  return {
    id,
    metadata: { name, uid, namespace, attempt },
    state,
    created_at: String(createdAt),
    labels: strings(config.labels),
    annotations: strings(config.annotations),
    runtime_handler: "",
  };
}

function listedContainer({ id, sandboxId, config, state, createdAt }: FakeContainer): Container {
  return {
    id,
    pod_sandbox_id: sandboxId,
    metadata: { name: config.metadata?.name ?? "", attempt: config.metadata?.attempt ?? 0 },
    image: null,
    image_ref: "ref",
    state,
    created_at: String(createdAt),
    labels: strings(config.labels),
    annotations: strings(config.annotations),
    image_id: "",
  };
}

function strings(
  values: Readonly<Record<string, string | undefined>> | undefined,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(values ?? {}).map(([key, value]) => [key, value ?? ""]));
}

function removeWhere<T>(list: T[], matches: (entry: T) => boolean): void {
  list.splice(0, list.length, ...list.filter((entry) => !matches(entry)));
}

/** Records paths and calls. */
export class FakeFiles implements HostFiles, MountedFiles {
  readonly paths = new Set<string>();
  readonly texts = new Map<string, string>();
  readonly usages = new Map<string, bigint | Error>();
  readonly cgroups = new Map<string, PodCgroup>();
  readonly calls: string[] = [];
  failOn = "";

  async #record(call: string): Promise<void> {
    await Promise.resolve();
    this.calls.push(call);
    if (call === this.failOn) throw new ShimError("unknown", "the disk broke");
  }

  exists(path: string): Promise<boolean> {
    return Promise.resolve([...this.paths].some((entry) => entry === path || entry.startsWith(`${path}/`)));
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#record(`makeDirectory ${path}`);
    this.paths.add(path);
  }

  async writeFile(path: string, text: string): Promise<void> {
    await this.#record(`writeFile ${path}`);
    this.paths.add(path);
    this.texts.set(path, text);
  }

  async rewriteFile(path: string, text: string): Promise<boolean> {
    if (!this.texts.has(path)) return false;
    await this.#record(`rewriteFile ${path}`);
    this.texts.set(path, text);
    return true;
  }

  async prepareVolume({ kind, path }: { readonly kind: string; readonly path: string }): Promise<void> {
    await this.#record(`prepareVolume ${kind} ${path}`);
    if (kind !== "hostPath") this.paths.add(path);
  }

  list(path: string): Promise<readonly string[]> {
    const below = [...this.paths].filter((entry) => entry.startsWith(`${path}/`));
    const names = below.map((entry) => entry.slice(path.length + 1).split("/")[0] ?? "");
    return Promise.resolve([...new Set(names)].sort());
  }

  readonly checkCgroups = () => Promise.resolve();
  readonly replaceFile = (path: string, text: string) => this.writeFile(path, text);
  readonly readFile = (path: string) => Promise.resolve(this.texts.get(path));
  readonly readTail = (path: string) => Promise.resolve(this.texts.get(path) ?? "");

  readBelow(volumePath: string, path: string): Promise<string> {
    const text = this.texts.get(`${volumePath}/${path}`);
    return text === undefined ? Promise.reject(new ShimError("notFound", "no file")) : Promise.resolve(text);
  }

  async mountSubPath(volumePath: string, subPath: string, target: string): Promise<string> {
    await this.#record(`mountSubPath ${volumePath} ${subPath} ${target}`);
    this.paths.add(target);
    return target;
  }

  diskUsage(path: string): Promise<bigint> {
    const usage = this.usages.get(path) ?? 0n;
    return usage instanceof Error ? Promise.reject(usage) : Promise.resolve(usage);
  }

  async removeTree(path: string): Promise<void> {
    await this.#record(`removeTree ${path}`);
    for (const entry of this.paths)
      if (entry === path || entry.startsWith(`${path}/`)) {
        this.paths.delete(entry);
        this.texts.delete(entry);
      }
  }

  openFile(path: string): ReturnType<HostFiles["openFile"]> {
    const text = this.texts.get(path);
    if (text === undefined) return Promise.resolve(undefined);
    return Promise.resolve({
      size: () => Promise.resolve(Buffer.byteLength(text)),
      read: (offset, bytes) => Promise.resolve(Buffer.from(text).subarray(offset, offset + bytes)),
      isReplaced: () => Promise.resolve(false),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  }

  async makeCgroup(cgroup: PodCgroup): Promise<void> {
    await this.#record(`makeCgroup ${podCgroupPath(cgroup.id, cgroup.driver)}`);
    this.cgroups.set(cgroup.id, cgroup);
  }

  async removeCgroup(id: string): Promise<void> {
    if (this.cgroups.delete(id)) await this.#record(`removeCgroup ${id}`);
  }
}

/** Answers probes and hooks as the test says: success unless told otherwise. */
export class FakeHandlers implements Handlers {
  readonly calls: string[] = [];
  /** By container and the name of the command or of the handler, such as `web exec true`. */
  readonly outcomes = new Map<string, ProbeOutcome["result"][]>();
  readonly failingHooks = new Set<string>();
  /** How long hooks take, by container; they end when the clock says so. */
  readonly hookMs = new Map<string, number>();

  constructor(private readonly clock: ManualClock) {}

  probe(_: unknown, { container }: HandlerTarget): Promise<ProbeOutcome> {
    const kind = (["startup", "liveness", "readiness"] as const).find(
      (one) => container[`${one}Probe`] === _,
    );
    const key = `${container.name} ${kind ?? "?"}`;
    this.calls.push(key);
    const queue = this.outcomes.get(key);
    const result = (queue !== undefined && queue.length > 1 ? queue.shift() : queue?.[0]) ?? "success";
    return Promise.resolve({ result, message: `it was a ${result}` });
  }

  async runHook(hook: unknown, { container }: HandlerTarget, signal: AbortSignal): Promise<void> {
    const kind = container.lifecycle?.postStart === hook ? "postStart" : "preStop";
    const key = `${container.name} ${kind}`;
    this.calls.push(key);
    const milliseconds = this.hookMs.get(key);
    if (milliseconds !== undefined)
      await new Promise<void>((resolve, reject) => {
        this.clock.after(milliseconds, resolve);
        signal.addEventListener("abort", () => reject(new ShimError("timeout", "the hook was aborted")));
      });
    if (this.failingHooks.has(key)) throw new ShimError("unknown", "exit code 1");
  }
}

export interface Fixture {
  readonly cri: FakeCri;
  readonly files: FakeFiles;
  readonly handlers: FakeHandlers;
  readonly clock: ManualClock;
  readonly reports: string[];
  readonly events: PodEvent[];
  readonly deps: KubeletDeps;
  readonly kubelet: Kubelet;
}

export function makeFixture(): Fixture {
  const clock = new ManualClock();
  const cri = new FakeCri(clock);
  const files = new FakeFiles();
  const handlers = new FakeHandlers(clock);
  const reports: string[] = [];
  const events: PodEvent[] = [];
  const deps: KubeletDeps = {
    client: cri,
    features: { recursiveReadOnly: new Set([""]), strictGroups: true },
    credentials: { lookUp: () => Promise.resolve([]) },
    ...{ files, mounted: files },
    handlers,
    clock,
    playId: "play-1",
    processes: {
      own: "1",
      isAlive: (mark) => Promise.resolve(mark === "1"),
      describe: (mark) => `process ${mark}`,
    },
    backOff: backOffTimes,
    node: {
      memoryBytes: 4_000_000_000n,
      hugePageSizes: [],
      hasHugePageLimits: true,
      cgroupVersion: 1,
      allocatable: { cpu: "4", memory: "3900000000", "ephemeral-storage": "10Gi" },
      name: "node-1",
      addresses: ["192.0.2.7", "2001:db8::7"],
      dns: { servers: ["192.0.2.1"], searches: ["example.org"], options: ["ndots:1"] },
      hostsFile: "127.0.0.1 localhost\n192.0.2.7 node\n",
      seLinux: false,
      podCgroups: { reason: "the test has none" },
    },
    directories: { state: "/state", logs: "/logs", seccomp: "/seccomp" },
    report: (line) => reports.push(line),
  };
  const kubelet = new Kubelet(deps);
  kubelet.listen({ onEvent: (event) => events.push(event) });
  return { cri, files, handlers, clock, reports, events, deps, kubelet };
}

/** The only pod of a manifest given as text. */
export async function readOnePod(text: string): Promise<Manifest> {
  const [manifest] = (await readWorkloads([{ name: "pod.yaml", text }])).pods;
  if (manifest === undefined) throw new Error("no pod");
  return manifest;
}

/** A pod with the given lines (indented by two) in its spec. */
export async function podWith(specLines: string): Promise<Manifest> {
  return readOnePod(`apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: uid-1}\nspec:\n${specLines}\n`);
}

/** The same, whose fields are not checked against each other, and whose objects may be missing. */
export function uncheckedPodWith(specLines: string): Promise<Manifest> {
  return uncheckedPod(`apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: uid-1}\nspec:\n${specLines}\n`);
}

export function uncheckedPod(text: string): Promise<Manifest> {
  const problems: Problem[] = [];
  const pod = readPod(parse(text), "", problems);
  if (pod === undefined || problems.some(({ kind }) => kind === "malformed"))
    throw new Error(`no pod: ${JSON.stringify(problems)}`);
  const objects = { configMaps: new Map(), secrets: new Map() };
  return Promise.resolve({ source: "pod.yaml", key: keyOf(pod.metadata), pod, hash: "hash", objects });
}

/** The containers of `i1=0 a=running`: i1 has exited with 0, a runs. All are of the sandbox `s`. */
export function observedContainers(
  text: string,
  hashes: ReadonlyMap<string, string> = new Map(),
): readonly ObservedContainer[] {
  const entries = text.split(" ").filter(Boolean);
  return entries.map((entry) => {
    const [name = "", state = ""] = entry.split("=");
    const ended = /^\d+$/.test(state);
    const exit = {
      state: ended ? "exited" : (state as "running"),
      exitCode: ended ? Number(state) : 0,
    } as const;
    const times = { createdAt: 1n, startedAt: state === "created" ? 0 : 1, finishedAt: ended ? 2 : 0 };
    const texts = { reason: "", message: "", image: "", imageId: "", hash: hashes.get(name) ?? "" };
    const ids = { id: `id-${name}`, name, sandboxId: "s", attempt: 0, graceSeconds: undefined };
    return { ...ids, ...texts, ...times, ...exit };
  });
}

/** A pod with one ready sandbox `s` and these containers, which were made of the manifest. */
export function observedPod(
  manifest: Manifest,
  text: string,
  changes: Partial<ObservedPod> = {},
): ObservedPod {
  const { initContainers = [], containers, ephemeralContainers = [] } = manifest.pod.spec;
  const all = [...initContainers, ...containers, ...ephemeralContainers];
  const hashes = new Map(all.map((container) => [container.name, containerHash(container)]));
  const identity = { playHash: podHash(manifest), uid: manifest.key.uid };
  const sandbox = { id: "s", attempt: 0, isReady: true, createdAt: 1n, ...identity };
  return {
    ...{ ips: ["10.1.2.3"], lacksIp: false, sandboxes: [sandbox] },
    containers: observedContainers(text, hashes),
    ...changes,
  };
}
