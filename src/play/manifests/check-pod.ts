/** Checks fields of a Pod against each other, by the rules of Kubernetes' own validation. */
import {
  type Report,
  checkContainer,
  checkProfile,
  checkResourceField,
  checkResources,
} from "./check-container.js";
import type { Pod, PodSpec, Volume } from "./pod-schema.js";
import type { Problem } from "./schema.js";

/** The problems of a pod that was read without problems. Paths begin with `spec`. */
export function checkPod(pod: Pick<Pod, "spec">): readonly Problem[] {
  const problems: Problem[] = [];
  const { spec } = pod;
  const report: Report = (path, reason) => problems.push({ path: `spec.${path}`, reason, kind: "malformed" });
  if (spec.containers.length === 0) report("containers", "must not be empty");
  if (spec.hostPID === true && spec.shareProcessNamespace === true)
    report("shareProcessNamespace", "cannot go with hostPID");
  if (spec.dnsPolicy === "None" && (spec.dnsConfig?.nameservers ?? []).length === 0)
    report("dnsConfig.nameservers", "must name a server when dnsPolicy is None");
  checkResources(spec.resources, "resources", report);
  checkVolumes(spec.volumes ?? [], report);
  checkContainers(spec, report);
  checkHostPorts(spec, report);
  checkProfile(spec.securityContext?.seccompProfile, "securityContext.seccompProfile", report);
  checkProfile(spec.securityContext?.appArmorProfile, "securityContext.appArmorProfile", report);
  return problems;
}

function checkContainers(spec: PodSpec, report: Report): void {
  const names = new Set<string>();
  for (const field of ["initContainers", "containers", "ephemeralContainers"] as const)
    spec[field]?.forEach((container, index) => {
      const path = `${field}[${index}]`;
      if (names.has(container.name))
        report(`${path}.name`, `${JSON.stringify(container.name)} is used twice`);
      names.add(container.name);
      const isSidecar = container.restartPolicy === "Always";
      const initRole = isSidecar ? "sidecar" : "init";
      const role = field === "containers" ? "main" : field === "initContainers" ? initRole : "ephemeral";
      checkContainer(container, role, path, spec, report);
    });
  const targets = [...spec.containers, ...(spec.initContainers ?? [])].map(({ name }) => name);
  spec.ephemeralContainers?.forEach(({ targetContainerName: target }, index) => {
    if (target === undefined || targets.includes(target)) return;
    const reason = `${JSON.stringify(target)} is not a container of the pod`;
    report(`ephemeralContainers[${index}].targetContainerName`, reason);
  });
}

const volumeKinds = [
  "emptyDir",
  "hostPath",
  "image",
  "configMap",
  "secret",
  "downwardAPI",
  "projected",
  "persistentVolumeClaim",
] as const;

function checkVolumes(volumes: readonly Volume[], report: Report): void {
  const names = new Set<string>();
  volumes.forEach((volume, index) => {
    const at = `volumes[${index}]`;
    if (names.has(volume.name)) report(`${at}.name`, `${JSON.stringify(volume.name)} is used twice`);
    names.add(volume.name);
    const sources = volumeKinds.filter((one) => volume[one] !== undefined);
    if (sources.length > 1) report(at, `must not be both ${sources.join(" and ")}`);
    checkDownwardFiles(volume.downwardAPI?.items, `${at}.downwardAPI`, report);
    volume.projected?.sources?.forEach((source, number) => {
      const path = `${at}.projected.sources[${number}]`;
      const given = (["configMap", "secret", "downwardAPI", "serviceAccountToken"] as const).filter(
        (one) => source[one] !== undefined,
      );
      if (given.length > 1) report(path, `must not be both ${given.join(" and ")}`);
      checkDownwardFiles(source.downwardAPI?.items, `${path}.downwardAPI`, report);
    });
  });
}

const fileField = /^metadata\.(name|namespace|uid|labels|annotations|(labels|annotations)\['[^']+'\])$/;

type DownwardFiles = NonNullable<Volume["downwardAPI"]>["items"];

function checkDownwardFiles(items: DownwardFiles, path: string, report: Report): void {
  items?.forEach(({ fieldRef, resourceFieldRef }, index) => {
    const at = `${path}.items[${index}]`;
    if ((fieldRef === undefined) === (resourceFieldRef === undefined))
      report(at, "must have either fieldRef or resourceFieldRef");
    if (fieldRef !== undefined && !fileField.test(fieldRef.fieldPath))
      report(
        `${at}.fieldRef.fieldPath`,
        "must be name, namespace, uid, labels or annotations of metadata, or labels['KEY'], annotations['KEY']",
      );
    if (resourceFieldRef !== undefined && resourceFieldRef.containerName === undefined)
      report(`${at}.resourceFieldRef.containerName`, "is missing");
    checkResourceField(resourceFieldRef?.resource, `${at}.resourceFieldRef`, report);
  });
}

/** Ports of init containers may repeat, because they run one after the other. */
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
