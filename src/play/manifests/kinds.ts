/** What play does with the kinds that it does not read: they are passed over or refused, with a reason. */
import { needsApiServer, singleNode } from "./readers.js";
import type { Problem } from "./schema.js";

type Verdict = Pick<Problem, "kind" | "reason">;

const passed = (reason: string): Verdict => ({ kind: "passedOver", reason });
const refused = (reason: string): Verdict => ({ kind: "notHonoured", reason });

const noController = "has no controller here";

/** By kind, with the groups that have it. `""` is the core group. */
const verdicts: readonly (readonly [group: RegExp, kind: RegExp, verdict: Verdict])[] = [
  [/^$/, /^Namespace$/, passed("namespaces need not be made")],
  [/^$/, /^(ResourceQuota|LimitRange)$/, passed("play sets no limits of its own")],
  [/^$/, /^PersistentVolume$/, passed("every claim is a local volume of its own")],
  [/^$/, /^(Endpoints)$/, refused("not honoured: a service has the addresses of its pods")],
  [/^discovery\.k8s\.io$/, /./, refused("not honoured: a service has the addresses of its pods")],
  [/^$/, /^(Node|Event|Binding|PodTemplate|ComponentStatus)$/, passed(needsApiServer)],
  [
    /^(networking\.k8s\.io|extensions)$/,
    /^Ingress$/,
    passed(
      "there is no ingress controller: reach the pods by a Service of the type NodePort, " +
        "or by `dockershim pod port-forward POD PORT`",
    ),
  ],
  [/^(networking\.k8s\.io|extensions)$/, /^NetworkPolicy$/, passed("play does not filter traffic")],
  [/^gateway\.networking\.k8s\.io$/, /./, passed("there is no gateway: use a Service of the type NodePort")],
  [/^autoscaling$/, /./, passed("the number of pods does not change by itself: use --replicas")],
  [/^policy$/, /^PodDisruptionBudget$/, passed(singleNode)],
  [/^(policy|extensions)$/, /^PodSecurityPolicy$/, passed(needsApiServer)],
  [/^(storage|snapshot\.storage)\.k8s\.io$/, /./, passed("every claim is a local volume of its own")],
  [/^scheduling\.k8s\.io$/, /./, passed(singleNode)],
  [/^node\.k8s\.io$/, /^RuntimeClass$/, passed("runtimeClassName is the name of the handler")],
  [/^resource\.k8s\.io$/, /./, passed("needs a driver for dynamic resource allocation")],
  [
    /^kustomize\.config\.k8s\.io$/,
    /./,
    refused("is for kustomize: run `kustomize build DIRECTORY | dockershim play -`"),
  ],
  [/^skaffold$/, /^Config$/, passed("is the configuration of skaffold")],
  [
    /^(rbac\.authorization|apiextensions|admissionregistration|apiregistration|certificates|coordination|events|flowcontrol\.apiserver)\.k8s\.io$/,
    /./,
    passed(needsApiServer),
  ],
];

/** apiVersion of the kinds that play reads. */
export const readVersions: Readonly<Record<string, string>> = {
  Pod: "v1",
  ReplicationController: "v1",
  ConfigMap: "v1",
  Secret: "v1",
  PersistentVolumeClaim: "v1",
  Service: "v1",
  ServiceAccount: "v1",
  Deployment: "apps/v1",
  ReplicaSet: "apps/v1",
  StatefulSet: "apps/v1",
  DaemonSet: "apps/v1",
  Job: "batch/v1",
  CronJob: "batch/v1",
};

/** For any kind and version but those of `readVersions`. */
export function verdictOf(apiVersion: string, kind: string): Verdict {
  const slash = apiVersion.indexOf("/");
  const group = slash === -1 ? "" : apiVersion.slice(0, slash);
  const [, , known] = verdicts.find(([groups, kinds]) => groups.test(group) && kinds.test(kind)) ?? [];
  if (known !== undefined) return known;
  // Knative has a Service of its own group, and many groups have a Cluster or a Job.
  const isCustom = group.includes(".") && !group.endsWith(".k8s.io");
  const version = Object.hasOwn(readVersions, kind) ? readVersions[kind] : undefined;
  const named = JSON.stringify(`${apiVersion} ${kind}`);
  if (version !== undefined && !isCustom) {
    return refused(`${named} is not served by Kubernetes 1.36: the apiVersion of a ${kind} is ${version}`);
  }
  if (isCustom) return passed(`is a custom resource and ${noController}`);
  return refused(`${named} is not a kind that play knows`);
}
