/** What the shim remembers of one pod beyond Docker's labels and the checkpoint, and its file. */

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
}

export interface PodNetworkRecord {
  /** Name of the plugin that set the pod up, and must tear it down. */
  readonly plugin: string;
  /** settingUp: it may have done any part of its work. tornDown: nothing is left to be done. */
  readonly state: "none" | "settingUp" | "ready" | "tornDown";
  /** The pod's addresses, the primary one first. */
  readonly ips: readonly string[];
  /** Path of the network namespace at set-up. */
  readonly netns?: string;
}

export type ParsedRecord =
  | { readonly kind: "record"; readonly record: PodRecord }
  /** A later release wrote it. */
  | { readonly kind: "newer"; readonly version: number }
  | { readonly kind: "corrupt"; readonly reason: string };

const phases = ["creating", "ready", "stopped"] as const satisfies readonly PodRecord["phase"][];
const networkStates = [
  "none",
  "settingUp",
  "ready",
  "tornDown",
] as const satisfies readonly PodNetworkRecord["state"][];

/** Readable JSON. */
export function formatPodRecord(record: PodRecord): string {
  return `${JSON.stringify(record, undefined, 2)}\n`;
}

/** Reads a file. Keys that this release does not know stay in the record. Never throws. */
export function parsePodRecord(bytes: Uint8Array): ParsedRecord {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    return { kind: "corrupt", reason: error instanceof SyntaxError ? "not JSON" : "not UTF-8" };
  }
  if (!isObject(value)) return { kind: "corrupt", reason: "not an object" };
  const version = value["version"];
  if (typeof version === "number" && Number.isInteger(version) && version > 1)
    return { kind: "newer", version };
  const wrong = wrongField(value);
  // The check above covers every field of the type.
  return wrong === undefined
    ? { kind: "record", record: value as unknown as PodRecord }
    : { kind: "corrupt", reason: `${wrong} is missing or malformed` };
}

/**
 * `next` with the keys of `previous` that this release does not know: a later release wrote them and will want them
 * again. Known optional keys that `next` lacks stay away.
 */
export function keepUnknownKeys(previous: PodRecord | undefined, next: PodRecord): PodRecord {
  if (previous === undefined) return next;
  return {
    ...unknownKeys(previous, recordKeys),
    ...next,
    namespaces: { ...unknownKeys(previous.namespaces, namespaceKeys), ...next.namespaces },
    network: { ...unknownKeys(previous.network, networkKeys), ...next.network },
  };
}

type Check = (value: unknown) => boolean;

const namespaceChecks: Record<keyof PodRecord["namespaces"], Check> = {
  network: isCount,
  pid: isCount,
  ipc: isCount,
};

const networkChecks: Record<keyof PodNetworkRecord, Check> = {
  plugin: isString,
  state: oneOf(networkStates),
  ips: (value) => Array.isArray(value) && value.every(isString),
  netns: (value) => value === undefined || isString(value),
};

const recordChecks: Record<keyof PodRecord, Check> = {
  version: (value) => value === 1,
  sandboxId: isString,
  namespace: isString,
  name: isString,
  uid: isString,
  attempt: isCount,
  phase: oneOf(phases),
  runtimeHandler: isString,
  namespaces: isObject,
  network: isObject,
  logDirectory: isString,
  cgroupParent: isString,
  requestHash: (value) => value === undefined || isString(value),
};

const recordKeys = Object.keys(recordChecks);
const namespaceKeys = Object.keys(namespaceChecks);
const networkKeys = Object.keys(networkChecks);

/** The first field that is not as its type says. */
function wrongField(record: Readonly<Record<string, unknown>>): string | undefined {
  return (
    firstWrong(record, recordChecks, "") ??
    firstWrong(record["namespaces"], namespaceChecks, "namespaces.") ??
    firstWrong(record["network"], networkChecks, "network.")
  );
}

function firstWrong(
  object: unknown,
  checks: Readonly<Record<string, Check>>,
  prefix: string,
): string | undefined {
  if (!isObject(object)) return prefix;
  const wrong = Object.entries(checks).find(([key, check]) => !check(object[key]));
  return wrong === undefined ? undefined : prefix + wrong[0];
}

function unknownKeys(object: object, known: readonly string[]): object {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !known.includes(key)));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function oneOf(words: readonly string[]): Check {
  return (value) => isString(value) && words.includes(value);
}
