/** The objects that a pod refers to. */
import type { Pod, PodSpec } from "./pod-schema.js";
import type { ObjectData, PodObjects, SecretData } from "./manifest.js";
import { noApiServer } from "./readers.js";
import type { Problem } from "./schema.js";
import { rootCertificatesData } from "./stand-ins.js";

export interface Reference {
  readonly kind: "ConfigMap" | "Secret";
  readonly name: string;
  /** Undefined: the whole object. */
  readonly key?: string;
  readonly isOptional: boolean;
  /** Field of the pod, below its spec. */
  readonly path: string;
}

/** All ConfigMaps and Secrets of the pod, except those of imagePullSecrets. */
export function referencesOf(spec: PodSpec): readonly (Reference & { readonly isVariable: boolean })[] {
  return [
    ...variableReferences(spec).map((reference) => ({ ...reference, isVariable: true })),
    ...volumeReferences(spec).map((reference) => ({ ...reference, isVariable: false })),
  ];
}

function variableReferences(spec: PodSpec): readonly Reference[] {
  const found: Reference[] = [];
  for (const field of ["initContainers", "containers", "ephemeralContainers"] as const)
    spec[field]?.forEach((container, index) => {
      const at = `${field}[${index}]`;
      container.envFrom?.forEach(({ configMapRef, secretRef }, source) => {
        const path = `${at}.envFrom[${source}]`;
        found.push(...whole("ConfigMap", configMapRef, `${path}.configMapRef`));
        found.push(...whole("Secret", secretRef, `${path}.secretRef`));
      });
      container.env?.forEach(({ valueFrom }, variable) => {
        const path = `${at}.env[${variable}].valueFrom`;
        found.push(...whole("ConfigMap", valueFrom?.configMapKeyRef, `${path}.configMapKeyRef`));
        found.push(...whole("Secret", valueFrom?.secretKeyRef, `${path}.secretKeyRef`));
      });
    });
  return found;
}

function volumeReferences(spec: PodSpec): readonly Reference[] {
  const found: Reference[] = [];
  spec.volumes?.forEach(({ configMap, secret, projected }, index) => {
    const at = `volumes[${index}]`;
    found.push(...files("ConfigMap", configMap, `${at}.configMap`));
    const named = secret === undefined ? undefined : { ...secret, name: secret.secretName };
    found.push(...files("Secret", named, `${at}.secret`));
    projected?.sources?.forEach((source, number) => {
      const path = `${at}.projected.sources[${number}]`;
      found.push(...files("ConfigMap", source.configMap, `${path}.configMap`));
      found.push(...files("Secret", source.secret, `${path}.secret`));
    });
  });
  return found;
}

interface WholeReference {
  readonly name: string;
  readonly key?: string;
  readonly optional?: boolean;
}

function whole(
  kind: Reference["kind"],
  from: WholeReference | undefined,
  path: string,
): readonly Reference[] {
  if (from === undefined) return [];
  const { name, key, optional = false } = from;
  return [{ kind, name, isOptional: optional, path, ...(key === undefined ? {} : { key }) }];
}

function files(
  kind: Reference["kind"],
  from: (WholeReference & { readonly items?: readonly { readonly key: string }[] }) | undefined,
  path: string,
): readonly Reference[] {
  if (from === undefined) return [];
  const { name, optional } = from;
  const reference = optional === undefined ? { name } : { name, optional };
  const items = from.items ?? [];
  return [
    ...whole(kind, reference, path),
    ...items.flatMap(({ key }, index) => whole(kind, { ...reference, key }, `${path}.items[${index}]`)),
  ];
}

/** The ConfigMaps and Secrets of one namespace, by name. */
export interface NamespaceObjects extends Required<PodObjects> {
  readonly claims: ReadonlySet<string>;
}

/** The objects that the pod uses. Missing objects and keys are problems, unless they are optional. */
export function resolveObjects(pod: Pod, objects: NamespaceObjects, problems: Problem[]): PodObjects {
  const { spec } = pod;
  const configMaps = new Map<string, ObjectData>();
  const secrets = new Map<string, SecretData>();
  const binaryKeys = new Map<string, readonly string[]>();
  const missing = new Set<string>();
  for (const { kind, name, key, isOptional, isVariable, path } of referencesOf(spec)) {
    const configMap = kind === "ConfigMap" ? objects.configMaps.get(name) : undefined;
    const secret = kind === "Secret" ? objects.secrets.get(name) : undefined;
    const binary = kind === "ConfigMap" ? objects.binaryKeys.get(name) : undefined;
    if (configMap !== undefined) configMaps.set(name, configMap);
    if (binary !== undefined) binaryKeys.set(name, binary);
    if (secret !== undefined) secrets.set(name, secret);
    const data = configMap ?? secret?.data;
    const named = `${kind} ${JSON.stringify(name)}`;
    if (configMap === rootCertificatesData && key === undefined)
      problems.push({ path: `spec.${path}`, reason: noApiServer, kind: "passedOver" });
    if (isOptional) continue;
    if (data === undefined) {
      const reason = `${named} is in none of the files`;
      if (!missing.has(named)) problems.push({ path: `spec.${path}`, reason, kind: "malformed" });
      missing.add(named);
    } else if (key !== undefined && !Object.hasOwn(data, key)) {
      const reason = `${named} has no key ${JSON.stringify(key)}`;
      problems.push({ path: `spec.${path}`, reason, kind: "malformed" });
    } else if (key !== undefined && isVariable && binary?.includes(key) === true) {
      const reason = `${named} has ${JSON.stringify(key)} in binaryData, which no variable can be: mount it`;
      problems.push({ path: `spec.${path}`, reason, kind: "malformed" });
    }
  }
  spec.imagePullSecrets?.forEach(({ name }, index) => {
    const secret = objects.secrets.get(name);
    if (secret !== undefined) secrets.set(name, secret);
    const reason = `Secret ${JSON.stringify(name)} is in none of the files: images are pulled without it`;
    const path = `spec.imagePullSecrets[${index}]`;
    if (secret === undefined) problems.push({ path, reason, kind: "passedOver" });
  });
  spec.volumes?.forEach(({ persistentVolumeClaim: claim }, index) => {
    if (claim === undefined || objects.claims.has(claim.claimName)) return;
    const reason = `PersistentVolumeClaim ${JSON.stringify(claim.claimName)} is in none of the files`;
    const path = `spec.volumes[${index}].persistentVolumeClaim`;
    problems.push({ path, reason, kind: "malformed" });
  });
  return { configMaps, secrets, ...(binaryKeys.size === 0 ? {} : { binaryKeys }) };
}
