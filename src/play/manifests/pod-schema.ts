/** Every field of a Pod manifest that `play` honours. A field that is not here is an error, never ignored. */
import {
  address,
  dnsLabel,
  dnsSubdomain,
  environmentName,
  labelValue,
  mountPath,
  nodePath,
  notEmpty,
  podUid,
  qualifiedKey,
  relativePath,
} from "./names.js";
import { parseQuantity } from "../../shim/domain/quantity.js";
import {
  type Problem,
  type Reader,
  type TypeOf,
  boolean,
  integer,
  isObject,
  join,
  list,
  malformed,
  mandatory,
  mapOf,
  notHonouredYet,
  object,
  oneOf,
  onlyIf,
  passedOver,
  string,
} from "./schema.js";

const id = integer(0, 2 ** 31 - 1);
const port = integer(1, 65_535);
const isEmpty = onlyIf((value) => isObject(value) && Object.keys(value).length === 0, notHonouredYet);

/** Kubernetes writes quantities as text, but its manifests may have plain numbers. The result is text. */
const quantity: (perUnit: 1 | 1000) => Reader<string> = (perUnit) => (value, path, problems) => {
  const text = typeof value === "number" ? String(value) : value;
  const amount = typeof text === "string" ? parseQuantity(text, perUnit) : undefined;
  if (amount === undefined)
    problems.push(malformed(path, 'must be a quantity such as "250m", "0.5" or "128Mi"'));
  else if (amount < 0n) problems.push(malformed(path, "must not be negative"));
  return typeof text === "string" ? text : undefined;
};

/** A mapping whose keys are checked as well. */
function keyed(read: Reader<string>, checkKey: (key: string) => Problem["kind"] | undefined, reason: string) {
  const values = mapOf(read);
  return (value: unknown, path: string, problems: Problem[]) => {
    for (const key of isObject(value) ? Object.keys(value) : []) {
      const kind = checkKey(key);
      if (kind !== undefined) problems.push({ path: join(path, key), reason, kind });
    }
    return values(value, path, problems);
  };
}

const validKey = (key: string): "malformed" | undefined =>
  qualifiedKey(key) === undefined ? undefined : "malformed";

/**
 * Annotations that confine a pod in older Kubernetes releases. Ignoring them would weaken its confinement.
 */
const actingAnnotation =
  /^(container\.apparmor\.security\.beta\.kubernetes\.io|container\.seccomp\.security\.alpha\.kubernetes\.io|seccomp\.security\.alpha\.kubernetes\.io)\//;

const labels = keyed(string(labelValue), validKey, "is no valid key: write NAME or DOMAIN/NAME");
const plainAnnotations = keyed(string(), validKey, "is no valid key: write NAME or DOMAIN/NAME");
const annotations: typeof plainAnnotations = (value, path, problems) => {
  for (const key of isObject(value) ? Object.keys(value) : []) {
    if (!actingAnnotation.test(key)) continue;
    const reason = `${notHonouredYet}: use appArmorProfile or seccompProfile of a securityContext`;
    problems.push({ path: join(path, key), reason, kind: "notHonoured" });
  }
  return plainAnnotations(value, path, problems);
};

const profileType = oneOf(["RuntimeDefault", "Unconfined", "Localhost"]);
const seccompProfile = object({
  type: mandatory(profileType),
  localhostProfile: string((path) => notEmpty(path) ?? relativePath(path)),
});
const appArmorProfile = object({ type: mandatory(profileType), localhostProfile: string(notEmpty) });

const seLinuxOptions = object({ user: string(), role: string(), type: string(), level: string() });

const podSecurityContext = object({
  runAsUser: id,
  runAsGroup: id,
  runAsNonRoot: boolean(),
  fsGroup: id,
  // Kubernetes applies it to volume kinds that keep data between pods; neither emptyDir nor hostPath looks at
  // it.
  fsGroupChangePolicy: oneOf(["OnRootMismatch", "Always"]),
  supplementalGroups: list(id),
  supplementalGroupsPolicy: oneOf(["Merge", "Strict"]),
  seccompProfile,
  appArmorProfile,
  seLinuxOptions,
  sysctls: list(object({ name: mandatory(string(notEmpty)), value: mandatory(string()) })),
});

const containerSecurityContext = object({
  runAsUser: id,
  runAsGroup: id,
  runAsNonRoot: boolean(),
  privileged: boolean(),
  capabilities: object({ add: list(string(notEmpty)), drop: list(string(notEmpty)) }),
  readOnlyRootFilesystem: boolean(),
  allowPrivilegeEscalation: boolean(),
  seccompProfile,
  appArmorProfile,
  seLinuxOptions,
  procMount: oneOf(["Default", "Unmasked"]),
});

/** Quantities by the name of the resource. */
const amounts: Reader<Readonly<Record<string, string>>> = (value, path, problems) => {
  const plain = isObject(value) ? Object.keys(value).filter((name) => !name.startsWith("hugepages-")) : [];
  for (const name of plain.filter((one) => !["cpu", "memory", "ephemeral-storage"].includes(one)))
    problems.push({ path: join(path, name), reason: notHonouredYet, kind: "notHonoured" });
  return mapOf(quantity(1000))(value, path, problems);
};

const pullPolicy = oneOf(["Always", "IfNotPresent", "Never"]);

/** A port of a container, by number or by name. */
const portReference: Reader<number | string> = (value, path, problems) =>
  typeof value === "number" ? port(value, path, problems) : string(dnsLabel)(value, path, problems);

const seconds = integer(0, 2 ** 31 - 1);
const atLeastOne = integer(1, 2 ** 31 - 1);

const httpGet = object({
  path: string(),
  port: mandatory(portReference),
  host: string(),
  scheme: oneOf(["HTTP", "HTTPS"]),
  httpHeaders: list(object({ name: mandatory(string(notEmpty)), value: mandatory(string()) })),
});
const tcpSocket = object({ port: mandatory(portReference), host: string() });
const exec = object({ command: list(string()) });

const probe = object({
  exec,
  httpGet,
  tcpSocket,
  grpc: object({ port: mandatory(port), service: string() }),
  initialDelaySeconds: seconds,
  timeoutSeconds: seconds,
  periodSeconds: seconds,
  successThreshold: seconds,
  failureThreshold: seconds,
  terminationGracePeriodSeconds: atLeastOne,
});

const lifecycleHandler = object({
  exec,
  httpGet,
  tcpSocket,
  sleep: object({ seconds: mandatory(seconds) }),
});

const lifecycle = object({
  postStart: lifecycleHandler,
  preStop: lifecycleHandler,
  stopSignal: string(notEmpty),
});

const keyReference = object({
  name: mandatory(string(dnsSubdomain)),
  key: mandatory(string(notEmpty)),
  optional: boolean(),
});
const objectReference = object({ name: mandatory(string(dnsSubdomain)), optional: boolean() });
const fieldRef = object({ apiVersion: oneOf(["v1"]), fieldPath: mandatory(string(notEmpty)) });
const resourceFieldRef = object({
  containerName: string(),
  resource: mandatory(string(notEmpty)),
  divisor: quantity(1000),
});

const env = object({
  name: mandatory(string(environmentName)),
  value: string(),
  valueFrom: object({
    configMapKeyRef: keyReference,
    secretKeyRef: keyReference,
    fieldRef,
    resourceFieldRef,
  }),
});

/** Of init containers, containers and ephemeral containers. */
const containerFields = {
  name: mandatory(string(dnsLabel)),
  image: mandatory(string(notEmpty)),
  imagePullPolicy: pullPolicy,
  command: list(string()),
  args: list(string()),
  workingDir: string(),
  env: list(env),
  envFrom: list(object({ prefix: string(), configMapRef: objectReference, secretRef: objectReference })),
  resources: object({ requests: amounts, limits: amounts }),
  ports: list(
    object({
      name: string(dnsLabel),
      containerPort: mandatory(port),
      hostPort: port,
      hostIP: string(address),
      protocol: oneOf(["TCP", "UDP", "SCTP"]),
    }),
  ),
  securityContext: containerSecurityContext,
  volumeMounts: list(
    object({
      name: mandatory(string(dnsLabel)),
      mountPath: mandatory(string(mountPath)),
      readOnly: boolean(),
      recursiveReadOnly: oneOf(["Disabled", "Enabled", "IfPossible"]),
      subPath: string(relativePath),
      subPathExpr: string(relativePath),
      mountPropagation: oneOf(["None", "HostToContainer", "Bidirectional"]),
    }),
  ),
  terminationMessagePath: string(mountPath),
  terminationMessagePolicy: oneOf(["File", "FallbackToLogsOnError"]),
  stdin: boolean(),
  stdinOnce: boolean(),
  tty: boolean(),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  lifecycle,
};

const container = object({
  ...containerFields,
  // Always makes an init container a sidecar. Other containers must not have it: see check-pod.ts.
  restartPolicy: oneOf(["Always"]),
});

const ephemeralContainer = object({ ...containerFields, targetContainerName: string(dnsLabel) });

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
/** Keys of a ConfigMap or a Secret, as files. */
const keyPaths = list(
  object({
    key: mandatory(string(notEmpty)),
    path: mandatory(string((path) => notEmpty(path) ?? relativePath(path))),
    mode: fileMode,
  }),
);
const downwardFiles = list(
  object({
    path: mandatory(string((path) => notEmpty(path) ?? relativePath(path))),
    fieldRef,
    resourceFieldRef,
    mode: fileMode,
  }),
);

const volume = object({
  name: mandatory(string(dnsLabel)),
  emptyDir: object({
    medium: oneOf(["", "Memory"], { HugePages: notHonouredYet }),
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
        configMap: object({
          name: mandatory(string(dnsSubdomain)),
          items: keyPaths,
          optional: boolean(),
        }),
        secret: object({ name: mandatory(string(dnsSubdomain)), items: keyPaths, optional: boolean() }),
        downwardAPI: object({ items: downwardFiles }),
      }),
    ),
    defaultMode: fileMode,
  }),
  persistentVolumeClaim: object({ claimName: mandatory(string(dnsSubdomain)), readOnly: boolean() }),
});

const schedulingReason = "has no meaning on a single node";
const noApiServer = "needs an API server, which play does not have";

const spec = object({
  containers: mandatory(list(container)),
  initContainers: list(container),
  ephemeralContainers: list(ephemeralContainer),
  volumes: list(volume),
  resources: object({ requests: amounts, limits: amounts }),
  securityContext: podSecurityContext,
  hostNetwork: boolean(),
  hostPID: boolean(),
  hostIPC: boolean(),
  shareProcessNamespace: boolean(),
  hostname: string(dnsLabel),
  hostAliases: list(object({ ip: mandatory(string(address)), hostnames: list(string(dnsSubdomain)) })),
  dnsPolicy: oneOf(["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
  dnsConfig: object({
    nameservers: list(string(address)),
    searches: list(string(notEmpty)),
    options: list(object({ name: mandatory(string(notEmpty)), value: string() })),
  }),
  restartPolicy: oneOf(["Always", "OnFailure", "Never"]),
  runtimeClassName: string(dnsSubdomain),
  terminationGracePeriodSeconds: seconds,
  activeDeadlineSeconds: atLeastOne,
  subdomain: string(dnsLabel),
  setHostnameAsFQDN: boolean(),
  imagePullSecrets: list(object({ name: mandatory(string(dnsSubdomain)) })),
  enableServiceLinks: boolean(),
  os: object({ name: mandatory(oneOf(["linux"])) }),
  nodeName: passedOver(schedulingReason),
  nodeSelector: passedOver(schedulingReason),
  affinity: passedOver(schedulingReason),
  tolerations: passedOver(schedulingReason),
  topologySpreadConstraints: passedOver(schedulingReason),
  schedulerName: passedOver(schedulingReason),
  schedulingGates: passedOver(schedulingReason),
  priority: passedOver(schedulingReason),
  priorityClassName: passedOver(schedulingReason),
  preemptionPolicy: passedOver(schedulingReason),
  serviceAccount: passedOver(noApiServer),
  serviceAccountName: passedOver(noApiServer),
  automountServiceAccountToken: passedOver(noApiServer),
  readinessGates: passedOver(noApiServer),
});

/** The spec of a pod, also that of a pod template. */
export const readPodSpec = spec;

/** Reads a whole Pod of the v1 API. */
export const readPod = object({
  apiVersion: mandatory(oneOf(["v1"])),
  kind: mandatory(oneOf(["Pod"])),
  metadata: mandatory(
    object({
      name: mandatory(string(dnsSubdomain)),
      namespace: string(dnsLabel),
      uid: string(podUid),
      labels,
      annotations,
    }),
  ),
  spec: mandatory(readPodSpec),
  status: isEmpty,
});

/** Reads only name, namespace and uid, for the removal of a pod. Ignores all other fields. */
export function readPodName(value: unknown, path: string, problems: Problem[]): PodName | undefined {
  const metadata = isObject(value) && isObject(value["metadata"]) ? value["metadata"] : {};
  const pick = ({ name, namespace, uid }: Readonly<Record<string, unknown>>): unknown => ({
    name,
    namespace,
    uid,
  });
  const read = object({
    name: mandatory(string(dnsSubdomain)),
    namespace: string(dnsLabel),
    uid: string(podUid),
  });
  return read(pick(metadata), join(path, "metadata"), problems);
}

export interface PodName {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
}

export type Pod = NonNullable<ReturnType<typeof readPod>>;
export type PodSpec = Pod["spec"];
export type PodSecurityContext = TypeOf<typeof podSecurityContext>;
export type Container = TypeOf<typeof container>;
export type EphemeralContainer = TypeOf<typeof ephemeralContainer>;
export type Probe = TypeOf<typeof probe>;
export type LifecycleHandler = TypeOf<typeof lifecycleHandler>;
export type EnvironmentVariable = TypeOf<typeof env>;
export type ContainerSecurityContext = TypeOf<typeof containerSecurityContext>;
export type VolumeMount = NonNullable<Container["volumeMounts"]>[number];
export type Volume = TypeOf<typeof volume>;
export type Profile = TypeOf<typeof seccompProfile>;
export type ContainerPort = NonNullable<Container["ports"]>[number];
