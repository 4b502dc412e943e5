/** The ConfigMaps, Secrets, claims and service accounts of the files, by namespace. */
import { parseQuantity } from "../../domain/quantity.js";
import { type Collected, type ItemPlace, originOf } from "./collect.js";
import type { ClaimSpec } from "./object-schema.js";
import type { Pod } from "./pod-schema.js";
import { type ObjectData, type Owner, type SecretData, serviceAccountOf } from "./manifest.js";
import type { NamespaceObjects } from "./references.js";
import { rootCertificates, rootCertificatesData } from "./stand-ins.js";
import type { Claim } from "./workloads.js";

export interface ObjectIndex {
  /** The claims of the files, and those that stand for volumes of storage systems. */
  readonly claims: readonly Claim[];
  of(namespace: string, moreClaims?: ReadonlySet<string>): NamespaceObjects;
  /** The pod with the imagePullSecrets of its service account, when it has none of its own. */
  withAccount(pod: Pod): Pod;
}

export function indexObjects(items: Collected): ObjectIndex {
  const configMaps = new Map<string, Map<string, ObjectData>>();
  const binaryKeys = new Map<string, Map<string, readonly string[]>>();
  const secrets = new Map<string, Map<string, SecretData>>();
  for (const { namespace, name, value } of items.ConfigMap) {
    put(configMaps, namespace, name, { ...value.data, ...value.binaryData });
    if (value.binaryData !== undefined) put(binaryKeys, namespace, name, Object.keys(value.binaryData));
  }
  for (const { namespace, name, value } of items.Secret) {
    // stringData wins, as in the API server.
    put(secrets, namespace, name, {
      type: value.type ?? "Opaque",
      data: { ...value.data, ...value.stringData },
    });
  }
  const claims = [
    ...items.PersistentVolumeClaim.map((item) => makeClaim(item, item.value.spec)),
    ...local(items),
  ];
  const accounts = new Map(
    items.ServiceAccount.map((item) => [`${item.namespace}/${item.name}`, item.value]),
  );
  return {
    claims,
    of: (namespace, more = new Set()) => {
      const own = claims.filter((claim) => claim.namespace === namespace).map(({ name }) => name);
      return {
        configMaps: new Map([[rootCertificates, rootCertificatesData], ...(configMaps.get(namespace) ?? [])]),
        binaryKeys: binaryKeys.get(namespace) ?? new Map<string, readonly string[]>(),
        secrets: secrets.get(namespace) ?? new Map<string, SecretData>(),
        claims: new Set([...own, ...more]),
      };
    },
    withAccount: (pod) => {
      const { spec, metadata } = pod;
      const account = `${metadata.namespace ?? "default"}/${serviceAccountOf(pod)}`;
      const found = accounts.get(account)?.imagePullSecrets;
      if (found === undefined || (spec.imagePullSecrets ?? []).length > 0) return pod;
      return { ...pod, spec: { ...spec, imagePullSecrets: found } };
    },
  };
}

/** One claim for each storage, however many pods use it. */
function local(items: Collected): readonly Claim[] {
  const found = new Map<string, Claim>();
  for (const item of Object.values(items).flat())
    for (const name of item.localClaims) {
      const modes = { isReadOnly: false, isForOnePod: false };
      const claim = { ...originOf({ ...item, name }), requestBytes: undefined, ...modes };
      found.set(`${item.namespace}/${name}`, claim);
    }
  return [...found.values()];
}

function put<T>(map: Map<string, Map<string, T>>, namespace: string, name: string, value: T): void {
  const inner = map.get(namespace) ?? new Map<string, T>();
  inner.set(name, value);
  map.set(namespace, inner);
}

export function makeClaim(item: ItemPlace, spec: ClaimSpec, owner?: Owner): Claim {
  return {
    ...originOf(item),
    requestBytes: parseQuantity(spec.resources.requests.storage, 1),
    isReadOnly: spec.accessModes.every((mode) => mode === "ReadOnlyMany"),
    isForOnePod: spec.accessModes.includes("ReadWriteOncePod"),
    ...(owner === undefined ? {} : { owner }),
  };
}
