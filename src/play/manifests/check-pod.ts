/**
 * Checks fields of a Pod against each other. The readers of honoured-fields.ts have checked each field alone.
 */
import type { Container, Pod, PodSpec, Profile, Volume } from "./pod-schema.js";
import { parseQuantity } from "../../shim/domain/quantity.js";
import type { Problem } from "./schema.js";

/** The problems of a pod that was read without problems. */
export function checkPod(pod: Pod): readonly Problem[] {
  const problems: Problem[] = [];
  const { spec } = pod;
  const report: Report = (path, reason) => problems.push({ path: `spec.${path}`, reason, kind: "malformed" });
  if (spec.containers.length === 0) report("containers", "must not be empty");
  if (spec.hostPID === true && spec.shareProcessNamespace === true) {
    report("shareProcessNamespace", "cannot go with hostPID");
  }
  if (spec.dnsPolicy === "None" && (spec.dnsConfig?.nameservers ?? []).length === 0) {
    report("dnsConfig.nameservers", "must name a server when dnsPolicy is None");
  }
  checkUnique(spec.volumes ?? [], "volumes", report);
  (spec.volumes ?? []).forEach((volume, index) => {
    const sources = (["emptyDir", "hostPath", "image"] as const).filter((one) => volume[one] !== undefined);
    if (sources.length > 1) report(`volumes[${index}]`, `must not be both ${sources.join(" and ")}`);
  });
  const all = [...(spec.initContainers ?? []), ...spec.containers];
  const names = new Set<string>();
  const paths = [
    ...(spec.initContainers ?? []).map((_, index) => `initContainers[${index}]`),
    ...spec.containers.map((_, index) => `containers[${index}]`),
  ];
  all.forEach((container, index) => {
    const path = paths[index] ?? "";
    if (names.has(container.name)) report(`${path}.name`, `${JSON.stringify(container.name)} is used twice`);
    names.add(container.name);
    checkContainer(container, path, spec, report);
  });
  checkHostPorts(spec, report);
  checkProfile(spec.securityContext?.seccompProfile, "securityContext.seccompProfile", report);
  checkProfile(spec.securityContext?.appArmorProfile, "securityContext.appArmorProfile", report);
  return problems;
}

type Report = (path: string, reason: string) => void;

function checkContainer(container: Container, path: string, spec: PodSpec, report: Report): void {
  for (const resource of ["cpu", "memory"] as const) {
    const perUnit = resource === "cpu" ? 1000 : 1;
    const request = parseQuantity(container.resources?.requests?.[resource] ?? "", perUnit);
    const limit = parseQuantity(container.resources?.limits?.[resource] ?? "", perUnit);
    if (request !== undefined && limit !== undefined && request > limit) {
      report(`${path}.resources.requests.${resource}`, `must not exceed the limit of ${limit}`);
    }
  }
  const context = container.securityContext ?? {};
  if (context.allowPrivilegeEscalation === false && context.privileged === true) {
    report(`${path}.securityContext.allowPrivilegeEscalation`, "cannot be false for a privileged container");
  }
  if (context.allowPrivilegeEscalation === false && (context.capabilities?.add ?? []).some(isSysAdmin)) {
    report(
      `${path}.securityContext.allowPrivilegeEscalation`,
      "cannot be false with the capability SYS_ADMIN",
    );
  }
  checkProfile(context.seccompProfile, `${path}.securityContext.seccompProfile`, report);
  checkProfile(context.appArmorProfile, `${path}.securityContext.appArmorProfile`, report);
  checkMounts(container, path, spec.volumes ?? [], report);
  (container.ports ?? []).forEach(({ hostPort, containerPort }, index) => {
    if (spec.hostNetwork === true && hostPort !== undefined && hostPort !== containerPort) {
      report(`${path}.ports[${index}].hostPort`, "must be the containerPort on the host network");
    }
  });
}

function isSysAdmin(capability: string): boolean {
  return capability === "SYS_ADMIN" || capability === "CAP_SYS_ADMIN";
}

function checkMounts(container: Container, path: string, volumes: readonly Volume[], report: Report): void {
  const used = new Set<string>();
  (container.volumeMounts ?? []).forEach((mount, index) => {
    const at = `${path}.volumeMounts[${index}]`;
    const volume = volumes.find(({ name }) => name === mount.name);
    if (volume === undefined) {
      report(`${at}.name`, `${JSON.stringify(mount.name)} is not in spec.volumes`);
    }
    if (volume?.image !== undefined && (mount.mountPropagation ?? "None") !== "None") {
      report(`${at}.mountPropagation`, "an image volume has no mounts to propagate");
    }
    if (used.has(mount.mountPath))
      report(`${at}.mountPath`, `${JSON.stringify(mount.mountPath)} is used twice`);
    used.add(mount.mountPath);
    if (mount.mountPropagation === "Bidirectional" && container.securityContext?.privileged !== true) {
      report(`${at}.mountPropagation`, "Bidirectional needs a privileged container");
    }
    if (mount.recursiveReadOnly !== "Enabled") return;
    if (mount.readOnly !== true) report(`${at}.recursiveReadOnly`, "needs readOnly: true");
    if ((mount.mountPropagation ?? "None") !== "None") {
      report(`${at}.recursiveReadOnly`, "cannot go with mountPropagation");
    }
  });
}

function checkProfile(profile: Profile | undefined, path: string, report: Report): void {
  if (profile === undefined) return;
  const isLocal = profile.type === "Localhost";
  if (isLocal && profile.localhostProfile === undefined) report(`${path}.localhostProfile`, "is missing");
  if (!isLocal && profile.localhostProfile !== undefined) {
    report(`${path}.localhostProfile`, "is only for the type Localhost");
  }
}

function checkUnique(items: readonly { readonly name: string }[], path: string, report: Report): void {
  const names = new Set<string>();
  items.forEach(({ name }, index) => {
    if (names.has(name)) report(`${path}[${index}].name`, `${JSON.stringify(name)} is used twice`);
    names.add(name);
  });
}

function checkHostPorts(spec: PodSpec, report: Report): void {
  const used = new Set<string>();
  spec.containers.forEach((container, containerIndex) => {
    (container.ports ?? []).forEach(({ hostPort, hostIP = "", protocol = "TCP" }, index) => {
      if (hostPort === undefined) return;
      const key = `${hostIP} ${hostPort} ${protocol}`;
      const path = `containers[${containerIndex}].ports[${index}].hostPort`;
      if (used.has(key)) report(path, `${hostPort} is used twice`);
      used.add(key);
    });
  });
}
