/** sysctls of a pod: only those of namespaces that the pod has for itself. */
import { NamespaceMode } from "../domain/cri.js";
import { invalidField } from "./field-errors.js";
import type { PodNamespaces } from "./namespaces.js";

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

/** The sysctls as they came. Refuses those that would change the node because the pod shares its namespace. */
export function podSysctls(
  sysctls: Readonly<Record<string, string>>,
  namespaces: PodNamespaces,
): Readonly<Record<string, string>> | undefined {
  const names = Object.keys(sysctls);
  for (const name of names) {
    const dotted = name.replaceAll("/", ".");
    if (namespaces.network === NamespaceMode.NODE && dotted.startsWith("net.")) {
      throw invalidField(`config.linux.sysctls[${name}]`, "not allowed with the host's network");
    }
    if (namespaces.ipc === NamespaceMode.NODE && (ipcNames.has(dotted) || dotted.startsWith("fs.mqueue."))) {
      throw invalidField(`config.linux.sysctls[${name}]`, "not allowed with the host's IPC");
    }
  }
  return names.length === 0 ? undefined : sysctls;
}
