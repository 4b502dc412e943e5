/** What this program remembers of each pod beyond Docker's labels and the checkpoint, and the files that keep it. */
import type { LinuxContainerResources } from "../../domain/cri.js";
import type { Logger } from "../../lib/log.js";
import { RecordDirectory, type RecordDirectoryOptions } from "../../lib/files/record-directory.js";
import {
  isCount,
  isString,
  isTable,
  listOf,
  oneOf,
  optional,
  type RecordType,
  type SchemaOf,
} from "../../lib/files/record-format.js";

export interface PodRecord {
  readonly version: 1;
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly attempt: number;
  /**
   * creating: RunPodSandbox has not finished; the sandbox is NOTREADY even while its container runs. ready:
   * it has finished. stopped: StopPodSandbox was called.
   */
  readonly phase: "creating" | "ready" | "stopped";
  readonly runtimeHandler: string;
  /**
   * Modes as requested, as numbers of the CRI's NamespaceMode: Docker cannot tell the PID modes POD and
   * CONTAINER apart.
   */
  readonly namespaces: { readonly network: number; readonly pid: number; readonly ipc: number };
  readonly network: PodNetworkRecord;
  readonly logDirectory: string;
  readonly cgroupParent: string;
  /** SHA-256 of the RunPodSandbox request, to recognise a repeated one. */
  readonly requestHash?: string;
  /** Content of its resolv.conf. Missing where the engine's own file stays, and in records of earlier releases. */
  readonly resolvConf?: string;
  /** The pod's overhead and the sum of its containers' resources, as the kubelet sent them. */
  readonly resources?: {
    readonly overhead: LinuxContainerResources | null;
    readonly resources: LinuxContainerResources | null;
  };
}

export interface PodNetworkRecord {
  /** Name of the plugin that set up the pod's network; empty when it is not known. */
  readonly plugin: string;
  /** settingUp: the plugin may have done any part of the set-up. tornDown: nothing is left to tear down. */
  readonly state: "none" | "settingUp" | "ready" | "tornDown";
  /** The pod's addresses, the primary one first. */
  readonly ips: readonly string[];
}

const phases = ["creating", "ready", "stopped"] as const satisfies readonly PodRecord["phase"][];
const networkStates = [
  "none",
  "settingUp",
  "ready",
  "tornDown",
] as const satisfies readonly PodNetworkRecord["state"][];

export const podRecordType: RecordType<PodRecord> = {
  kind: "pod",
  subject: "sandbox",
  idField: "sandboxId",
  idOf: ({ sandboxId }) => sandboxId,
  schema: {
    version: (value) => value === 1,
    sandboxId: isString,
    namespace: isString,
    name: isString,
    uid: isString,
    attempt: isCount,
    phase: oneOf(phases),
    runtimeHandler: isString,
    namespaces: { network: isCount, pid: isCount, ipc: isCount } satisfies SchemaOf<PodRecord["namespaces"]>,
    network: {
      plugin: isString,
      state: oneOf(networkStates),
      ips: listOf(isString),
    } satisfies SchemaOf<PodNetworkRecord>,
    logDirectory: isString,
    cgroupParent: isString,
    requestHash: optional(isString),
    resolvConf: optional(isString),
    resources: optional(isTable),
  } satisfies SchemaOf<PodRecord>,
  // The schema covers every field of the type.
  fromFile: (object) => object as unknown as PodRecord,
};

/** One record per pod, by the id of its sandbox. */
export class PodRecords extends RecordDirectory<PodRecord> {
  /** The records in `directory`, which is created when missing. Throws only when it cannot be created or listed. */
  static async open(directory: string, log: Logger, options?: RecordDirectoryOptions): Promise<PodRecords> {
    const records = new PodRecords(podRecordType, directory, log, options);
    await records.load();
    return records;
  }
}
