/** `dockershim pod down`. */
import { posix } from "node:path";
import type { ConnectedClient } from "../cri/client.js";
import type { Manifest, PodKey } from "../manifests/manifest.js";
import type { ObjectKey, Removal } from "../manifests/workloads.js";
import { type ListedRecord, listPodRecords } from "../node/pod-record.js";
import { defaultDirectories } from "../pod-config/pod-paths.js";
import { findPod, findPods } from "../pod-commands/find-pod.js";
import { hasLabels, type PodSelection } from "../pod-commands/pod-names.js";
import { podsToRemove, removePods, takenFromSupervisor } from "../session/remove-pods.js";
import { PlayStore, workloadName } from "../store/play-store.js";
import { isKind, ShimError } from "../../lib/errors.js";
import { podDeps } from "./play-deps.js";
import { openEngineAccess } from "./open-engine-access.js";
import type { PodContext, RequestOf } from "./pod-context.js";

export async function removeNamed(
  { selection, graceSeconds }: RequestOf<"down">,
  { endpoint, client, report, signal }: PodContext,
): Promise<number> {
  const paths = { endpoint, directories: defaultDirectories, report };
  await using access = await openEngineAccess(client, await client.status(signal), paths, signal);
  const deps = podDeps(client, access, { report });
  const records = await listPodRecords({ ...deps, report: () => undefined }); // podsToRemove reports.
  const store = new PlayStore(posix.join(defaultDirectories.state, "plays.d"), endpoint);
  const keys: PodKey[] = [];
  const owners: Owned[] = [];
  for (const { namespace, name, kind } of selection.pods) {
    if (kind === undefined)
      keys.push(await keyToRemove(client, keptKey({ namespace, name }, records), signal));
    else owners.push({ kind, namespace, name, source: "" });
  }
  if (selection.pods.length === 0) keys.push(...(await selectedKeys(selection, client, records, signal)));
  const stored = await storedNames(selection, store);
  // The supervisor would make them again after a reboot. Those of a Deployment belong to it.
  const names = new Set([
    ...keys.map((key) => workloadName({ ...key, kind: "Pod" })),
    ...owners.map(workloadName),
    ...(isAll(selection) ? stored : []),
  ]);
  const { failed, unknown } = await takenFromSupervisor(store, names, report, async () => {
    const wanted = { pods: keys.map((key) => ({ source: "", key })), owners };
    const { pods, missing } = await podsToRemove(wanted, deps, signal);
    for (const { kind, namespace, name } of missing)
      report(`${namespace}/${name}: no pod of the ${kind} is there`);
    if (pods.length + missing.length === 0) report("no pod of play is there: nothing to remove");
    const removed = await removePods(pods, deps, signal, { graceSeconds });
    return { ...removed, unknown: missing.filter((owner) => !stored.includes(workloadName(owner))) };
  });
  return failed > 0 || unknown.length > 0 ? 1 : 0;
}

type Owned = Removal["owners"][number];

/** With the uid of the pod's record, or none. */
function keptKey(pod: ObjectKey, records: readonly Manifest[]): PodKey {
  const isSame = ({ key }: Manifest): boolean => key.namespace === pod.namespace && key.name === pod.name;
  return records.find(isSame)?.key ?? { ...pod, uid: "" };
}

/** What play has made at this server, also where only its files are left. */
export async function selectedKeys(
  selection: PodSelection,
  client: Parameters<typeof findPods>[0],
  records: readonly ListedRecord[],
  signal: AbortSignal,
): Promise<readonly PodKey[]> {
  const { namespace, labels } = selection;
  const found = (await findPods(client, selection, signal))
    .filter(({ isPlayed }) => isPlayed)
    .map(({ sandbox, ...pod }) => ({ ...pod, uid: sandbox.metadata?.uid ?? "" }));
  const isFound = ({ key }: Manifest): boolean =>
    found.some((pod) => pod.namespace === key.namespace && pod.name === key.name);
  const kept = records.filter(
    ({ key, pod, isOfThisServer }) =>
      isOfThisServer &&
      (namespace === undefined || key.namespace === namespace) &&
      hasLabels(pod.metadata.labels ?? {}, labels),
  );
  return [
    ...found.map(({ namespace: of, name, uid }) => ({ namespace: of, name, uid })),
    ...kept.filter((record) => !isFound(record)).map(({ key }) => key),
  ];
}

function isAll({ pods, labels }: PodSelection): boolean {
  return pods.length === 0 && labels.length === 0;
}

/** Also of workloads that have no pod now. */
async function storedNames({ namespace }: PodSelection, store: PlayStore): Promise<readonly string[]> {
  const names = (await store.list(() => undefined)).flatMap(({ workloads }) => workloads);
  return namespace === undefined ? names : names.filter((name) => name.startsWith(`${namespace} `));
}

/** `kept`: with the uid of the pod's record, or none. A pod whose containers are gone may have files still. */
async function keyToRemove(client: ConnectedClient, kept: PodKey, signal: AbortSignal): Promise<PodKey> {
  try {
    const { namespace, name, isPlayed, sandbox } = await findPod(client, kept, signal);
    if (isPlayed) return { namespace, name, uid: sandbox.metadata?.uid ?? "" };
    // Another program has removed its containers: the server knows the name alone.
    if (kept.uid !== "" && sandbox.metadata?.uid === "") return kept;
  } catch (error) {
    if (isKind(error, "notFound") && kept.uid !== "") return kept;
    throw error;
  }
  throw new ShimError(
    "precondition",
    `pod "${kept.namespace}/${kept.name}": play did not make it, and removes nothing that it did not make`,
  );
}
