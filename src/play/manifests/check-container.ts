/** Checks fields of one container against each other, by the rules of Kubernetes' own validation. */
import { parseQuantity } from "../../domain/quantity.js";
import type { Container, EphemeralContainer, PodSpec, Probe, Profile, Volume } from "./pod-schema.js";

export type Report = (path: string, reason: string) => void;

export type ContainerRole = "init" | "sidecar" | "main" | "ephemeral";

const onlyLongRunning = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] as const;
const notEphemeral = [...onlyLongRunning, "ports", "resources"] as const;

export function checkContainer(
  container: Container | EphemeralContainer,
  role: ContainerRole,
  path: string,
  spec: PodSpec,
  report: Report,
): void {
  checkRole(container, role, path, spec, report);
  checkResources(container.resources, `${path}.resources`, report);
  if (role === "main") checkPodLimits(container.resources, spec, `${path}.resources`, report);
  const context = container.securityContext ?? {};
  if (context.allowPrivilegeEscalation === false && context.privileged === true)
    report(`${path}.securityContext.allowPrivilegeEscalation`, "cannot be false for a privileged container");
  if (context.allowPrivilegeEscalation === false && (context.capabilities?.add ?? []).some(isSysAdmin))
    report(
      `${path}.securityContext.allowPrivilegeEscalation`,
      "cannot be false with the capability SYS_ADMIN",
    );
  checkProfile(context.seccompProfile, `${path}.securityContext.seccompProfile`, report);
  checkProfile(context.appArmorProfile, `${path}.securityContext.appArmorProfile`, report);
  checkMounts(container, path, spec.volumes ?? [], report);
  checkVariables(container, path, spec.volumes ?? [], report);
  checkPorts(container, path, spec, report);
}

type Resources = PodSpec["resources"];

export function checkResources(resources: Resources, path: string, report: Report): void {
  for (const resource of ["cpu", "memory"] as const) {
    const request = amountOf(resources?.requests, resource);
    const limit = amountOf(resources?.limits, resource);
    if (request !== undefined && limit !== undefined && request > limit)
      report(`${path}.requests.${resource}`, `must not exceed the limit of ${limit}`);
  }
}

/** Kubernetes does not ask this of init containers. */
function checkPodLimits(own: Resources, { resources }: PodSpec, path: string, report: Report): void {
  for (const resource of Object.keys(own?.limits ?? {})) {
    const limit = amountOf(own?.limits, resource);
    const ofPod = amountOf(resources?.limits, resource);
    if (limit !== undefined && ofPod !== undefined && limit > ofPod)
      report(`${path}.limits.${resource}`, `must not exceed the pod's limit of ${ofPod}`);
  }
}

type Amounts = NonNullable<Resources>["limits"];

/** Thousandths of a core for `cpu`, else bytes. */
function amountOf(amounts: Amounts, resource: string): bigint | undefined {
  return parseQuantity(amounts?.[resource] ?? "", resource === "cpu" ? 1000 : 1);
}

function checkRole(
  container: Container | EphemeralContainer,
  role: ContainerRole,
  path: string,
  spec: PodSpec,
  report: Report,
): void {
  const forbidden = role === "init" ? onlyLongRunning : role === "ephemeral" ? notEphemeral : [];
  for (const field of forbidden) {
    if (container[field] === undefined) continue;
    const reason =
      role === "init" ? "is only for init containers with restartPolicy: Always" : "is not allowed";
    report(`${path}.${field}`, role === "init" ? reason : `${reason} for an ephemeral container`);
  }
  const { restartPolicy, restartPolicyRules = [] } = container;
  if (restartPolicy === undefined && restartPolicyRules.length > 0)
    report(`${path}.restartPolicy`, "is missing: it counts when none of the restartPolicyRules does");
  for (const kind of ["livenessProbe", "readinessProbe", "startupProbe"] as const) {
    const probe = container[kind];
    if (probe !== undefined) checkProbe(probe, kind, `${path}.${kind}`, container, report);
  }
  for (const hook of ["postStart", "preStop"] as const) {
    const handler = container.lifecycle?.[hook];
    const at = `${path}.lifecycle.${hook}`;
    if (handler === undefined) continue;
    checkOneOf(handler, ["exec", "httpGet", "tcpSocket", "sleep"], at, report);
    if (handler.tcpSocket !== undefined) report(`${at}.tcpSocket`, "is not run by Kubernetes: use exec");
    const grace = spec.terminationGracePeriodSeconds ?? 30;
    if ((handler.sleep?.seconds ?? 0) > grace)
      report(`${at}.sleep.seconds`, `must not exceed the terminationGracePeriodSeconds of ${grace}`);
  }
  if (container.lifecycle?.stopSignal !== undefined && spec.os === undefined)
    report(`${path}.lifecycle.stopSignal`, "needs spec.os.name: linux");
}

function checkProbe(
  probe: Probe,
  kind: "livenessProbe" | "readinessProbe" | "startupProbe",
  path: string,
  container: Container | EphemeralContainer,
  report: Report,
): void {
  checkOneOf(probe, ["exec", "httpGet", "tcpSocket", "grpc"], path, report);
  // Zero stands for the default.
  if (kind !== "readinessProbe" && (probe.successThreshold ?? 1) > 1)
    report(`${path}.successThreshold`, `must be 1 for a ${kind}`);
  if (kind === "readinessProbe" && probe.terminationGracePeriodSeconds !== undefined)
    report(`${path}.terminationGracePeriodSeconds`, "is not for a readinessProbe, which stops nothing");
  for (const handler of ["httpGet", "tcpSocket"] as const) {
    const port = probe[handler]?.port;
    if (typeof port !== "string" || (container.ports ?? []).some(({ name }) => name === port)) continue;
    report(`${path}.${handler}.port`, `${JSON.stringify(port)} is not the name of a port of the container`);
  }
}

function checkOneOf<K extends string>(
  value: Readonly<Partial<Record<K, unknown>>>,
  names: readonly K[],
  path: string,
  report: Report,
): void {
  const given = names.filter((name) => value[name] !== undefined);
  if (given.length === 0) report(path, `must have one of ${names.join(", ")}`);
  if (given.length > 1) report(path, `must not have both ${given.join(" and ")}`);
}

function checkVariables(
  container: Container | EphemeralContainer,
  path: string,
  volumes: readonly Volume[],
  report: Report,
): void {
  container.env?.forEach(({ value, valueFrom }, index) => {
    if (valueFrom === undefined) return;
    const at = `${path}.env[${index}]`;
    const sources = [
      "fieldRef",
      "resourceFieldRef",
      "configMapKeyRef",
      "secretKeyRef",
      "fileKeyRef",
    ] as const;
    checkOneOf(valueFrom, sources, `${at}.valueFrom`, report);
    if (value !== undefined && value !== "") report(`${at}.valueFrom`, "cannot go with a value");
    const { fieldRef, resourceFieldRef, fileKeyRef } = valueFrom;
    if (
      fileKeyRef !== undefined &&
      !volumes.some((one) => one.name === fileKeyRef.volumeName && isEmptyDir(one))
    )
      report(`${at}.valueFrom.fileKeyRef.volumeName`, "must be an emptyDir of spec.volumes");
    if (fieldRef !== undefined && !variableField.test(fieldRef.fieldPath))
      report(`${at}.valueFrom.fieldRef.fieldPath`, `must be one of ${variableFields}`);
    checkResourceField(resourceFieldRef?.resource, `${at}.valueFrom.resourceFieldRef`, report);
  });
  container.envFrom?.forEach((source, index) => {
    checkOneOf(source, ["configMapRef", "secretRef"], `${path}.envFrom[${index}]`, report);
  });
}

/** Also a volume without a source. */
function isEmptyDir(volume: Volume): boolean {
  const { hostPath, image, configMap, secret, downwardAPI, projected, persistentVolumeClaim } = volume;
  const others =
    hostPath ?? image ?? configMap ?? secret ?? downwardAPI ?? projected ?? persistentVolumeClaim;
  return others === undefined;
}

const variableField =
  /^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$/;
const variableFields =
  "metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], " +
  "spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs";
const resourceField = /^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)$/;

export function checkResourceField(resource: string | undefined, path: string, report: Report): void {
  if (resource === undefined || resourceField.test(resource)) return;
  report(`${path}.resource`, "must be limits or requests of cpu, memory or ephemeral-storage: limits.cpu");
}

function checkPorts(
  container: Container | EphemeralContainer,
  path: string,
  spec: PodSpec,
  report: Report,
): void {
  const names = new Set<string>();
  container.ports?.forEach(({ name, hostPort, containerPort }, index) => {
    const at = `${path}.ports[${index}]`;
    if (name !== undefined && names.has(name)) report(`${at}.name`, `${JSON.stringify(name)} is used twice`);
    if (name !== undefined) names.add(name);
    if (spec.hostNetwork === true && hostPort !== undefined && hostPort !== containerPort)
      report(`${at}.hostPort`, "must be the containerPort on the host network");
  });
}

function isSysAdmin(capability: string): boolean {
  return capability === "SYS_ADMIN" || capability === "CAP_SYS_ADMIN";
}

function checkMounts(
  container: Container | EphemeralContainer,
  path: string,
  volumes: readonly Volume[],
  report: Report,
): void {
  const used = new Set<string>();
  (container.volumeMounts ?? []).forEach((mount, index) => {
    const at = `${path}.volumeMounts[${index}]`;
    const volume = volumes.find(({ name }) => name === mount.name);
    if (volume === undefined) report(`${at}.name`, `${JSON.stringify(mount.name)} is not in spec.volumes`);
    if (volume?.image !== undefined && (mount.mountPropagation ?? "None") !== "None")
      report(`${at}.mountPropagation`, "an image volume has no mounts to propagate");
    if (used.has(mount.mountPath))
      report(`${at}.mountPath`, `${JSON.stringify(mount.mountPath)} is used twice`);
    used.add(mount.mountPath);
    if (mount.subPath !== undefined && mount.subPathExpr !== undefined)
      report(`${at}.subPathExpr`, "cannot go with subPath");
    if (mount.mountPropagation === "Bidirectional" && container.securityContext?.privileged !== true)
      report(`${at}.mountPropagation`, "Bidirectional needs a privileged container");
    if (mount.recursiveReadOnly === undefined || mount.recursiveReadOnly === "Disabled") return;
    if (mount.readOnly !== true) report(`${at}.recursiveReadOnly`, "needs readOnly: true");
    if ((mount.mountPropagation ?? "None") !== "None")
      report(`${at}.recursiveReadOnly`, "cannot go with mountPropagation");
  });
}

export function checkProfile(profile: Profile | undefined, path: string, report: Report): void {
  if (profile === undefined) return;
  const isLocal = profile.type === "Localhost";
  if (isLocal && profile.localhostProfile === undefined) report(`${path}.localhostProfile`, "is missing");
  if (!isLocal && profile.localhostProfile !== undefined)
    report(`${path}.localhostProfile`, "is only for the type Localhost");
}
