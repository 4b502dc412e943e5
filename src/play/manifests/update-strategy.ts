/** How the pods of a Deployment, StatefulSet or DaemonSet are made anew when it has changed, with Kubernetes' defaults. */
import { hostPortsOf } from "./check-ports.js";
import { makePod } from "./make-pod.js";
import type { UpdateStrategy } from "./manifest.js";
import { type Problem, type TypeOf, malformed } from "./schema.js";
import type { daemonSetStrategy, deploymentStrategy, statefulSetStrategy } from "./workload-schema.js";
import type { Claim, PodTemplate } from "./workloads.js";

interface Times {
  readonly minReadySeconds?: number | undefined;
  readonly progressDeadlineSeconds?: number | undefined;
}

const defaultDeadlineSeconds = 600;

export function deploymentUpdate(
  spec: Times & { readonly strategy?: TypeOf<typeof deploymentStrategy> | undefined },
  template: PodTemplate,
  { claims, replicas }: { readonly claims: readonly Claim[]; readonly replicas: number },
  problems: Problem[],
): UpdateStrategy {
  const { type = "RollingUpdate", rollingUpdate = {} } = spec.strategy ?? {};
  const given = { maxSurge: "25%", maxUnavailable: "25%", ...rollingUpdate };
  if (isZero(given.maxSurge) && isZero(given.maxUnavailable))
    problems.push(malformed("spec.strategy.rollingUpdate.maxUnavailable", "must not be 0 with maxSurge 0"));
  const surge = scaled(given.maxSurge, replicas, Math.ceil);
  return {
    type,
    isOrdered: false,
    maxUnavailable: scaled(given.maxUnavailable, replicas, Math.floor),
    ...surgeOf(template, claims, type === "Recreate" ? 0 : Math.min(replicas, surge)),
    minReadySeconds: spec.minReadySeconds ?? 0,
    progressDeadlineSeconds: spec.progressDeadlineSeconds ?? defaultDeadlineSeconds,
  };
}

/** On one node it has one pod. */
export function daemonSetUpdate(
  spec: Times & { readonly updateStrategy?: TypeOf<typeof daemonSetStrategy> | undefined },
  template: PodTemplate,
  claims: readonly Claim[],
): UpdateStrategy {
  const { type = "RollingUpdate", rollingUpdate: { maxSurge = 0, maxUnavailable = 1 } = {} } =
    spec.updateStrategy ?? {};
  return {
    type,
    isOrdered: false,
    maxUnavailable: isZero(maxSurge) ? 1 : scaled(maxUnavailable, 1, Math.ceil),
    ...surgeOf(template, claims, Math.min(1, scaled(maxSurge, 1, Math.ceil))),
    minReadySeconds: spec.minReadySeconds ?? 0,
  };
}

/** Also with podManagementPolicy Parallel, as in Kubernetes: that is for pods that are made and removed. */
export function statefulSetUpdate(
  spec: Times & { readonly updateStrategy?: TypeOf<typeof statefulSetStrategy> | undefined },
  replicas: number,
): UpdateStrategy {
  const { type = "RollingUpdate", rollingUpdate: { maxUnavailable = 1 } = {} } = spec.updateStrategy ?? {};
  return {
    type,
    isOrdered: true,
    maxUnavailable: Math.max(1, scaled(maxUnavailable, replicas, Math.floor)),
    surge: [],
    minReadySeconds: spec.minReadySeconds ?? 0,
  };
}

/** Pods that use what only one may use leave no room for another one. `claims`: of all namespaces. */
function surgeOf(
  template: PodTemplate,
  claims: readonly Claim[],
  number: number,
): Pick<UpdateStrategy, "surge" | "withoutSurge"> {
  if (number === 0) return { surge: [] };
  const [port] = hostPortsOf(template);
  if (port !== undefined)
    return { surge: [], withoutSurge: `each wants port ${port.port}/${port.protocol} of this host` };
  if (template.pod.spec.hostNetwork === true)
    return { surge: [], withoutSurge: "all are on the network of this host" };
  const { namespace, pod } = template;
  const used = new Set(pod.spec.volumes?.map((volume) => volume.persistentVolumeClaim?.claimName));
  const sole = claims.find((one) => one.isForOnePod && one.namespace === namespace && used.has(one.name));
  if (sole !== undefined)
    return { surge: [], withoutSurge: `claim ${sole.name} is for one pod (ReadWriteOncePod)` };
  const surge = Array.from({ length: number }, (_, index) =>
    makePod(template, { name: `${template.owner.name}-surge-${index}` }),
  );
  return { surge };
}

function isZero(value: number | string): boolean {
  return value === 0 || value === "0%";
}

function scaled(value: number | string, replicas: number, round: (value: number) => number): number {
  return typeof value === "number" ? value : round((Number.parseInt(value) * replicas) / 100);
}
