/** The pods and the claims of a StatefulSet. */
import type { Item } from "./collect.js";
import { makeClaim } from "./index-objects.js";
import { makePod } from "./make-pod.js";
import type { Manifest } from "./manifest.js";
import type { ReadTemplate, StatefulSet } from "./workload-schema.js";
import { statefulSetUpdate } from "./update-strategy.js";
import type { Claim, PodTemplate } from "./workloads.js";

/** Each pod has a claim `CLAIM-POD` for each template. With OrderedReady it waits for the one before. */
export function statefulPods(
  item: Item<StatefulSet>,
  count: number,
  templateOf: (template: ReadTemplate) => PodTemplate | undefined,
): { readonly pods: readonly Manifest[]; readonly claims: readonly Claim[] } {
  const { spec } = item.value;
  const claimTemplates = spec.volumeClaimTemplates ?? [];
  const names = claimTemplates.map(({ metadata }) => metadata.name);
  const others = (spec.template.spec.volumes ?? []).filter(({ name }) => !names.includes(name));
  // The claim's name is a stand-in until the pod has a name.
  const volumes = [...others, ...names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))];
  const subdomain = spec.serviceName ?? spec.template.spec.subdomain;
  const template = templateOf({
    ...spec.template,
    spec: { ...spec.template.spec, volumes, ...(subdomain === undefined ? {} : { subdomain }) },
  });
  const pods: Manifest[] = [];
  const claims: Claim[] = [];
  if (template === undefined) return { pods, claims };
  const start = spec.ordinals?.start ?? 0;
  const update = statefulSetUpdate(spec, count);
  const partition = spec.updateStrategy?.rollingUpdate?.partition ?? 0;
  for (let ordinal = start; ordinal < start + count; ordinal += 1) {
    const name = `${item.name}-${ordinal}`;
    const index = String(ordinal);
    const own = names.map((claim) => ({
      name: claim,
      persistentVolumeClaim: { claimName: `${claim}-${name}` },
    }));
    const pod = { ...template.pod, spec: { ...template.pod.spec, volumes: [...others, ...own] } };
    const labels = { "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": index };
    const made = makePod({ ...template, pod }, { name, labels, hostname: name });
    const stays = update.type === "OnDelete" || ordinal < partition;
    const staysBy = update.type === "OnDelete" ? "updateStrategy OnDelete" : `partition ${partition}`;
    const manifest = { ...made, update, ...(stays ? { staysBy } : {}) };
    const isOrdered = spec.podManagementPolicy !== "Parallel" && ordinal > start;
    pods.push(isOrdered ? { ...manifest, startsAfter: `${item.name}-${ordinal - 1}` } : manifest);
    for (const { metadata, spec: claim } of claimTemplates)
      claims.push(makeClaim({ ...item, name: `${metadata.name}-${name}` }, claim, template.owner));
  }
  return { pods, claims };
}
