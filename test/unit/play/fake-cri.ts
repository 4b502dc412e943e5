/** A CRI server in memory for the tests of play. It keeps sandboxes and containers and records calls. */
import { ShimError } from "../../../src/shim/lib/errors.js";
import {
  type Answer,
  type Container,
  type ContainerConfig,
  ContainerState,
  type ContainerStatus,
  type Image,
  type Mount,
  type PodSandbox,
  type PodSandboxConfig,
  PodSandboxState,
  type PodSandboxStatus,
} from "../../../src/shim/domain/cri.js";
import type { CriClient } from "../../../src/play/client.js";
import type { PlayFiles } from "../../../src/play/containers/files.js";
import { type Manifest, readManifests } from "../../../src/play/manifests/read-manifests.js";
import type { ObservedContainer } from "../../../src/play/kubelet/next-step.js";
import type { RunnerDeps } from "../../../src/play/kubelet/runner.js";

interface FakeContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly config: Answer<ContainerConfig>;
  state: ContainerState;
  exitCode: number;
}

interface FakeSandbox {
  readonly id: string;
  readonly config: Answer<PodSandboxConfig>;
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

  /** Commands of execSync, in order; `execResults` has what they answer (else success without output). */
  readonly execs: (readonly string[])[] = [];
  readonly execResults: Awaited<ReturnType<CriClient["execSync"]>>[] = [];

  execSync(_: string, command: readonly string[]): ReturnType<CriClient["execSync"]> {
    this.execs.push(command);
    const success = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0), exit_code: 0 };
    return Promise.resolve(this.execResults.shift() ?? success);
  }

  execUrl(): Promise<string> {
    return Promise.resolve("http://127.0.0.1:1/exec");
  }

  attachUrl(): Promise<string> {
    return Promise.resolve("http://127.0.0.1:1/attach");
  }

  portForwardUrl(): Promise<string> {
    return Promise.resolve("http://127.0.0.1:1/portforward");
  }

  listContainerStats(): ReturnType<CriClient["listContainerStats"]> {
    return Promise.resolve([]);
  }

  /** Like a server without events. */
  async *containerEvents(): ReturnType<CriClient["containerEvents"]> {
    await Promise.resolve();
    throw new ShimError("unsupported", "GetContainerEvents: not served");
  }

  version(): ReturnType<CriClient["version"]> {
    const answer = {
      version: "0.1.0",
      runtime_name: "fake",
      runtime_version: "1",
      runtime_api_version: "v1",
    };
    return Promise.resolve(answer);
  }

  imageStatus(image: string): Promise<Image | undefined> {
    const found = this.images.get(image.replace(/^id of /, ""));
    const none = {
      repo_tags: [],
      repo_digests: [],
      size: "1",
      uid: null,
      username: "",
      spec: null,
      pinned: false,
    };
    return Promise.resolve(found && { ...none, id: `id of ${image}`, ...found });
  }

  async pullImage(image: string): Promise<string> {
    await this.#change(`pullImage ${image}`, () => this.images.set(image, {}));
    return `id of ${image}`;
  }

  async runPodSandbox(config: Answer<PodSandboxConfig>, runtimeHandler: string): Promise<string> {
    const name = config.metadata?.name ?? "";
    const id = `sandbox ${name} ${this.sandboxes.length}`;
    this.runtimeHandlers.push(runtimeHandler);
    await this.#change(`runPodSandbox ${name}`, () => {
      this.sandboxes.push({ id, config, state: PodSandboxState.SANDBOX_READY });
    });
    return id;
  }

  podSandboxStatus(id: string): Promise<PodSandboxStatus> {
    const sandbox = this.sandboxes.find((entry) => entry.id === id);
    if (sandbox === undefined) return Promise.reject(new ShimError("notFound", "no such sandbox"));
    const network = { ip: "10.1.2.3", additional_ips: [{ ip: "fd00::3" }] };
    return Promise.resolve({ ...listedSandbox(sandbox, 0), network, linux: null });
  }

  listPodSandboxes(labels: Readonly<Record<string, string>>): Promise<readonly PodSandbox[]> {
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
    const id = `container ${name} of ${sandboxId}`;
    await this.#change(`createContainer ${name}`, () => {
      this.containers.push({ id, sandboxId, config, state: ContainerState.CONTAINER_CREATED, exitCode: 0 });
    });
    return id;
  }

  async startContainer(id: string): Promise<void> {
    const container = this.#container(id);
    const name = nameOf(container);
    await this.#change(`startContainer ${name}`, () => {
      container.exitCode = this.exits.get(name) ?? 0;
      container.state = this.exits.has(name)
        ? ContainerState.CONTAINER_EXITED
        : ContainerState.CONTAINER_RUNNING;
    });
  }

  containerStatus(id: string): Promise<ContainerStatus> {
    return Promise.resolve().then(() => {
      const container = this.#container(id);
      return {
        ...listedContainer(container),
        started_at: "1",
        finished_at: "0",
        exit_code: container.exitCode,
        reason: container.exitCode === 0 ? "Completed" : "Error",
        message: "",
        mounts: (container.config.mounts ?? []).map(toMount),
        log_path: "",
        resources: null,
        user: null,
        stop_signal: 0,
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
    await this.#change(`stopContainer ${nameOf(container)} ${graceSeconds}s`, () => {
      container.state = ContainerState.CONTAINER_EXITED;
    });
  }

  async removeContainer(id: string): Promise<void> {
    await this.#change(`removeContainer ${nameOf(this.#container(id))}`, () => {
      removeWhere(this.containers, (entry) => entry.id === id);
    });
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

function listedSandbox({ id, config, state }: FakeSandbox, index: number): PodSandbox {
  const { name = "", uid = "", namespace = "", attempt = 0 } = config.metadata ?? {};
  return {
    id,
    metadata: { name, uid, namespace, attempt },
    state,
    created_at: String(1000 + index),
    labels: strings(config.labels),
    annotations: strings(config.annotations),
    runtime_handler: "",
  };
}

function listedContainer({ id, sandboxId, config, state }: FakeContainer): Container {
  return {
    id,
    pod_sandbox_id: sandboxId,
    metadata: { name: config.metadata?.name ?? "", attempt: config.metadata?.attempt ?? 0 },
    image: null,
    image_ref: "ref",
    state,
    created_at: "1",
    labels: strings(config.labels),
    annotations: strings(config.annotations),
    image_id: "",
  };
}

function toMount({ host_path = "", container_path = "", readonly = false }: Answer<Mount>): Mount {
  return {
    host_path,
    container_path,
    readonly,
    selinux_relabel: false,
    propagation: 0,
    uidMappings: [],
    gidMappings: [],
    recursive_read_only: false,
    image: null,
    image_sub_path: "",
    mount_options: [],
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
export class FakeFiles implements PlayFiles {
  readonly paths = new Set<string>();
  readonly texts = new Map<string, string>();
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

  async prepareVolume({ kind, path }: { readonly kind: string; readonly path: string }): Promise<void> {
    await this.#record(`prepareVolume ${kind} ${path}`);
    if (kind === "emptyDir") this.paths.add(path);
  }

  resolveSubPath(volumePath: string, subPath: string): Promise<string> {
    return Promise.resolve(`${volumePath}/resolved/${subPath}`);
  }

  firstAbove(path: string, directories: readonly string[]): Promise<string | undefined> {
    return Promise.resolve(directories.find((one) => path.startsWith(`${one}/`)));
  }

  async removeTree(path: string): Promise<void> {
    await this.#record(`removeTree ${path}`);
    for (const entry of this.paths)
      if (entry === path || entry.startsWith(`${path}/`)) this.paths.delete(entry);
  }

  readTail(path: string): Promise<string> {
    return Promise.resolve(this.texts.get(path) ?? "");
  }
}

export interface Fixture {
  readonly cri: FakeCri;
  readonly files: FakeFiles;
  readonly reports: string[];
  readonly deps: RunnerDeps;
}

export function makeFixture(): Fixture {
  const cri = new FakeCri();
  const files = new FakeFiles();
  const reports: string[] = [];
  const deps: RunnerDeps = {
    client: cri,
    files,
    node: {
      memoryBytes: 4_000_000_000n,
      dns: { servers: ["192.0.2.1"], searches: ["example.org"], options: ["ndots:1"] },
      hostsFile: "127.0.0.1 localhost\n192.0.2.7 node\n",
      seLinux: false,
    },
    directories: { state: "/state", logs: "/logs", seccomp: "/seccomp" },
    report: (line) => reports.push(line),
    pollMs: 1,
  };
  return { cri, files, reports, deps };
}

/** The only pod of a manifest given as text. */
export async function readOnePod(text: string): Promise<Manifest> {
  const [manifest] = await readManifests([{ name: "pod.yaml", text }]);
  if (manifest === undefined) throw new Error("no pod");
  return manifest;
}

/** A pod with the given lines (indented by two) in its spec. */
export async function podWith(specLines: string): Promise<Manifest> {
  return readOnePod(`apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: uid-1}\nspec:\n${specLines}\n`);
}

/** The containers of `i1=0 a=running`: i1 has exited with 0, a runs. */
export function observedContainers(text: string): readonly ObservedContainer[] {
  const entries = text.split(" ").filter(Boolean);
  return entries.map((entry) => {
    const [name = "", state = ""] = entry.split("=");
    const ended = /^\d+$/.test(state);
    const exit = {
      state: ended ? "exited" : (state as "running"),
      exitCode: ended ? Number(state) : 0,
    } as const;
    return { id: `id-${name}`, name, attempt: 0, reason: "", message: "", ...exit };
  });
}
