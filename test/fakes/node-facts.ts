import type { NodeFacts } from "../../src/domain/node-facts.js";

/** An Engine 20.10 on Debian with cgroup v1. */
export function nodeFacts(changes: Partial<NodeFacts> = {}): NodeFacts {
  return {
    engineVersion: "20.10.24",
    apiMinor: 41,
    engineApiVersion: "1.41",
    operatingSystem: "Debian GNU/Linux 12 (bookworm)",
    kernelVersion: "6.1.0",
    architecture: "amd64",
    cgroupDriver: "cgroupfs",
    cgroupVersion: 1,
    dockerRootDir: "/var/lib/docker",
    imageStore: "graph",
    storageDriver: "overlay2",
    loggingDriver: "json-file",
    runtimes: [{ name: "runc", kind: "runc", recursiveReadOnly: false }],
    defaultRuntime: "runc",
    security: { apparmor: false, seccomp: true, selinux: false, usernsRemap: false, rootless: false },
    liveRestore: false,
    cdi: false,
    cdiSpecDirs: [],
    warnings: [],
    firewallBackend: "",
    totalMemory: 8 * 1024 ** 3,
    cpus: 4,
    hostName: "node",
    engineId: "FAKE",
    ...changes,
  };
}
