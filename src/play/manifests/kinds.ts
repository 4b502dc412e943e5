/** What play does with the kinds that it does not read: they are passed over or refused, with a reason. */
import { editDistance } from "../../shim/config/given.js";
import { needsApiServer, singleNode } from "./readers.js";
import type { Problem } from "./schema.js";

type Verdict = Pick<Problem, "kind" | "reason">;

const passed = (reason: string): Verdict => ({ kind: "passedOver", reason });
const refused = (reason: string): Verdict => ({ kind: "notHonoured", reason });

const localVolumes = passed("every claim is a local volume of its own");
const ofPods = refused("not honoured: a service has the addresses of its pods");
const noIngress = passed(
  "there is no ingress controller: reach the pods by a Service of the type NodePort, " +
    "or by `dockershim pod port-forward POD PORT`",
);

/** The groups of Kubernetes 1.36 with the kinds that play does not read. `""` is the core group. */
const ofKubernetes: readonly (readonly [groups: string, kinds: string, verdict?: Verdict])[] = [
  ["", "Namespace", passed("namespaces need not be made")],
  ["", "ResourceQuota LimitRange", passed("play sets no limits of its own")],
  ["", "PersistentVolume", localVolumes],
  ["", "Endpoints", ofPods],
  ["", "Node Event Binding PodTemplate ComponentStatus"],
  ["apps", "ControllerRevision"],
  ["batch", ""],
  [
    "autoscaling",
    "HorizontalPodAutoscaler Scale",
    passed("the number of pods does not change by itself: use --replicas"),
  ],
  ["policy", "PodDisruptionBudget", passed(singleNode)],
  ["policy", "Eviction"],
  ["policy extensions", "PodSecurityPolicy"],
  ["networking.k8s.io extensions", "Ingress IngressClass", noIngress],
  ["networking.k8s.io extensions", "NetworkPolicy", passed("play does not filter traffic")],
  ["networking.k8s.io", "IPAddress ServiceCIDR"],
  ["discovery.k8s.io", "EndpointSlice", ofPods],
  [
    "storage.k8s.io",
    "StorageClass VolumeAttachment CSINode CSIDriver CSIStorageCapacity VolumeAttributesClass",
    localVolumes,
  ],
  ["scheduling.k8s.io", "PriorityClass PodGroup Workload", passed(singleNode)],
  ["node.k8s.io", "RuntimeClass", passed("runtimeClassName is the name of the handler")],
  [
    "resource.k8s.io",
    "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice",
    passed("needs a driver for dynamic resource allocation"),
  ],
  ["rbac.authorization.k8s.io", "Role RoleBinding ClusterRole ClusterRoleBinding"],
  ["apiextensions.k8s.io", "CustomResourceDefinition"],
  [
    "admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy " +
      "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
  ],
  ["apiregistration.k8s.io", "APIService"],
  ["certificates.k8s.io", "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest"],
  ["coordination.k8s.io", "Lease LeaseCandidate"],
  ["events.k8s.io", "Event"],
  ["flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"],
  ["authentication.k8s.io", "TokenReview TokenRequest SelfSubjectReview"],
  [
    "authorization.k8s.io",
    "SubjectAccessReview LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview",
  ],
  ["internal.apiserver.k8s.io", "StorageVersion"],
  ["storagemigration.k8s.io", "StorageVersionMigration"],
];

/** Groups of others, of which more is known than that they are others. */
const ofOthers: Readonly<Record<string, Verdict>> = {
  "gateway.networking.k8s.io": passed("there is no gateway: use a Service of the type NodePort"),
  "snapshot.storage.k8s.io": localVolumes,
  "kustomize.config.k8s.io": refused("is for kustomize: run `kustomize build DIRECTORY | dockershim play -`"),
  skaffold: passed("is the configuration of skaffold"),
};

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

/** A new kind of these would be one that runs something. */
const readGroups: ReadonlySet<string> = new Set(Object.values(readVersions).map(groupOf));

const groups: ReadonlySet<string> = new Set(ofKubernetes.flatMap(([names]) => names.split(" ")));

/** For other kinds and versions: passed over, and refused where it looks like a slip of the keyboard. */
export function verdictOf(apiVersion: string, kind: string): Verdict {
  const named = JSON.stringify(`${apiVersion} ${kind}`);
  const [, group = "", version] = /^(?:([a-z0-9.-]+)\/)?([a-z][a-z0-9-]*)$/.exec(apiVersion) ?? [];
  const unknown = (hint = ""): Verdict => refused(`${named} is not a kind that play knows${hint}`);
  const ofOther = Object.hasOwn(ofOthers, group) ? ofOthers[group] : undefined;
  if (ofOther !== undefined && version !== undefined) return ofOther;

  const isCore = group === "" && version === "v1";
  const isOfKubernetes = isCore || (group !== "" && groups.has(group));
  const hasVersion = isCore || /^v[1-9]\d?((alpha|beta)[1-9]\d?)?$/.test(version ?? "");
  const row = ofKubernetes.find(([names, kinds]) => has(names, group) && has(kinds, kind));
  if (row !== undefined && isOfKubernetes && hasVersion) return row[2] ?? passed(needsApiServer);

  const nearGroup = near(group, groups);
  // Knative has a Service of its own group, and many groups have a Cluster or a Job.
  const isCustom = group.includes(".") && !isOfKubernetes && nearGroup === undefined;
  const read = Object.hasOwn(readVersions, kind) ? readVersions[kind] : undefined;
  if (read !== undefined && !(isCustom && !group.endsWith(".k8s.io")))
    return refused(`${named} is not served by Kubernetes 1.36: the apiVersion of a ${kind} is ${read}`);
  if (isCustom && version !== undefined) return passed("is a custom resource and has no controller here");

  const [owners] = ofKubernetes.find(([, kinds]) => has(kinds, kind)) ?? [];
  if (owners !== undefined) {
    const [owner = ""] = owners.split(" ");
    return unknown(owner === "" ? `: its apiVersion is v1` : `: its apiVersion is ${owner}/v1 or the like`);
  }
  if (!isOfKubernetes || !hasVersion)
    return unknown(nearGroup === undefined ? "" : `: did you mean the API group ${nearGroup}?`);
  const nearKind = near(kind, kindsOf(group));
  if (nearKind !== undefined) return unknown(`: did you mean ${nearKind}?`);
  return readGroups.has(group) ? unknown() : passed(needsApiServer);
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "";
}

function has(words: string, word: string): boolean {
  return words.split(" ").includes(word);
}

function kindsOf(group: string): readonly string[] {
  const others = ofKubernetes.filter(([names]) => has(names, group)).flatMap(([, kinds]) => kinds.split(" "));
  return [
    ...Object.keys(readVersions).filter((kind) => groupOf(readVersions[kind] ?? "") === group),
    ...others,
  ];
}

/** New kinds have names like those that are there: no more than two letters may differ, and one in a short name. */
function near(name: string, known: Iterable<string>): string | undefined {
  const most = name.length > 4 ? 2 : 1;
  return [...known].find((one) => one.length > 2 && editDistance(name, one) <= most);
}
