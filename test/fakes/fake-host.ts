import { ShimError } from "../../src/lib/errors.js";
import type { NodeFacts } from "../../src/domain/node-facts.js";
import type { Snapshot } from "../../src/domain/snapshot.js";
import type {
  CdiSpecDocument,
  CgroupSettings,
  CheckpointContent,
  FoundMount,
  HostAccess,
  OpenFileLimits,
  PathProblem,
  ProvenNamespace,
} from "../../src/shim/ports/host.js";
import type { Reach } from "../../src/domain/reach.js";
import { mergeCgroupSettings } from "../../src/shim/state/container-records.js";
import { Journal } from "./journal.js";
import { fakeReach } from "./reach.js";

/** A host that notes what is done to it, as `host.<verb>` in the journal. */
export class FakeHost implements HostAccess {
  /** Whether the engine runs on this host. */
  local = true;
  /** Content by path. */
  readonly nodeFiles = new Map<string, string>();
  readonly paths = new Map<string, "file" | "directory" | "other">();
  readonly pathProblems = new Map<string, PathProblem>();
  /** Paths at which a log is a file, and not a link. */
  readonly logFiles = new Set<string>();
  /** Log path → container id. */
  readonly links = new Map<string, string>();
  /** resolv.conf by sandbox id. */
  readonly resolvConfs = new Map<string, string>();
  /** Cgroup settings by container id. */
  readonly cgroups = new Map<string, CgroupSettings>();
  /** Another one: systemd has loaded its units again. */
  unitsMark: string | undefined = "1";
  /** What archives of checkpoints hold, by location. */
  readonly checkpointArchives = new Map<string, CheckpointContent>();
  /** Of the first process of every container that runs. */
  fileLimits: OpenFileLimits | undefined = { soft: 1_048_576, hard: 1_048_576 };
  cdiSpecs: readonly CdiSpecDocument[] = [];
  appArmorProfiles: ReadonlySet<string> | undefined = new Set<string>();
  /** Where images are, when that is not the engine's data root. */
  imageRoot: string | undefined;
  /** Kills the process; false when it is out of reach. */
  onKill: (pid: number) => boolean = () => true;

  constructor(private readonly journal = new Journal()) {}

  get reach(): Reach {
    return fakeReach(this.local);
  }

  writeResolvConf: HostAccess["writeResolvConf"] = (sandbox, content, signal) =>
    this.#do("writeResolvConf", [sandbox.id, content], signal, () => {
      const isOther = this.resolvConfs.get(sandbox.id) !== content;
      this.resolvConfs.set(sandbox.id, content);
      return isOther;
    });

  openNetworkNamespace(): undefined {
    return undefined;
  }

  networkNamespace({ state }: Snapshot): ProvenNamespace | undefined {
    if (!this.local || !state.running) return undefined;
    return { netns: `/proc/${state.pid}/ns/net`, netnsIdentity: `namespace of ${state.pid}` };
  }

  proveNetworkNamespace(sandbox: Snapshot): ProvenNamespace | undefined {
    return this.networkNamespace(sandbox);
  }

  killProcessTree: HostAccess["killProcessTree"] = (containerId, pid, signal) =>
    this.#do("killProcessTree", [containerId, pid], signal, () => this.local && this.onKill(pid));

  linkLog: HostAccess["linkLog"] = (link, container, signal) =>
    this.#do("linkLog", [link, container.id], signal, () => {
      this.links.set(link, container.id);
    });

  restoreLogLink: HostAccess["restoreLogLink"] = (link, container, signal) =>
    this.#do("restoreLogLink", [link, container.id], signal, () => {
      if (this.logFiles.has(link)) return false;
      this.links.set(link, container.id);
      return true;
    });

  unlinkLog: HostAccess["unlinkLog"] = (link, containerId) =>
    this.#do("unlinkLog", [link], undefined, () => {
      if (this.links.get(link) === containerId) this.links.delete(link);
    });

  /** All links are alike here. */
  deadLogLinks: HostAccess["deadLogLinks"] = (directory) =>
    this.#do("deadLogLinks", [directory], undefined, () =>
      [...this.links]
        .filter(([path]) => path.startsWith(`${directory}/`))
        .map(([path, containerId]) => ({ path, containerId })),
    );

  applyCgroup: HostAccess["applyCgroup"] = (container, settings, signal) =>
    this.#do("applyCgroup", [container.id, settings], signal, () => {
      if (!this.local) throw new ShimError("unsupported", "the cgroup is out of reach");
      const present = this.cgroups.get(container.id);
      this.cgroups.set(
        container.id,
        present === undefined ? settings : mergeCgroupSettings(present, settings),
      );
    });

  limitsHugepages: HostAccess["limitsHugepages"] = () => Promise.resolve(this.local);

  presentCgroup({ id }: Snapshot): Promise<CgroupSettings | undefined> {
    return Promise.resolve(this.local ? this.cgroups.get(id) : undefined);
  }

  setScopeProperties: HostAccess["setScopeProperties"] = ({ id }, assignments, signal) =>
    this.#do("setScopeProperties", [id, assignments], signal, () => undefined);

  unitsLoaded(): Promise<string | undefined> {
    return Promise.resolve(this.unitsMark);
  }

  /** Notes what the archive would hold, by its location. */
  async archiveCheckpoint(
    container: Snapshot,
    location: string,
    content: CheckpointContent,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    await this.#do("archiveCheckpoint", [container.id, location], signal, () => {
      this.checkpointArchives.set(location, content);
    });
  }

  endCheckpoint: HostAccess["endCheckpoint"] = (containerId, location, container) =>
    this.#do("endCheckpoint", [containerId, location, container?.state.pid], undefined, () => undefined);

  cgroupDirectories(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  writableLayer(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** A layer has the paths that `paths` has below it. */
  layerDirectories: HostAccess["layerDirectories"] = (layers, path) =>
    this.#do("layerDirectories", [layers, path], undefined, () => {
      if (!this.local) return undefined;
      const directories = layers.map((layer) => (path === "" ? layer : `${layer}/${path}`));
      const found = directories.filter((one) => path === "" || this.paths.get(one) === "directory");
      return found.map((one) => ({ path: one, shortPath: undefined }));
    });

  /** `paths` is what there is; `pathProblems` are those of others. */
  findPaths: HostAccess["findPaths"] = (paths, _sandboxId, signal) =>
    this.#do("findPaths", [paths], signal, () => {
      if (!this.local) return undefined;
      const find = (path: string, absent: FoundMount): readonly [string, FoundMount] => {
        const found = this.pathProblems.get(path) ?? (this.paths.has(path) ? "present" : absent);
        if (found === "made") this.paths.set(path, "directory");
        return [path, found];
      };
      const made = paths.make.map((path) => find(path, "made"));
      return {
        mounts: new Map([...paths.look.map((path) => find(path, "missing")), ...made]),
        devices: new Map(paths.devices.map((path) => [path, this.pathProblems.get(path) ?? [path]])),
      };
    });

  readNodeFile: HostAccess["readNodeFile"] = (path, limitBytes) =>
    this.#do("readNodeFile", [path, limitBytes], undefined, () => {
      const content = this.nodeFiles.get(path);
      if (content === undefined) throw new ShimError("notFound", `read "${path}": no such file`);
      return content;
    });

  loadedAppArmorProfiles: HostAccess["loadedAppArmorProfiles"] = () =>
    this.#do("loadedAppArmorProfiles", [], undefined, () => this.appArmorProfiles);

  openFileLimits: HostAccess["openFileLimits"] = ({ id, state }) =>
    this.#do("openFileLimits", [id], undefined, () =>
      this.local && state.running ? this.fileLimits : undefined,
    );

  readCdiSpecs: HostAccess["readCdiSpecs"] = () =>
    this.#do("readCdiSpecs", [], undefined, () => this.cdiSpecs);

  async imageDirectory({ dockerRootDir }: NodeFacts): Promise<string> {
    return Promise.resolve(this.imageRoot ?? dockerRootDir);
  }

  fileSystemUsage: HostAccess["fileSystemUsage"] = (path) =>
    this.#do("fileSystemUsage", [path], undefined, () => ({
      ...{ device: "/dev/sda1", usedBytes: 5000, usedInodes: 50 },
      ...{ totalBytes: 9000, totalInodes: 90, freeInodes: 40 },
    }));

  #do<T>(
    verb: keyof HostAccess,
    args: readonly unknown[],
    signal: AbortSignal | undefined,
    work: () => T,
  ): Promise<T> {
    return this.journal.do("host", verb, args, work, signal);
  }
}
