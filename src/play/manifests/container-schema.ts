/** The containers of a pod. */
import {
  address,
  dnsLabel,
  environmentName,
  headerName,
  headerValue,
  mountPath,
  notEmpty,
  portName,
  relativePath,
} from "./names.js";
import {
  atLeastOne,
  exitCode,
  id,
  keyReference,
  notNegative,
  objectReference,
  port,
  portReference,
  quantity,
  unlessUnset,
} from "./readers.js";
import {
  type Reader,
  boolean,
  isObject,
  join,
  list,
  mandatory,
  mapOf,
  notHonoured,
  object,
  oneOf,
  passedOver,
  passedOverBut,
  string,
} from "./schema.js";
import { fieldRef, pullPolicy, resourceFieldRef } from "./volume-schema.js";

const profileType = oneOf(["RuntimeDefault", "Unconfined", "Localhost"]);
export const seccompProfile = object({
  type: mandatory(profileType),
  localhostProfile: string((path) => notEmpty(path) ?? relativePath(path)),
});
export const appArmorProfile = object({ type: mandatory(profileType), localhostProfile: string(notEmpty) });
export const seLinuxOptions = object({ user: string(), role: string(), type: string(), level: string() });
export const windowsOptions = notHonoured("not honoured: the node runs Linux");

export const containerSecurityContext = object({
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
  windowsOptions,
});

const noEviction = passedOverBut(quantity(1), "play does not evict pods for their use of disk");

/** Quantities by the name of the resource. */
const amounts: Reader<Readonly<Record<string, string>>> = (value, path, problems) => {
  for (const name of isObject(value) ? Object.keys(value) : []) {
    if (["cpu", "memory", "ephemeral-storage"].includes(name) || name.startsWith("hugepages-")) continue;
    const at = join(path, name);
    const isExtended = name.includes("/");
    const reason = isExtended
      ? "not honoured: needs a device plugin of the node"
      : "is not a resource of Kubernetes";
    problems.push({ path: at, reason, kind: isExtended ? "notHonoured" : "malformed" });
  }
  const storage = isObject(value) ? value["ephemeral-storage"] : undefined;
  if (storage !== undefined) noEviction(storage, join(path, "ephemeral-storage"), problems);
  return mapOf(quantity(1000))(value, path, problems);
};
const noClaims = notHonoured("not honoured: needs a driver for dynamic resource allocation");
export const resources = object({ requests: amounts, limits: amounts, claims: noClaims });

const httpGet = object({
  path: string(),
  port: mandatory(portReference(portName)),
  host: string(),
  scheme: oneOf(["HTTP", "HTTPS"]),
  httpHeaders: list(object({ name: mandatory(string(headerName)), value: mandatory(string(headerValue)) })),
});
const tcpSocket = object({ port: mandatory(portReference(portName)), host: string() });
const exec = object({ command: mandatory(list(string())) });

export const probe = object({
  exec,
  httpGet,
  tcpSocket,
  grpc: object({ port: mandatory(port), service: string() }),
  initialDelaySeconds: notNegative,
  timeoutSeconds: notNegative,
  periodSeconds: notNegative,
  successThreshold: notNegative,
  failureThreshold: notNegative,
  terminationGracePeriodSeconds: atLeastOne,
});

export const lifecycleHandler = object({
  exec,
  httpGet,
  tcpSocket,
  sleep: object({ seconds: mandatory(notNegative) }),
});

const lifecycle = object({
  postStart: lifecycleHandler,
  preStop: lifecycleHandler,
  stopSignal: string(notEmpty),
});

export const env = object({
  name: mandatory(string(environmentName)),
  value: string(),
  valueFrom: object({
    configMapKeyRef: keyReference,
    secretKeyRef: keyReference,
    fieldRef,
    resourceFieldRef,
    fileKeyRef: object({
      volumeName: mandatory(string(dnsLabel)),
      path: mandatory(string((path) => notEmpty(path) ?? relativePath(path))),
      key: mandatory(string(environmentName)),
      optional: boolean(),
    }),
  }),
});

/** The fields of init containers, containers and ephemeral containers. */
const containerFields = {
  name: mandatory(string(dnsLabel)),
  image: mandatory(string(notEmpty)),
  imagePullPolicy: pullPolicy,
  command: list(string()),
  args: list(string()),
  workingDir: string(),
  env: list(env),
  envFrom: list(object({ prefix: string(), configMapRef: objectReference, secretRef: objectReference })),
  resources,
  resizePolicy: passedOver("resources are not changed while a container runs"),
  ports: list(
    object({
      name: string(portName),
      containerPort: mandatory(port),
      hostPort: unlessUnset(port),
      hostIP: string(address),
      protocol: oneOf(["TCP", "UDP", "SCTP"]),
    }),
  ),
  securityContext: containerSecurityContext,
  volumeDevices: notHonoured("not honoured: needs block devices of a storage system"),
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

export const container = object({
  ...containerFields,
  // Always makes an init container a sidecar.
  restartPolicy: oneOf(["Always", "OnFailure", "Never"]),
  restartPolicyRules: list(
    object({
      action: mandatory(oneOf(["Restart", "RestartAllContainers"])),
      exitCodes: mandatory(object({ operator: mandatory(oneOf(["In", "NotIn"])), values: list(exitCode) })),
    }),
  ),
});

const notEphemeral = notHonoured("not honoured: Kubernetes does not allow it for an ephemeral container");

export const ephemeralContainer = object({
  ...containerFields,
  targetContainerName: string(dnsLabel),
  restartPolicy: notEphemeral,
  restartPolicyRules: notEphemeral,
});
