import { ShimError } from "../../src/shim/base/errors.js";
import type { Snapshot } from "../../src/shim/domain/snapshot.js";
import type { CdiSpecDocument, CgroupSettings, HostAccess } from "../../src/shim/ports/host.js";
import { Journal } from "./journal.js";

/** A host that notes what is done to it, as `host.<verb>` in the journal. */
export class FakeHost implements HostAccess {
  local = true;
  /** Content by path. */
  readonly nodeFiles = new Map<string, string>();
  readonly paths = new Map<string, "file" | "directory" | "other">();
  /** Log path → container id. */
  readonly links = new Map<string, string>();
  /** resolv.conf by sandbox id. */
  readonly resolvConfs = new Map<string, string>();
  /** Cgroup settings by container id. */
  readonly cgroups = new Map<string, CgroupSettings>();
  appArmorProfiles: ReadonlySet<string> | undefined = new Set<string>();
  /** Kills the process; false when it is out of reach. */
  onKill: (pid: number) => boolean = () => true;

  constructor(private readonly journal = new Journal()) {}

  async writeResolvConf(sandbox: Snapshot, content: string, signal: AbortSignal): Promise<void> {
    await this.#do("writeResolvConf", [sandbox.id, content], signal, () => {
      this.resolvConfs.set(sandbox.id, content);
    });
  }

  networkNamespace({ state }: Snapshot): string | undefined {
    return this.local && state.running ? `/proc/${String(state.pid)}/ns/net` : undefined;
  }

  async killProcessTree(containerId: string, pid: number, signal: AbortSignal): Promise<boolean> {
    return this.#do("killProcessTree", [containerId, pid], signal, () => this.local && this.onKill(pid));
  }

  async linkLog(link: string, container: Snapshot, signal: AbortSignal): Promise<void> {
    await this.#do("linkLog", [link, container.id], signal, () => {
      this.links.set(link, container.id);
    });
  }

  async unlinkLog(link: string): Promise<void> {
    await this.#do("unlinkLog", [link], undefined, () => {
      this.links.delete(link);
    });
  }

  async applyCgroup(container: Snapshot, settings: CgroupSettings, signal: AbortSignal): Promise<void> {
    await this.#do("applyCgroup", [container.id, settings], signal, () => {
      if (!this.local) throw new ShimError("unsupported", "the cgroup is out of reach");
      this.cgroups.set(container.id, settings);
    });
  }

  async statPath(path: string): Promise<"file" | "directory" | "other" | undefined> {
    return this.#do("statPath", [path], undefined, () => this.paths.get(path));
  }

  async readNodeFile(path: string, limitBytes: number): Promise<string> {
    return this.#do("readNodeFile", [path, limitBytes], undefined, () => {
      const content = this.nodeFiles.get(path);
      if (content === undefined) throw new ShimError("notFound", `read "${path}": no such file`);
      return content;
    });
  }

  async loadedAppArmorProfiles(): Promise<ReadonlySet<string> | undefined> {
    return this.#do("loadedAppArmorProfiles", [], undefined, () => this.appArmorProfiles);
  }

  async expandDevice(hostPath: string): Promise<readonly string[]> {
    return this.#do("expandDevice", [hostPath], undefined, () => [hostPath]);
  }

  async readCdiSpecs(): Promise<readonly CdiSpecDocument[]> {
    return this.#do("readCdiSpecs", [], undefined, () => []);
  }

  async fileSystemUsage(path: string): Promise<{ readonly usedBytes: number; readonly usedInodes: number }> {
    return this.#do("fileSystemUsage", [path], undefined, () => ({ usedBytes: 5000, usedInodes: 50 }));
  }

  async #do<T>(
    verb: keyof HostAccess,
    args: readonly unknown[],
    signal: AbortSignal | undefined,
    work: () => T,
  ): Promise<T> {
    await Promise.resolve();
    if (signal?.aborted === true) throw ShimError.from(signal.reason);
    const step = this.journal.enter("host", verb, args);
    const result = work();
    this.journal.leave(step);
    return result;
  }
}
