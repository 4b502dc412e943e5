import { ShimError } from "../base/errors.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { CgroupSettings, HostAccess } from "../ports/host.js";
import { readCdiSpecs } from "./cdi-specs.js";
import { applyCgroup } from "./cgroup-files.js";
import { linkLog, unlinkLog } from "./log-link.js";
import * as nodeFiles from "./node-files.js";
import { killProcessTree } from "./process-tree.js";
import { rewriteInPlace } from "./resolv-conf-file.js";

/** The engine runs on this host and shares our files, processes and cgroups. */
export class LocalHost implements HostAccess {
  readonly local = true;
  readonly statPath = nodeFiles.statPath;
  readonly readNodeFile = nodeFiles.readNodeFile;
  readonly loadedAppArmorProfiles = nodeFiles.loadedAppArmorProfiles;
  readonly expandDevice = nodeFiles.expandDevice;
  readonly fileSystemUsage = nodeFiles.fileSystemUsage;
  readonly killProcessTree = killProcessTree;
  readonly unlinkLog = unlinkLog;
  readonly readCdiSpecs = readCdiSpecs;

  constructor(private readonly facts: NodeFacts) {}

  async writeResolvConf(sandbox: Snapshot, content: string): Promise<void> {
    if (sandbox.resolvConfPath === "") {
      throw new ShimError("unavailable", "the engine names no resolv.conf for the sandbox", { sandboxId: sandbox.id });
    }
    await rewriteInPlace(sandbox.resolvConfPath, content);
  }

  networkNamespace(sandbox: Snapshot): string | undefined {
    return sandbox.state.pid > 0 ? `/proc/${String(sandbox.state.pid)}/ns/net` : undefined;
  }

  /** A log driver without files (journald, none) leaves nothing to link. */
  async linkLog(link: string, container: Snapshot): Promise<void> {
    if (container.logPath !== "") await linkLog(link, container.logPath);
  }

  async applyCgroup(container: Snapshot, settings: CgroupSettings): Promise<void> {
    await applyCgroup(container.id, container.state.pid, settings, this.facts.cgroupVersion);
  }
}
