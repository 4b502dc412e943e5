import type { PodRecord } from "../../src/shim/state/pod-records.js";

export const recordedId = "3f".repeat(32);

/** The record of a pod that RunPodSandbox is making. */
export function podRecord(changes: Partial<PodRecord> = {}): PodRecord {
  return {
    version: 1,
    sandboxId: recordedId,
    namespace: "default",
    name: "web-0",
    uid: "0a1b",
    attempt: 0,
    phase: "creating",
    runtimeHandler: "",
    namespaces: { network: 0, pid: 1, ipc: 0 },
    network: { plugin: "noop", state: "none", ips: [] },
    logDirectory: "/var/log/pods/x",
    cgroupParent: "",
    ...changes,
  };
}
