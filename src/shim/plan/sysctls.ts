/** sysctls of a pod: only those of namespaces that the pod has for itself. */
import { messageOf, type ShimError } from "../../lib/errors.js";
import { NamespaceMode } from "../../domain/cri.js";
import { invalidField } from "../../domain/field-errors.js";
import type { PodNamespaces } from "./namespaces.js";

export const sysctlsField = "config.linux.sysctls";

const ipcNames = new Set([
  "kernel.msgmax",
  "kernel.msgmnb",
  "kernel.msgmni",
  "kernel.sem",
  "kernel.shmall",
  "kernel.shmmax",
  "kernel.shmmni",
  "kernel.shm_rmid_forced",
]);

/** The sysctls as they came. Refuses those of no namespace, or of one that the pod shares with the node. */
export function podSysctls(
  sysctls: Readonly<Record<string, string>>,
  namespaces: PodNamespaces,
): Readonly<Record<string, string>> | undefined {
  const names = Object.keys(sysctls);
  for (const name of names) {
    const dotted = name.replaceAll("/", ".");
    const isOfNetwork = dotted.startsWith("net.");
    const isOfIpc = ipcNames.has(dotted) || dotted.startsWith("fs.mqueue.");
    const field = `${sysctlsField}[${name}]`;
    if (namespaces.network === NamespaceMode.NODE && isOfNetwork)
      throw invalidField(field, "not allowed with the host's network");
    if (namespaces.ipc === NamespaceMode.NODE && isOfIpc)
      throw invalidField(field, "not allowed with the host's IPC");
    // What the OCI runtime lets pass, too.
    if (!isOfNetwork && !isOfIpc && dotted !== "kernel.domainname")
      throw invalidField(field, "not allowed: no pod has it for itself");
  }
  return names.length === 0 ? undefined : sysctls;
}

/** What the OCI runtimes say when the kernel has no such sysctl, or does not take the value. */
const refusedByKernel = /(?:open|openat2|write) \S*\bproc(?:\/\.)?\/sys\/([^\s:]+): ([^:]+)/;

/** The error of a start that failed by a sysctl of the request; undefined for all others. */
export function sysctlError(error: unknown): ShimError | undefined {
  const [, path, reason] = refusedByKernel.exec(messageOf(error)) ?? [];
  if (path === undefined || reason === undefined) return undefined;
  return invalidField(`${sysctlsField}[${path.replaceAll("/", ".")}]`, reason);
}
