/** The volumes of a pod. */
import { claimSpec } from "./object-schema.js";
import { dnsLabel, dnsSubdomain, nodePath, notEmpty, relativePath } from "./names.js";
import { noApiServer, quantity } from "./readers.js";
import {
  type Reader,
  type TypeOf,
  anything,
  boolean,
  integer,
  isObject,
  list,
  mandatory,
  notHonoured,
  object,
  oneOf,
  passedOverBut,
  string,
} from "./schema.js";

export const pullPolicy = oneOf(["Always", "IfNotPresent", "Never"]);

export const fieldRef = object({ apiVersion: oneOf(["v1"]), fieldPath: mandatory(string(notEmpty)) });
export const resourceFieldRef = object({
  containerName: string(),
  resource: mandatory(string(notEmpty)),
  divisor: quantity(1000),
});

const hostPathType = oneOf([
  "",
  "DirectoryOrCreate",
  "Directory",
  "FileOrCreate",
  "File",
  "Socket",
  "CharDevice",
  "BlockDevice",
]);

const fileMode = integer(0, 0o777);
const filePath = string((path) => notEmpty(path) ?? relativePath(path));
/** Keys of a ConfigMap or a Secret, as files. */
const keyPaths = list(
  object({ key: mandatory(string(notEmpty)), path: mandatory(filePath), mode: fileMode }),
);
const downwardFiles = list(object({ path: mandatory(filePath), fieldRef, resourceFieldRef, mode: fileMode }));

/** Volumes of storage systems. With `--local-volumes` they are claims: see collect.ts. */
export const storageKinds = [
  "awsElasticBlockStore",
  "azureDisk",
  "azureFile",
  "cephfs",
  "cinder",
  "csi",
  "fc",
  "flexVolume",
  "flocker",
  "gcePersistentDisk",
  "glusterfs",
  "iscsi",
  "nfs",
  "photonPersistentDisk",
  "portworxVolume",
  "quobyte",
  "rbd",
  "scaleIO",
  "storageos",
  "vsphereVolume",
] as const;

const storageSystem = notHonoured(
  "not honoured: needs a storage system (--local-volumes puts an empty local volume in its place)",
);
const storageSystems = Object.fromEntries(storageKinds.map((kind) => [kind, storageSystem])) as Record<
  (typeof storageKinds)[number],
  Reader<never>
>;

/** Without signers, trust of a cluster is an empty file when the pod can do without. */
const clusterTrustBundle: Reader<never> = (value, path, problems) => {
  const isOptional = isObject(value) && value["optional"] === true;
  problems.push({
    path,
    reason: isOptional ? "is optional, and has no signers here" : "not honoured: has no signers here",
    kind: isOptional ? "passedOver" : "notHonoured",
  });
  return undefined;
};

const serviceAccountToken = passedOverBut(
  object({
    path: mandatory(filePath),
    audience: string(),
    // The token never expires: nothing that it could open is there.
    expirationSeconds: integer(600, 2 ** 32),
  }),
  noApiServer,
);

const volumeFields = object({
  name: mandatory(string(dnsLabel)),
  emptyDir: object({
    medium: oneOf(["", "Memory"], { HugePages: "not honoured: needs huge pages of the node" }),
    sizeLimit: quantity(1),
  }),
  hostPath: object({ path: mandatory(string(nodePath)), type: hostPathType }),
  image: object({ reference: mandatory(string(notEmpty)), pullPolicy }),
  configMap: object({
    name: mandatory(string(dnsSubdomain)),
    items: keyPaths,
    defaultMode: fileMode,
    optional: boolean(),
  }),
  secret: object({
    secretName: mandatory(string(dnsSubdomain)),
    items: keyPaths,
    defaultMode: fileMode,
    optional: boolean(),
  }),
  downwardAPI: object({ items: downwardFiles, defaultMode: fileMode }),
  projected: object({
    sources: list(
      object({
        configMap: object({ name: mandatory(string(dnsSubdomain)), items: keyPaths, optional: boolean() }),
        secret: object({ name: mandatory(string(dnsSubdomain)), items: keyPaths, optional: boolean() }),
        downwardAPI: object({ items: downwardFiles }),
        serviceAccountToken,
        podCertificate: notHonoured("not honoured: needs an API server that issues it"),
        clusterTrustBundle,
      }),
    ),
    defaultMode: fileMode,
  }),
  persistentVolumeClaim: object({ claimName: mandatory(string(dnsSubdomain)), readOnly: boolean() }),
  ephemeral: object({
    volumeClaimTemplate: mandatory(
      object({
        metadata: object({ labels: anything(), annotations: anything() }),
        spec: mandatory(claimSpec),
      }),
    ),
  }),
  gitRepo: notHonoured("not honoured, nor by Kubernetes since 1.33: clone in an init container"),
  ...storageSystems,
});

export type Volume = Omit<TypeOf<typeof volumeFields>, "ephemeral">;

/** A volume of an ephemeral claim lives as long as the pod: on one node it is an emptyDir. */
export const volume: Reader<Volume> = (value, path, problems) => {
  const read = volumeFields(value, path, problems);
  if (read?.ephemeral === undefined) return read;
  const { ephemeral: _, ...rest } = read;
  return { ...rest, emptyDir: {} };
};
