/** `pod.json` in the pod's directory: what play was told to run, for later runs without the user's files. */
import { posix } from "node:path";
import type { PlayFiles } from "../containers/files.js";
import { type Directories, podDirectory } from "../containers/pod-files.js";
import { readPod } from "../manifests/pod-schema.js";
import type { Manifest, ObjectData, PodKey, SecretData } from "../manifests/read-manifests.js";
import { isObject } from "../manifests/schema.js";

const version = 1;
/** Objects of Kubernetes have at most 1 MiB each. */
const longestBytes = 64 * 1024 * 1024;

function savedPath(directories: Directories, key: PodKey): string {
  return posix.join(podDirectory(directories, key), "pod.json");
}

export async function savePod(
  files: Pick<PlayFiles, "writeFile">,
  directories: Directories,
  { objects, ...rest }: Manifest,
): Promise<void> {
  const encode = (data: ObjectData): Readonly<Record<string, string>> =>
    Object.fromEntries(Object.entries(data).map(([key, value]) => [key, value.toString("base64")]));
  const configMaps = [...objects.configMaps].map(([name, data]) => [name, encode(data)]);
  const secrets = [...objects.secrets].map(([name, { type, data }]) => [name, { type, data: encode(data) }]);
  const text = JSON.stringify({ version, ...rest, configMaps, secrets });
  await files.writeFile(savedPath(directories, rest.key), `${text}\n`, 0o600);
}

/** Undefined when there is none, or when it was damaged or written by a newer version. */
export async function readSavedPod(
  files: Pick<PlayFiles, "readTail">,
  directories: Directories,
  key: PodKey,
): Promise<Manifest | undefined> {
  const text = await files.readTail(savedPath(directories, key), longestBytes);
  if (text === "") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || value["version"] !== version) return undefined;
    const pod = readPod(value["pod"], "pod", []);
    const { source, hash, owner, configMaps, secrets } = value as unknown as Saved;
    if (pod === undefined) return undefined;
    const objects = {
      configMaps: new Map(configMaps.map(([name, data]) => [name, decode(data)])),
      secrets: new Map(
        secrets.map(([name, { type, data }]): [string, SecretData] => [name, { type, data: decode(data) }]),
      ),
    };
    return { source, key, pod, hash, objects, ...(owner === undefined ? {} : { owner }) };
  } catch {
    // Damaged by a crash: the pod is what the CRI shows.
    return undefined;
  }
}

type Encoded = Readonly<Record<string, string>>;

interface Saved extends Pick<Manifest, "source" | "hash" | "owner"> {
  readonly configMaps: readonly (readonly [string, Encoded])[];
  readonly secrets: readonly (readonly [string, { readonly type: string; readonly data: Encoded }])[];
}

function decode(data: Encoded): ObjectData {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64")]));
}
