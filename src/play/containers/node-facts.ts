/** Reads the facts about the node that pods need. */
import { constants } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { totalmem } from "node:os";
import type { NodeFacts } from "./cri-config.js";
import type { DnsConfig } from "./dns.js";
import { isLoopbackOnly, parseResolvConf } from "./dns.js";

export async function readNodeFacts(): Promise<NodeFacts> {
  const [dns, hostsFile, seLinux] = await Promise.all([readDns(), readOrEmpty("/etc/hosts"), hasSeLinux()]);
  return { memoryBytes: BigInt(totalmem()), dns, hostsFile, seLinux };
}

/**
 * The node's resolv.conf. If that only has the stub of systemd-resolved, the file with its upstream servers.
 */
async function readDns(): Promise<DnsConfig> {
  const own = parseResolvConf(await readOrEmpty("/etc/resolv.conf"));
  if (!isLoopbackOnly(own)) return own;
  const behind = parseResolvConf(await readOrEmpty("/run/systemd/resolve/resolv.conf"));
  return behind.servers.length === 0 ? own : behind;
}

async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}

async function hasSeLinux(): Promise<boolean> {
  try {
    await access("/sys/fs/selinux/enforce", constants.F_OK);
    return true;
  } catch {
    return false; // No such file: the kernel has no SELinux, or it is switched off.
  }
}
