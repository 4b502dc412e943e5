/** configMap, secret, downwardAPI and projected volumes → the files in them. Pure. */
import { ShimError } from "../../lib/errors.js";
import type { Volume } from "../manifests/pod-schema.js";
import type { ObjectData } from "../manifests/read-manifests.js";
import { objectData } from "./environment.js";
import { type PodFacts, podField, resourceField } from "./pod-fields.js";
import { standInToken } from "../manifests/stand-ins.js";

export interface VolumeFile {
  readonly content: Buffer;
  /** Permission bits. */
  readonly mode: number;
}

/** By the path in the volume, which never leaves it. */
export type VolumeFiles = ReadonlyMap<string, VolumeFile>;

const kubernetesDefaultMode = 0o644;

type Projected = NonNullable<Volume["projected"]>;
type Source = NonNullable<Projected["sources"]>[number];
type DownwardItems = NonNullable<Volume["downwardAPI"]>["items"];
type KeyPaths = NonNullable<Volume["configMap"]>["items"];

/** The files of a volume; of two with one path the last counts. `notFound` for what is missing. */
export function volumeFiles(volume: Volume, facts: PodFacts): VolumeFiles | undefined {
  const { configMap, secret, downwardAPI, projected } = volume;
  const whole = configMap ?? secret ?? downwardAPI ?? projected;
  if (whole === undefined) return undefined;
  const sources: readonly Source[] = [
    ...(configMap === undefined ? [] : [{ configMap }]),
    ...(secret === undefined ? [] : [{ secret: { ...secret, name: secret.secretName } }]),
    ...(downwardAPI === undefined ? [] : [{ downwardAPI }]),
    ...(projected?.sources ?? []),
  ];
  const defaultMode = whole.defaultMode ?? kubernetesDefaultMode;
  const files = new Map<string, VolumeFile>();
  for (const source of sources) {
    for (const [path, file] of filesOf(source, volume.name, defaultMode, facts)) files.set(path, file);
  }
  return files;
}

function filesOf(source: Source, volume: string, defaultMode: number, facts: PodFacts): VolumeFiles {
  const { objects } = facts.manifest;
  if (source.downwardAPI !== undefined)
    return downwardFiles(source.downwardAPI.items, volume, defaultMode, facts);
  if (source.serviceAccountToken !== undefined) {
    const { path, audience = "" } = source.serviceAccountToken;
    const content = Buffer.from(standInToken(facts.manifest, audience));
    return new Map([[path, { content, mode: defaultMode }]]);
  }
  const [kind, reference] =
    source.configMap === undefined
      ? (["Secret", source.secret] as const)
      : (["ConfigMap", source.configMap] as const);
  if (reference === undefined) return new Map();
  const data = objectData(kind, reference, objects);
  const optional = reference.optional ?? false;
  return keyFiles(data ?? {}, reference.items, defaultMode, (key) => {
    if (optional) return;
    const what = `${kind} "${reference.name}" has no key "${key}"`;
    throw new ShimError("notFound", `fill volume "${volume}": ${what}`);
  });
}

/** All keys, also when `items` is empty, or those of `items` under other names. */
function keyFiles(
  data: ObjectData,
  items: KeyPaths,
  defaultMode: number,
  onMissing: (key: string) => void,
): VolumeFiles {
  if (items === undefined || items.length === 0)
    return new Map(
      Object.entries(data).map(([key, content]) => [key, { content, mode: defaultMode }] as const),
    );
  const files = new Map<string, VolumeFile>();
  for (const { key, path, mode = defaultMode } of items) {
    const content = Object.hasOwn(data, key) ? data[key] : undefined;
    if (content === undefined) onMissing(key);
    else files.set(path, { content, mode });
  }
  return files;
}

function downwardFiles(
  items: DownwardItems,
  volume: string,
  defaultMode: number,
  facts: PodFacts,
): VolumeFiles {
  const files = new Map<string, VolumeFile>();
  for (const { path, fieldRef, resourceFieldRef, mode = defaultMode } of items ?? []) {
    if (fieldRef === undefined && resourceFieldRef === undefined)
      throw new ShimError("invalid", `fill volume "${volume}": "${path}" names no field`);
    const text =
      fieldRef === undefined
        ? resourceField(resourceFieldRef ?? { resource: "" }, facts)
        : podField(fieldRef.fieldPath, facts);
    files.set(path, { content: Buffer.from(text), mode });
  }
  return files;
}
