/** NodePort and LoadBalancer → host ports of pods. Pure. */
import { createHash } from "node:crypto";
import type { PlacedProblem } from "../manifests/documents.js";
import { manifestHash } from "../manifests/make-pod.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { Service, ServicePort } from "../manifests/workloads.js";
import { targetPortOf } from "./redirects.js";
import { selects } from "./service-names.js";

export interface PublishedPort {
  /** `default/web` */
  readonly service: string;
  /** The pod that answers. */
  readonly pod: string;
  /** Port of the Service. */
  readonly port: number;
  readonly protocol: ServicePort["protocol"];
  readonly hostPort: number;
  /** `http://localhost:30080`, `localhost:5432`, `localhost:53/UDP` */
  readonly address: string;
}

export const publishedHeader = ["SERVICE", "PORT", "ADDRESS", "POD"] as const;

/** `host`: a name or an address by which the engine's host is reached from here. */
export function publishedRow(
  { service, port, protocol, address, pod }: PublishedPort,
  host = "localhost",
): readonly string[] {
  const shown = host.includes(":") ? `[${host}]` : host;
  return [service, `${port}/${protocol}`, address.replace("localhost", () => shown), pod];
}

export interface Publication {
  /** All pods; those that have new host ports have another hash. */
  readonly pods: readonly Manifest[];
  readonly published: readonly PublishedPort[];
  readonly problems: readonly PlacedProblem[];
}

/** Those of Kubernetes. */
const firstNodePort = 30_000;
const lastNodePort = 32_767;

interface Wish {
  readonly service: Service;
  readonly one: ServicePort;
  readonly index: number;
  /** Undefined: any. */
  readonly hostPort: number | undefined;
}

export function publishPorts(pods: readonly Manifest[], services: readonly Service[]): Publication {
  const result = [...pods];
  const problems: PlacedProblem[] = [];
  const published: PublishedPort[] = [];
  const taken = takenPorts(pods);
  const wishes = services
    .filter(({ type }) => type === "NodePort" || type === "LoadBalancer")
    .flatMap((service) => service.ports.map((one, index) => ({ ...wishOf(service, one), index })))
    // Numbers that are written come first; those that are free take what is left, in an order of their own.
    .sort((left, right) => rank(left) - rank(right) || order(left, right));

  for (const wish of wishes) {
    const { service, one, index } = wish;
    const { source, line, name } = service;
    const report = (kind: PlacedProblem["kind"], reason: string): void => {
      problems.push({ source, line, object: `Service ${name}`, path: `spec.ports[${index}]`, reason, kind });
    };
    const matching = result.filter((manifest) => selects(service, manifest));
    const [manifest] = matching;
    if (manifest === undefined) {
      report("passedOver", "is not published: no pod that is there from the beginning is selected");
      continue;
    }
    const target = targetPortOf(manifest, one);
    if (target === undefined) continue; // checkRedirects names it.
    const { protocol } = one;
    const pod = `${manifest.key.namespace}/${manifest.key.name}`;
    const mapping = `${pod} ${target}/${protocol}`;
    const wanted = `${wish.hostPort ?? 0}/${protocol}`;
    const other = taken.get(wanted);
    const isTaken = other !== undefined && other.mapping !== mapping;
    const why = `port ${wanted} of this host is wanted by ${other?.text ?? ""}, too`;
    if (isTaken && one.nodePort !== undefined) {
      report("notHonoured", why);
      continue;
    }
    const hostPort = (isTaken ? undefined : wish.hostPort) ?? freePort(wish, taken);
    if (hostPort === undefined) {
      report("notHonoured", "no port of this host is left for it");
      continue;
    }
    const number = `${hostPort}/${protocol}`;
    const owner = taken.get(number);
    if (manifest.pod.spec.hostNetwork === true && owner === undefined && hostPort !== target) {
      report("passedOver", `pod ${pod} is on the host network: use port ${target} instead of ${hostPort}`);
      continue;
    }
    // In a cluster, each LoadBalancer has an address of its own, and ports of the nodes.
    if (isTaken) report("passedOver", `${why}: it is published on port ${hostPort} instead`);
    if (owner === undefined) {
      taken.set(number, { mapping, text: `the Service ${service.namespace}/${name}` });
      if (manifest.pod.spec.hostNetwork !== true)
        result[result.indexOf(manifest)] = withHostPort(manifest, { target, protocol, hostPort });
    }
    if (matching.length > 1)
      report("passedOver", `port ${number} of this host reaches one of ${matching.length} pods, ${pod}`);
    const address = addressOf(one, target, hostPort);
    published.push({
      service: `${service.namespace}/${name}`,
      pod,
      port: one.port,
      protocol,
      hostPort,
      address,
    });
  }
  return { pods: result, published, problems };
}

function wishOf(service: Service, one: ServicePort): Omit<Wish, "index"> {
  return { service, one, hostPort: one.nodePort ?? (service.type === "LoadBalancer" ? one.port : undefined) };
}

function rank({ hostPort, one }: Pick<Wish, "hostPort" | "one">): number {
  if (one.nodePort !== undefined) return 0;
  return hostPort === undefined ? 2 : 1;
}

/** The sort keeps the order of the files. */
function order(left: Pick<Wish, "hostPort" | "service" | "one">, right: typeof left): number {
  if (left.hostPort !== undefined) return 0;
  return nameOf(left) < nameOf(right) ? -1 : 1;
}

function nameOf({ service, one }: Pick<Wish, "service" | "one">): string {
  return `${service.namespace}/${service.name}/${one.port}/${one.protocol}`;
}

interface Taken {
  /** Pod and port to which the host port leads. */
  readonly mapping: string;
  readonly text: string;
}

/** Host ports of the manifests themselves. One on a single address counts for all. */
function takenPorts(pods: readonly Manifest[]): Map<string, Taken> {
  const taken = new Map<string, Taken>();
  for (const { key, pod } of pods) {
    const name = `${key.namespace}/${key.name}`;
    for (const { containerPort, hostPort, protocol = "TCP" } of portsOf(pod.spec)) {
      const number = hostPort ?? (pod.spec.hostNetwork === true ? containerPort : undefined);
      if (number === undefined) continue;
      const mapping = `${name} ${containerPort}/${protocol}`;
      taken.set(`${number}/${protocol}`, { mapping, text: `the pod ${name}` });
    }
  }
  return taken;
}

function portsOf({ containers }: PodSpec): NonNullable<Container["ports"]> {
  return containers.flatMap(({ ports = [] }) => ports);
}

/** The same one for the same Service, as long as no other takes it. */
function freePort(wish: Wish, taken: ReadonlyMap<string, unknown>): number | undefined {
  const count = lastNodePort - firstNodePort + 1;
  const start = createHash("sha256").update(nameOf(wish)).digest().readUInt32BE(0);
  for (let step = 0; step < count; step += 1) {
    const port = firstNodePort + ((start + step) % count);
    if (!taken.has(`${port}/${wish.one.protocol}`)) return port;
  }
  return undefined;
}

/** The port's own container gets the host port; the first container, when none names the port. */
function withHostPort(
  manifest: Manifest,
  added: { readonly target: number; readonly protocol: ServicePort["protocol"]; readonly hostPort: number },
): Manifest {
  const { pod, objects } = manifest;
  const { target, protocol, hostPort } = added;
  const isPort = (one: NonNullable<Container["ports"]>[number]): boolean =>
    one.containerPort === target && (one.protocol ?? "TCP") === protocol;
  const { containers } = pod.spec;
  const owner = containers.find(({ ports = [] }) => ports.some(isPort)) ?? containers[0];
  const changed = containers.map((container) => {
    if (container !== owner) return container;
    const { ports = [] } = container;
    const free = ports.find((one) => isPort(one) && one.hostPort === undefined);
    if (free === undefined)
      return { ...container, ports: [...ports, { containerPort: target, protocol, hostPort }] };
    return { ...container, ports: ports.map((one) => (one === free ? { ...one, hostPort } : one)) };
  });
  const made = { ...pod, spec: { ...pod.spec, containers: changed } };
  return { ...manifest, pod: made, hash: manifestHash(made, objects) };
}

const httpPorts: ReadonlySet<number> = new Set([80, 3000, 5000, 8000, 8080, 8888]);
const httpsPorts: ReadonlySet<number> = new Set([443, 8443]);

/** Whether it is HTTP is a guess from names and numbers. */
function addressOf({ name = "", port, protocol, targetPort }: ServicePort, target: number, hostPort: number) {
  if (protocol !== "TCP") return `localhost:${hostPort}/${protocol}`;
  const names = [name, typeof targetPort === "string" ? targetPort : ""].filter((text) => text !== "");
  const isNamed = (pattern: RegExp): boolean => names.some((text) => pattern.test(text));
  const isAmong = (ports: ReadonlySet<number>): boolean =>
    names.length === 0 && (ports.has(port) || ports.has(target));
  if (isNamed(/^https\b/) || isAmong(httpsPorts)) return `https://localhost:${hostPort}`;
  if (isNamed(/^(http|web)\b/) || isAmong(httpPorts)) return `http://localhost:${hostPort}`;
  return `localhost:${hostPort}`;
}
