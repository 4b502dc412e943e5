/** What the shim remembers of one pod beyond Docker's labels and the checkpoint, and its file. */
import type { LinuxContainerResources } from "../domain/cri.js";
import {
  firstWrongField,
  formatRecordJson,
  isString,
  isTable,
  parseRecordJson,
  unknownKeys,
  type FieldCheck,
  type ParsedRecord,
  type Table,
} from "./record-json.js";

export interface PodRecord {
  readonly version: 1;
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly attempt: number;
  /**
   * creating: RunPodSandbox has not finished, so the sandbox is NOTREADY even while its container runs. ready: it has.
   * stopped: StopPodSandbox was asked for.
   */
  readonly phase: "creating" | "ready" | "stopped";
  readonly runtimeHandler: string;
  /** Modes as requested (numbers of the CRI's NamespaceMode): Docker cannot tell a PID mode POD from CONTAINER. */
  readonly namespaces: { readonly network: number; readonly pid: number; readonly ipc: number };
  readonly network: PodNetworkRecord;
  readonly logDirectory: string;
  readonly cgroupParent: string;
  /** SHA-256 of the RunPodSandbox request, so that a repeated one can be recognised. */
  readonly requestHash?: string;
  /**
   * What its resolv.conf is to hold. Missing where the engine's own file stays, and in records of earlier
   * releases.
   */
  readonly resolvConf?: string;
  /** What kubelets told of the pod's overhead and of the sum of its containers, in the CRI's words. */
  readonly resources?: {
    readonly overhead: LinuxContainerResources | null;
    readonly resources: LinuxContainerResources | null;
  };
}

export interface PodNetworkRecord {
  /** Name of the plugin that set the pod up, or of the one that took over its tear-down. */
  readonly plugin: string;
  /** settingUp: it may have done any part of its work. tornDown: nothing is left to be done. */
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

/** Readable JSON. */
export function formatPodRecord(record: PodRecord): string {
  return formatRecordJson(record);
}

/** Reads a file. Keys that this release does not know stay in the record. Never throws. */
export function parsePodRecord(bytes: Uint8Array): ParsedRecord<PodRecord> {
  const parsed = parseRecordJson(bytes);
  if (parsed.kind !== "record") return parsed;
  const wrong = wrongField(parsed.record);
  // The check above covers every field of the type.
  return wrong === undefined
    ? { kind: "record", record: parsed.record as unknown as PodRecord }
    : { kind: "corrupt", reason: `${wrong} is missing or malformed` };
}

/**
 * `next` with the keys of `previous` that this release does not know: a later release wrote them and will want them
 * again. Known optional keys that `next` lacks stay away.
 */
export function keepUnknownKeys(previous: PodRecord, next: PodRecord): PodRecord {
  return {
    ...unknownKeys(previous, recordKeys),
    ...next,
    namespaces: { ...unknownKeys(previous.namespaces, namespaceKeys), ...next.namespaces },
    network: { ...unknownKeys(previous.network, networkKeys), ...next.network },
  };
}

const namespaceChecks: Record<keyof PodRecord["namespaces"], FieldCheck> = {
  network: isCount,
  pid: isCount,
  ipc: isCount,
};

const networkChecks: Record<keyof PodNetworkRecord, FieldCheck> = {
  plugin: isString,
  state: oneOf(networkStates),
  ips: (value) => Array.isArray(value) && value.every(isString),
};

const recordChecks: Record<keyof PodRecord, FieldCheck> = {
  version: (value) => value === 1,
  sandboxId: isString,
  namespace: isString,
  name: isString,
  uid: isString,
  attempt: isCount,
  phase: oneOf(phases),
  runtimeHandler: isString,
  namespaces: isTable,
  network: isTable,
  logDirectory: isString,
  cgroupParent: isString,
  requestHash: (value) => value === undefined || isString(value),
  resolvConf: (value) => value === undefined || isString(value),
  resources: (value) => value === undefined || isTable(value),
};

const recordKeys = Object.keys(recordChecks);
const namespaceKeys = Object.keys(namespaceChecks);
const networkKeys = Object.keys(networkChecks);

/** The first field that is not as its type says. */
function wrongField(record: Table): string | undefined {
  return (
    firstWrongField(record, recordChecks, "") ??
    firstWrongField(record["namespaces"], namespaceChecks, "namespaces.") ??
    firstWrongField(record["network"], networkChecks, "network.")
  );
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function oneOf(words: readonly string[]): FieldCheck {
  return (value) => isString(value) && words.includes(value);
}
