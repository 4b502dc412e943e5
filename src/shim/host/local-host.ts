import { readFileSync } from "node:fs";
import { ShimError } from "../base/errors.js";
import type { Logger } from "../base/log.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { CdiSpecDocument, CgroupSettings, HostAccess } from "../ports/host.js";
import { readCdiSpecs } from "./cdi-specs.js";
import { applyCgroup } from "./cgroup-files.js";
import { linkLog, unlinkLog } from "./log-link.js";
import * as nodeFiles from "./node-files.js";
import { isCgroupOf } from "./proc-files.js";
import { killProcessTree } from "./process-tree.js";
import { rewriteInPlace } from "./resolv-conf-file.js";

/**
 * The engine runs on this host, and its files are ours to reach. Whether its processes are (this program may be in another
 * PID namespace) shows at each one of them.
 */
export class LocalHost implements HostAccess {
  readonly local = true;
  readonly statPath = nodeFiles.statPath;
  readonly readNodeFile = nodeFiles.readNodeFile;
  readonly fileSystemUsage = nodeFiles.fileSystemUsage;
  readonly unlinkLog = unlinkLog;

  constructor(
    private readonly facts: Pick<NodeFacts, "cgroupVersion">,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  async writeResolvConf(sandbox: Snapshot, content: string): Promise<void> {
    if (sandbox.resolvConfPath === "") {
      throw new ShimError("unavailable", "the engine names no resolv.conf for the sandbox", {
        sandboxId: sandbox.id,
      });
    }
    await rewriteInPlace(sandbox.resolvConfPath, content);
  }

  networkNamespace(sandbox: Snapshot): string | undefined {
    const { pid } = sandbox.state;
    return pid > 1 && isCgroupOf(sandbox.id, procCgroup(pid)) ? `/proc/${String(pid)}/ns/net` : undefined;
  }

  killProcessTree(containerId: string, pid: number, signal: AbortSignal): Promise<boolean> {
    return killProcessTree(containerId, pid, signal);
  }

  /** A log driver without files (journald, none) leaves nothing to link. */
  async linkLog(link: string, container: Snapshot): Promise<void> {
    if (container.logPath !== "") await linkLog(link, container.logPath);
  }

  async applyCgroup(container: Snapshot, settings: CgroupSettings): Promise<void> {
    const { id, state } = container;
    const { cgroupVersion } = this.facts;
    await applyCgroup({ containerId: id, pid: state.pid, cgroupVersion }, settings);
  }

  loadedAppArmorProfiles(): Promise<ReadonlySet<string> | undefined> {
    return nodeFiles.loadedAppArmorProfiles();
  }

  expandDevice(hostPath: string): Promise<readonly string[]> {
    return nodeFiles.expandDevice(hostPath);
  }

  readCdiSpecs(directories: readonly string[]): Promise<readonly CdiSpecDocument[]> {
    return readCdiSpecs(directories, this.log);
  }
}

/** Files in /proc are in memory: no disk is waited for. */
function procCgroup(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${String(pid)}/cgroup`, "utf8");
  } catch {
    return undefined;
  }
}
