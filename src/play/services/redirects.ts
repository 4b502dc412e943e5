/**
 * Ports of Services that are not those of their pods: what must be redirected. Pure.
 *
 * A pod redirects connections to its own addresses. Where that would take a port from another Service or from a
 * container, and for pods on the host network, the Service has addresses of its own, as each has in a cluster: the
 * pods that connect to them redirect them.
 */
import { createHash } from "node:crypto";
import { isIPv4 } from "node:net";
import type { PlacedProblem } from "../manifests/documents.js";
import { type Manifest, nameOf } from "../manifests/manifest.js";
import type { Service, ServicePort } from "../manifests/workloads.js";
import { type NamesInput, endpointsOf, hasOwnPorts, selects } from "./service-names.js";

/** Connections to `port` of the pod's addresses, or of an own address of the Service, reach `target`. */
export interface Redirect {
  readonly service: Service;
  readonly protocol: ServicePort["protocol"];
  readonly port: number;
  readonly target: number;
  /** An own address, and that of the pod to which it leads. */
  readonly own?: { readonly address: string; readonly pod: string };
}

/** What a pod redirects. Connections to other ports of `ownAddresses` are refused. */
export interface PodRules {
  readonly redirects: readonly Redirect[];
  readonly ownAddresses: readonly string[];
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
export function rulesOf(manifest: Manifest, input: Pick<NamesInput, "services" | "endpoints">): PodRules {
  if (manifest.pod.spec.hostNetwork === true) return { redirects: [], ownAddresses: [] };
  const { services } = input;
  const seen = new Set<string>();
  const shared = services.filter(({ ownAddresses }) => ownAddresses === undefined);
  const ofPod = targetsOf(manifest, shared).filter(({ protocol, port, target }) => {
    const isNew = port !== target && !seen.has(`${port}/${protocol}`);
    seen.add(`${port}/${protocol}`);
    return isNew;
  });
  return {
    redirects: [...ofPod, ...services.flatMap((service) => ownRedirects(service, input))],
    ownAddresses: services.flatMap(({ ownAddresses = [] }) => ownAddresses),
  };
}

/** Each port of an own address leads to the first pod that has its target. */
function ownRedirects(
  service: Service,
  input: Pick<NamesInput, "services" | "endpoints">,
): readonly Redirect[] {
  const { ports, ownAddresses = [] } = service;
  const endpoints = ownAddresses.length === 0 ? [] : endpointsOf(service, input);
  return ownAddresses.flatMap((address) =>
    ports.flatMap((one) => {
      for (const { manifest, addresses } of endpoints) {
        const target = targetPortOf(manifest, one);
        const pod = addresses.find((ip) => isIPv4(ip) === isIPv4(address));
        const { protocol, port } = one;
        if (target !== undefined && pod !== undefined)
          return [{ service, protocol, port, target, own: { address, pod } }];
      }
      return [];
    }),
  );
}

/** `services`, with addresses of their own where those of their pods cannot have their ports. */
export function withOwnAddresses(
  pods: readonly Manifest[],
  services: readonly Service[],
): readonly Service[] {
  const needing = new Set<Service>();
  for (const manifest of pods) {
    const used = usedPorts(manifest, services);
    const redirected = new Map<string, number>();
    for (const { service, protocol, port, target } of targetsOf(manifest, services)) {
      if (port === target) continue;
      const number = `${port}/${protocol}`;
      const other = redirected.get(number) ?? target;
      if (manifest.pod.spec.hostNetwork === true || used.has(number) || other !== target)
        needing.add(service);
      else redirected.set(number, target);
    }
  }
  const taken = new Set<number>();
  return services.map((service) =>
    needing.has(service) ? { ...service, ownAddresses: freeAddresses(nameOf(service), taken) } : service,
  );
}

const addressCount = 254 * 128;

/**
 * The same ones for the same Service, as long as no other takes them. They leave no pod: 198.18.0.0/15 is for
 * measurements of network devices. Proxies that make up addresses begin with the lower ones.
 */
function freeAddresses(name: string, taken: Set<number>): readonly string[] {
  let number = createHash("sha256").update(name).digest().readUInt32BE(0) % addressCount;
  while (taken.has(number)) number = (number + 1) % addressCount;
  taken.add(number);
  return [
    `198.18.${128 + Math.floor(number / 254)}.${1 + (number % 254)}`,
    `fd73:6572:7669:6365::${(number + 1).toString(16)}`,
  ];
}

/** What works only in part. Each Service has one problem of a kind, not one for each replica. */
export function checkRedirects(
  pods: readonly Manifest[],
  services: readonly Service[],
): readonly PlacedProblem[] {
  const problems = new Map<string, PlacedProblem>();
  const report = (service: Service, path: string, reason: string): void => {
    const { source, line, name } = service;
    const id = `${nameOf(service)} ${path}`;
    const problem = { source, line, path, reason, kind: "passedOver", object: `Service ${name}` } as const;
    if (!problems.has(id)) problems.set(id, problem);
  };
  const onHost = pods.find(({ pod }) => pod.spec.hostNetwork === true);
  for (const service of services) {
    const own = pods.filter((pod) => selects(service, pod));
    if (service.selector !== undefined && own.length === 0)
      report(service, "spec.selector", "selects no pod of these files, so that its name does not resolve");
    if (service.sessionAffinity === "ClientIP" && own.length > 1) {
      const reason = "holds for programs that connect to the first address of the name, as most do";
      if (service.ownAddresses === undefined) report(service, "spec.sessionAffinity", reason);
    }
    for (const manifest of own)
      service.ports.forEach((one, index) => {
        const path = `spec.ports[${index}]`;
        const target = targetPortOf(manifest, one);
        if (target === undefined) {
          const name = JSON.stringify(one.targetPort);
          const reason = `no container of its pods, as ${nameOf(manifest.key)}, has a port named ${name}`;
          report(service, `${path}.targetPort`, reason);
        } else if (onHost !== undefined && service.ownAddresses !== undefined && one.port !== target) {
          const where = `in pods on the host network, as ${nameOf(onHost.key)}`;
          const number = `${one.port}/${one.protocol}`;
          report(service, path, `port ${number} does not lead to ${target} ${where}: use ${target} there`);
        }
      });
  }
  return [...problems.values()];
}

/** The ports of containers, and those to which any Service leads. */
function usedPorts(manifest: Manifest, services: readonly Service[]): ReadonlySet<string> {
  const { spec } = manifest.pod;
  const containers = [...spec.containers, ...(spec.initContainers ?? [])];
  const ports = containers.flatMap((container) => container.ports ?? []);
  const targets = services
    .filter((service) => selects(service, manifest))
    .flatMap((service) => service.ports)
    .map((one) => ({ containerPort: targetPortOf(manifest, one), protocol: one.protocol }));
  return new Set(
    [...ports, ...targets].map(({ containerPort = 0, protocol = "TCP" }) => `${containerPort}/${protocol}`),
  );
}
