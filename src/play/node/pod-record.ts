/** What play keeps of a pod on disk: the manifest with its objects. Secrets are in it: for root alone. */
import { ShimError, messageOf } from "../../lib/errors.js";
import { dnsLabel, dnsSubdomain, podUid } from "../manifests/names.js";
import { readPod } from "../manifests/pod-schema.js";
import type { Manifest, ObjectData, PodKey, PodObjects } from "../manifests/read-manifests.js";
import {
  type Reader,
  type TypeOf,
  integer,
  list,
  mandatory,
  mapOf,
  object,
  parseStored,
  string,
} from "../manifests/schema.js";
import type { HostFiles } from "./files.js";
import { type Directories, endPath, directoriesOfPod, recordPath } from "../pod-config/pod-paths.js";

const formatVersion = 1;
/** Objects of Kubernetes have at most 1 MiB each. */
const limitBytes = 64 * 1024 ** 2;

export interface PodRecordDeps {
  readonly files: Pick<HostFiles, "replaceFile" | "readFile">;
  readonly directories: Directories;
}

const base64: Reader<Buffer> = (value, path, problems) => {
  const text = string()(value, path, problems);
  return text === undefined ? undefined : Buffer.from(text, "base64");
};
const data = mapOf(base64);

const record = object({
  version: mandatory(integer(formatVersion, formatVersion)),
  source: mandatory(string()),
  server: string(),
  hash: mandatory(string()),
  key: mandatory(
    object({
      namespace: mandatory(string(dnsLabel)),
      name: mandatory(string(dnsSubdomain)),
      uid: mandatory(string(podUid)),
    }),
  ),
  jobMark: string(),
  owner: object({ kind: mandatory(string()), name: mandatory(string()) }),
  pod: mandatory(readPod),
  configMaps: mandatory(mapOf(data)),
  binaryKeys: mapOf(list(string())),
  secrets: mandatory(mapOf(object({ type: mandatory(string()), data: mandatory(data) }))),
});

/** Replaces what was kept before. */
export async function writePodRecord(manifest: Manifest, deps: PodRecordDeps): Promise<void> {
  const { source, hash, key, owner, jobMark, pod, objects } = manifest;
  const text = JSON.stringify({
    version: formatVersion,
    source,
    server: directoriesOfPod(deps.directories, key).sharedBy,
    hash,
    key,
    owner,
    jobMark,
    pod,
    ...encodeObjects(objects),
  });
  if (Buffer.byteLength(text) > limitBytes)
    throw new ShimError("exhausted", `keep pod "${key.namespace}/${key.name}": its objects are too large`);
  await deps.files.replaceFile(recordPath(deps.directories, key), text);
}

/** Undefined when play keeps no pod of this uid. */
export async function readPodRecord(uid: string, deps: PodRecordDeps): Promise<Manifest | undefined> {
  const path = recordPath(deps.directories, { uid });
  const text = await deps.files.readFile(path, limitBytes);
  return text === undefined ? undefined : parseRecord(text, path, uid).manifest;
}

/** Whether files without sandboxes are of a pod of this CRI server. A damaged record does not say it. */
export async function isOfThisServer(uid: string, deps: PodRecordDeps): Promise<boolean> {
  const { sharedBy } = directoriesOfPod(deps.directories, { uid });
  if (sharedBy === undefined) return true;
  const text = await deps.files.readFile(recordPath(deps.directories, { uid }), limitBytes);
  if (text === undefined) return true;
  try {
    return (JSON.parse(text) as { readonly server?: unknown } | null)?.server === sharedBy;
  } catch {
    return false;
  }
}

export interface ListedRecord extends Manifest {
  /** See `isOfThisServer`. */
  readonly isOfThisServer: boolean;
}

/** All pods that play keeps, also those whose containers are gone. A record that cannot be read is reported. */
export async function listPodRecords({
  report,
  ...deps
}: PodRecordDeps & {
  readonly files: Pick<HostFiles, "list">;
  readonly report: (line: string) => void;
}): Promise<readonly ListedRecord[]> {
  const records: ListedRecord[] = [];
  const { sharedBy } = deps.directories;
  // What is no uid is beside the directories of pods.
  const uids = (await deps.files.list(deps.directories.state)).filter((name) => podUid(name) === undefined);
  for (const uid of uids) {
    try {
      const path = recordPath(deps.directories, { uid });
      const text = await deps.files.readFile(path, limitBytes);
      if (text === undefined) continue;
      const { manifest, server } = parseRecord(text, path, uid);
      records.push({ ...manifest, isOfThisServer: sharedBy === undefined || server === sharedBy });
    } catch (error) {
      report(messageOf(error));
    }
  }
  return records;
}

function parseRecord(
  text: string,
  path: string,
  uid: string,
): { readonly manifest: Manifest; readonly server: string | undefined } {
  let read: TypeOf<typeof record>;
  try {
    read = parseStored(text, record);
    if (read.key.uid !== uid) throw new ShimError("invalid", "key.uid is that of another pod");
  } catch (error) {
    const remedy = "play the manifest again, or remove the pod by the program that wrote it";
    const what = `${messageOf(error)}: damaged, or of another version`;
    throw new ShimError("invalid", `read "${path}": ${what}; ${remedy}`);
  }
  const { source, server, hash, key, owner, jobMark, pod, configMaps, binaryKeys, secrets } = read;
  const objects = {
    configMaps: new Map(Object.entries(configMaps)),
    secrets: new Map(Object.entries(secrets)),
    ...(binaryKeys === undefined ? {} : { binaryKeys: new Map(Object.entries(binaryKeys)) }),
  };
  const manifest = {
    ...{ source, hash, key, pod, objects },
    ...(owner === undefined ? {} : { owner }),
    ...(jobMark === undefined ? {} : { jobMark }),
  };
  return { manifest, server };
}

function encodeObjects({ configMaps, binaryKeys, secrets }: PodObjects): object {
  const encode = (values: ObjectData): object =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value.toString("base64")]));
  return {
    configMaps: Object.fromEntries([...configMaps].map(([name, values]) => [name, encode(values)])),
    binaryKeys: binaryKeys && Object.fromEntries(binaryKeys),
    secrets: Object.fromEntries(
      [...secrets].map(([name, secret]) => [name, { type: secret.type, data: encode(secret.data) }]),
    ),
  };
}

/** How play has ended a pod: its containers do not show it, and a later play would start them again. */
export interface PodEnd {
  readonly phase: "Failed";
  /** Such as `Evicted`. */
  readonly reason: string;
  readonly message: string;
}

const endLimitBytes = 64 * 1024;
const readEnd = object({
  sandbox: mandatory(string()),
  reason: mandatory(string()),
  message: mandatory(string()),
});

export async function writePodEnd(
  key: Pick<PodKey, "uid">,
  sandbox: string,
  { reason, message }: Pick<PodEnd, "reason" | "message">,
  { files, directories }: PodRecordDeps,
): Promise<void> {
  await files.replaceFile(endPath(directories, key), JSON.stringify({ sandbox, reason, message }));
}

/** Undefined when play has not ended the pod in its newest sandbox, and for a damaged file. */
export async function readPodEnd(
  key: Pick<PodKey, "uid">,
  sandbox: string,
  { files, directories }: PodRecordDeps,
): Promise<PodEnd | undefined> {
  const text = await files.readFile(endPath(directories, key), endLimitBytes);
  if (text === undefined) return undefined;
  try {
    const end: TypeOf<typeof readEnd> | undefined = readEnd(JSON.parse(text), "", []);
    if (end?.sandbox !== sandbox) return undefined;
    return { phase: "Failed", reason: end.reason, message: end.message };
  } catch {
    return undefined;
  }
}
