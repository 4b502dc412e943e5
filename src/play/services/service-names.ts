/** Services and the addresses of pods → the names that pods find in /etc/hosts, and variables. Pure. */
import { isIPv4 } from "node:net";
import { podHostname } from "../pod-config/cri-config.js";
import type { HostsEntry } from "../pod-config/pod-services.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { matchesLabels } from "../manifests/selector.js";
import type { Service } from "../manifests/workloads.js";

/** A pod that has not ended. */
export interface Endpoint {
  readonly manifest: Manifest;
  /** None before its sandbox has one. */
  readonly addresses: readonly string[];
  readonly isReady: boolean;
}

export interface NamesInput {
  readonly services: readonly Service[];
  readonly endpoints: readonly Endpoint[];
  /** Addresses of the hosts that Services of the type ExternalName stand for. */
  readonly hosts: ReadonlyMap<string, readonly string[]>;
  /** Whether the pod that asks reaches the own addresses of Services. */
  readonly reachesOwn?: boolean;
}

/** A Service without a selector, and one with an empty selector, selects nothing. */
export function selects({ selector, namespace }: Service, { key, pod }: Manifest): boolean {
  if (selector === undefined || Object.keys(selector).length === 0 || key.namespace !== namespace)
    return false;
  return matchesLabels(selector, pod.metadata.labels ?? {});
}

/** Whether the Service has ports of its own that lead to those of the pods, as with an address in a cluster. */
export function hasOwnPorts({ type, isHeadless }: Service): boolean {
  return type !== "ExternalName" && !isHeadless;
}

/** The lines of /etc/hosts for all pods of a namespace. */
export function serviceEntries(namespace: string, input: NamesInput): readonly HostsEntry[] {
  return input.services.flatMap((service) => {
    const isOwn = service.namespace === namespace;
    const entry = (name: string, address: string): HostsEntry => {
      const full = `${name}.${service.namespace}`;
      const names = [full, `${full}.svc`, `${full}.svc.cluster.local`];
      return { address, names: isOwn ? [name, ...names] : names };
    };
    const own = addressesOf(service, input).map((address) => entry(service.name, address));
    return [...own, ...podNames(service, input, entry)];
  });
}

/** `POD.SERVICE` of the pods whose subdomain is the headless Service. */
function podNames(
  service: Service,
  { endpoints }: NamesInput,
  entry: (name: string, address: string) => HostsEntry,
): readonly HostsEntry[] {
  if (!service.isHeadless) return [];
  return endpoints
    .filter(({ manifest }) => selects(service, manifest) && manifest.pod.spec.subdomain === service.name)
    .flatMap(({ manifest, addresses }) =>
      addresses.map((address) => entry(`${podHostname(manifest)}.${service.name}`, address)),
    );
}

/** The Service's own, of the families of its pods; else those of its pods. */
export function addressesOf(service: Service, input: NamesInput): readonly string[] {
  if (service.externalName !== undefined) return externalAddresses(service.externalName, input);
  const ofPods = [...new Set(endpointsOf(service, input).flatMap(({ addresses }) => addresses))];
  if (service.ownAddresses === undefined || input.reachesOwn !== true) return ofPods;
  return service.ownAddresses.filter((own) => ofPods.some((address) => isIPv4(address) === isIPv4(own)));
}

/** Its ready pods; if none is ready, all of them, so that pods can wait for each other. */
export function endpointsOf(
  service: Service,
  { endpoints }: Pick<NamesInput, "endpoints">,
): readonly Endpoint[] {
  const own = endpoints.filter(({ manifest }) => selects(service, manifest));
  const ready = own.filter(({ isReady, addresses }) => isReady && addresses.length > 0);
  return ready.length === 0 || service.publishNotReadyAddresses ? own : ready;
}

function externalAddresses(host: string, input: NamesInput): readonly string[] {
  const service = serviceOfName(host, input.services);
  return service === undefined ? (input.hosts.get(host) ?? []) : addressesOf(service, input);
}

/** The Service that `NAME.NAMESPACE.svc.cluster.local` names, for ExternalNames that stand for another. */
function serviceOfName(host: string, services: readonly Service[]): Service | undefined {
  const [, name, namespace] = /^([^.]+)\.([^.]+)\.svc(?:\.cluster\.local)?\.?$/.exec(host) ?? [];
  return services.find(
    (one) => one.name === name && one.namespace === namespace && one.externalName === undefined,
  );
}

/** Host names that must be looked up. */
export function externalHosts(services: readonly Service[]): readonly string[] {
  const hosts = services.flatMap(({ externalName }) => (externalName === undefined ? [] : [externalName]));
  return [...new Set(hosts)].filter((host) => serviceOfName(host, services) === undefined);
}

/** `WEB_SERVICE_HOST` and those after it, as a kubelet sets them; only of Services that have an address. */
export function serviceEnvironment(
  { key, pod }: Pick<Manifest, "key" | "pod">,
  input: NamesInput,
): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  if (pod.spec.enableServiceLinks === false) return variables;
  for (const service of input.services) {
    const [address] = addressesOf(service, input);
    const [first] = service.ports;
    if (service.namespace !== key.namespace || !hasOwnPorts(service)) continue;
    if (address === undefined || first === undefined) continue;
    const name = variableName(service.name);
    const urlOf = ({ protocol, port }: { readonly protocol: string; readonly port: number }): string =>
      `${protocol.toLowerCase()}://${address.includes(":") ? `[${address}]` : address}:${port}`;
    variables.set(`${name}_SERVICE_HOST`, address).set(`${name}_SERVICE_PORT`, String(first.port));
    for (const one of service.ports) {
      if (one.name !== undefined)
        variables.set(`${name}_SERVICE_PORT_${variableName(one.name)}`, String(one.port));
    }
    variables.set(`${name}_PORT`, urlOf(first));
    for (const one of service.ports) {
      const prefix = `${name}_PORT_${one.port}_${one.protocol}`;
      variables.set(prefix, urlOf(one)).set(`${prefix}_PROTO`, one.protocol.toLowerCase());
      variables.set(`${prefix}_PORT`, String(one.port)).set(`${prefix}_ADDR`, address);
    }
  }
  return variables;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}
