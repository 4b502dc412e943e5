/** Services as names of pods: `svc/web`. The CRI knows none, so that those of detached plays are meant. */
import { messageOf, ShimError } from "../../lib/errors.js";
import { parseReplicas } from "../manifests/manifest-files.js";
import { readWorkloads } from "../manifests/read-manifests.js";
import type { Service, Workloads } from "../manifests/workloads.js";
import { hasLabels, type LabelTerm, type PodName } from "../pod-commands/pod-names.js";
import type { PortPair } from "../pod-commands/forward-ports.js";
import type { PlayStore } from "../store/play-store.js";
import type { PodContext, PodRequest } from "./pod-context.js";

type Context = Pick<PodContext, "report"> & { readonly store: Pick<PlayStore, "list"> };

/** With the labels of its Services' pods, and ports of pods in place of ports of Services. */
export async function resolveServices(request: PodRequest, context: Context): Promise<PodRequest> {
  if ("selection" in request) {
    const pods = await Promise.all(
      request.selection.pods.map(async (name) => (await resolve(name, context)).name),
    );
    return { ...request, selection: { ...request.selection, pods } };
  }
  const { name, portOf } = await resolve(request.pod, context);
  return request.verb === "port-forward"
    ? { ...request, pod: name, pairs: request.pairs.map(portOf) }
    : { ...request, pod: name };
}

interface Resolved {
  readonly name: PodName;
  readonly portOf: (pair: PortPair) => PortPair;
}

async function resolve(name: PodName, context: Context): Promise<Resolved> {
  if (name.kind !== "Service") return { name, portOf: (pair) => pair };
  const { service, workloads } = await findService(name, context);
  if (service.selector === undefined)
    throw new ShimError("invalid", `${textOf(name)}: it has no pods of its own`);
  const labels = Object.entries(service.selector).map(([key, value]): LabelTerm => ({
    key,
    values: [value],
    is: "in",
  }));
  return {
    name: { ...name, labels },
    portOf: ({ local, remote }) => ({ local, remote: targetOf(remote, service, labels, workloads) }),
  };
}

async function findService(
  name: PodName,
  { store, report }: Context,
): Promise<{ readonly service: Service; readonly workloads: Workloads }> {
  for (const { files, replicas, schedule, localVolumes } of await store.list(report)) {
    try {
      const options = { replicas: parseReplicas(replicas), schedule, localVolumes };
      const workloads = await readWorkloads(files, options);
      const isMeant = (one: Service): boolean => one.name === name.name && one.namespace === name.namespace;
      const service = workloads.services.find(isMeant);
      if (service !== undefined) return { service, workloads };
    } catch (error) {
      report(messageOf(error));
    }
  }
  throw new ShimError(
    "notFound",
    `${textOf(name)}: no play with --detach has it; name a pod: "dockershim pod ps -l KEY=VALUE" lists those of a selector`,
  );
}

function targetOf(port: number, service: Service, labels: readonly LabelTerm[], { pods }: Workloads): number {
  const target = service.ports.find((each) => each.port === port)?.targetPort;
  if (typeof target === "number") return target;
  const ports = pods
    .filter(
      ({ key, pod }) => key.namespace === service.namespace && hasLabels(pod.metadata.labels ?? {}, labels),
    )
    .flatMap(({ pod }) => pod.spec.containers.flatMap((container) => container.ports ?? []));
  const named = target === undefined ? undefined : ports.find(({ name }) => name === target);
  if (named !== undefined) return named.containerPort;
  const known = service.ports.map((each) => each.port).join(", ");
  throw new ShimError(
    "notFound",
    `${textOf(service)}: port ${port} leads to no port of a pod; it has: ${known}`,
  );
}

function textOf({ namespace, name }: Pick<PodName, "namespace" | "name">): string {
  return `Service "${namespace}/${name}"`;
}
