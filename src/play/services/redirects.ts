/** Ports of Services that are not those of their pods: what must be redirected within a pod. Pure. */
import type { PlacedProblem } from "../manifests/documents.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { Service, ServicePort } from "../manifests/workloads.js";
import { hasOwnPorts, selects } from "./service-names.js";

/** Connections to `port` of the pod's addresses reach `target`. */
export interface Redirect {
  readonly service: Service;
  readonly protocol: ServicePort["protocol"];
  readonly port: number;
  readonly target: number;
}

/** By number, or by the name of a container's port. Undefined when no container has that name. */
export function targetPortOf(
  { pod: { spec } }: Pick<Manifest, "pod">,
  { targetPort, protocol }: Pick<ServicePort, "targetPort" | "protocol">,
): number | undefined {
  if (typeof targetPort === "number") return targetPort;
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  return [...spec.containers, ...sidecars]
    .flatMap(({ ports = [] }) => ports)
    .find((one) => one.name === targetPort && (one.protocol ?? "TCP") === protocol)?.containerPort;
}

/** Where the ports of all Services of a pod lead, also those that need no redirect. */
function targetsOf(manifest: Manifest, services: readonly Service[]): readonly Redirect[] {
  return services
    .filter((service) => hasOwnPorts(service) && selects(service, manifest))
    .flatMap((service) =>
      service.ports.flatMap((one) => {
        const target = targetPortOf(manifest, one);
        const { protocol, port } = one;
        return target === undefined ? [] : [{ service, protocol, port, target }];
      }),
    );
}

/** On the host network there are none: the rules would be those of the host. */
export function redirectsOf(manifest: Manifest, services: readonly Service[]): readonly Redirect[] {
  if (manifest.pod.spec.hostNetwork === true) return [];
  const seen = new Set<string>();
  return targetsOf(manifest, services).filter(({ protocol, port, target }) => {
    const isNew = port !== target && !seen.has(`${port}/${protocol}`);
    seen.add(`${port}/${protocol}`);
    return isNew;
  });
}

/** What cannot be redirected. Each Service has one problem of a kind, not one for each replica. */
export function checkRedirects(
  pods: readonly Manifest[],
  services: readonly Service[],
): readonly PlacedProblem[] {
  const problems = new Map<string, PlacedProblem>();
  const report = (service: Service, path: string, kind: PlacedProblem["kind"], reason: string): void => {
    const { source, line, name } = service;
    const id = `${service.namespace}/${name} ${path} ${kind}`;
    if (!problems.has(id)) problems.set(id, { source, line, path, reason, kind, object: `Service ${name}` });
  };
  for (const service of services) {
    if (service.selector === undefined || pods.some((pod) => selects(service, pod))) continue;
    const reason = "selects no pod of these files, so that its name does not resolve";
    report(service, "spec.selector", "passedOver", reason);
  }
  for (const manifest of pods) {
    const pod = `${manifest.key.namespace}/${manifest.key.name}`;
    for (const service of services.filter((one) => selects(one, manifest))) {
      service.ports.forEach((one, index) => {
        if (targetPortOf(manifest, one) !== undefined) return;
        const name = JSON.stringify(one.targetPort);
        const reason = `no container of its pods, as ${pod}, has a port named ${name}`;
        report(service, `spec.ports[${index}].targetPort`, "passedOver", reason);
      });
    }
    const isOnHost = manifest.pod.spec.hostNetwork === true;
    const used = usedPorts(manifest);
    const earlier = new Map<string, Redirect>();
    for (const redirect of targetsOf(manifest, services)) {
      const { service, protocol, port, target } = redirect;
      const number = `${port}/${protocol}`;
      const index = service.ports.findIndex((one) => one.port === port && one.protocol === protocol);
      const path = `spec.ports[${index}]`;
      const other = earlier.get(number);
      if (isOnHost) {
        if (port === target) continue;
        const reason = `port ${number} is not redirected on the host network, as of pod ${pod}: use ${target}`;
        report(service, path, "passedOver", reason);
      } else if (other !== undefined && other.target !== target) {
        const places = `to ${target}, and for the Service ${other.service.name} to ${other.target}`;
        const reason = `port ${number} leads ${places} of the same pod, ${pod}: give one of them another port`;
        report(service, path, "notHonoured", reason);
      } else if (port !== target && used.has(number)) {
        const reason = `port ${number} leads to ${target}, but pod ${pod} has a container port ${port}, too`;
        report(service, path, "notHonoured", `${reason}: give the Service another port`);
      }
      earlier.set(number, other ?? redirect);
    }
  }
  return [...problems.values()];
}

function usedPorts({ pod: { spec } }: Manifest): ReadonlySet<string> {
  const containers = [...spec.containers, ...(spec.initContainers ?? [])];
  const ports = containers.flatMap((container) => container.ports ?? []);
  return new Set(ports.map(({ containerPort, protocol = "TCP" }) => `${containerPort}/${protocol}`));
}
