/** What the change does to each pod. Pure. */
import { dirname } from "node:path/posix";
import type { ContainerFact, EngineFacts, MigrationFacts, PodFact } from "../facts/facts.js";
import { type Finding, type Level, worstLevel } from "./finding.js";
import { containerOf, type MadeBy, makerOf, podName } from "../facts/maker.js";
import { configuredRuntime, type Target, targetNames, usesDocker } from "../kubelet/target.js";
import { type WayBackTarget, type NodeOfPod, wayBack } from "./way-back.js";

export interface PodVerdict extends MadeBy {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly sandboxId: string;
  readonly containers: number;
  readonly state: "running" | "not running";
  /** Plugin by the container's network: `cni`, `kubenet`, `host`, `docker` (no-op) or `unknown`. */
  readonly network: string;
  readonly level: Level;
  readonly verdict: string;
  /** Ids of the findings about this pod. */
  readonly findings: readonly string[];
}

type Draft = Omit<Finding, "subject" | "source">;

export function judgePods(
  facts: MigrationFacts,
  engine: EngineFacts,
  target: Target,
): { readonly pods: readonly PodVerdict[]; readonly findings: readonly Finding[] } {
  const findings: Finding[] = [];
  const pods = engine.pods.map((pod): PodVerdict => {
    const made = makerOf(pod);
    const own = findingsOf(facts, engine, pod, made, target);
    findings.push(...own);
    const level = worstLevel(own.map((finding) => finding.level));
    return {
      namespace: pod.namespace,
      name: pod.name,
      uid: pod.uid,
      sandboxId: pod.sandboxId,
      ...made,
      containers: pod.containers.length,
      state: pod.sandbox?.isRunning === true ? "running" : "not running",
      network: networkOf(facts, pod),
      level,
      verdict: verdictOf(level, made, target),
      findings: [...new Set(own.map(({ id }) => id))],
    };
  });
  return { pods, findings };
}

function verdictOf(level: Level, { maker }: MadeBy, target: Target): string {
  if (level === "restart") return "is made again";
  if (level === "lost") return "loses something";
  if (level === "change") return "continues, with a change";
  if (level === "blocked") return "blocked";
  return maker === "this program" && target === "dockershim" ? "stays as it is" : "adopted as it is";
}

export function networkOf({ network }: Pick<MigrationFacts, "network">, pod: PodFact): string {
  const mode = pod.sandbox?.networkMode ?? "";
  if (mode === "host") return "host";
  if (pod.record !== undefined && pod.record.plugin !== "" && mode === "none") return pod.record.plugin;
  if (mode === "none") return network.cached.get(pod.sandboxId) === "kubenet" ? "kubenet" : "cni";
  return mode === "default" || mode === "bridge" ? "docker" : "unknown";
}

function findingsOf(
  facts: MigrationFacts,
  engine: EngineFacts,
  pod: PodFact,
  made: MadeBy,
  target: Target,
): readonly Finding[] {
  const subject = `pod ${podName(pod)}`;
  const source = `engine ${engine.endpoint}: container ${pod.sandboxId.slice(0, 12)}`;
  const of = (draft: Draft): Finding => ({ ...draft, subject, source });
  if (!usesDocker(target)) return [of(madeAgain(target))];
  const found: Finding[] = [...judgeCheckpoints(facts, engine, pod, subject)];
  if (pod.sandbox === undefined) found.push(of(sandboxGone));
  else if (!pod.sandbox.isRunning) found.push(of(notRunning));
  if (target === "dockershim") found.push(...judgeAdoption(pod, made, of));
  else found.push(...judgeWayBack(engine, pod, made, target as WayBackTarget, of));
  if (networkOf(facts, pod) === "cni" && !pod.isCached && pod.sandbox?.isRunning === true)
    found.push(of(noCache));
  return found;
}

function madeAgain(target: Target): Draft {
  return {
    id: "pod-made-again",
    level: "restart",
    text: "all of its containers end and are made again, with a new address and empty logs",
    reason: `${targetNames[target]} does not see containers of Docker`,
    next: "drain the node before the switch, and remove Docker's containers after it",
  };
}

const sandboxGone: Draft = {
  id: "pod-without-sandbox",
  level: "restart",
  text: "its sandbox is gone; the kubelet makes the pod again",
  reason: "the containers name a sandbox that the engine does not have",
  next: "",
};

const notRunning: Draft = {
  id: "pod-not-running",
  level: "note",
  text: "its sandbox does not run; the kubelet removes it with any runtime",
  reason: "a sandbox whose container has ended is not ready",
  next: "",
};

const noCache: Draft = {
  id: "pod-without-cache",
  level: "change",
  text: "its network is torn down with the present CNI configuration, without the result of its set-up",
  reason: "no cached CNI result names it; plugins then may leave rules or an address",
  next: "do not change the CNI configuration while it runs, or delete the pod first",
};

function judgeCheckpoints(
  { checkpoints }: MigrationFacts,
  { endpoint }: EngineFacts,
  pod: PodFact,
  subject: string,
): Finding[] {
  return checkpoints
    .filter(({ sandboxId, flavour }) => sandboxId === pod.sandboxId && flavour === undefined)
    .map(({ path, reason }) => ({
      id: "checkpoint-corrupt",
      level: "change",
      subject,
      text: "its checkpoint is corrupt: host ports are released only as far as the CNI cache knows them",
      reason: reason ?? "",
      next: `delete the pod before the switch, or with no runtime running: dockershim checkpoint repair --directory ${dirname(path)} --docker-endpoint ${endpoint}`,
      source: path,
    }));
}

function judgeAdoption(pod: PodFact, { maker }: MadeBy, of: (draft: Draft) => Finding): Finding[] {
  if (maker === "this program") return [];
  const found: Finding[] = [];
  const linked = pod.containers.filter(({ log }) => log === "link");
  if (linked.length > 0)
    found.push(
      of({
        id: "pod-log-link",
        level: "note",
        text: "its logs stay links to Docker's files, which the kubelet cannot rotate",
        reason: "--adopted-logs=keep is the default, so that a return changes nothing",
        next: "--adopted-logs=convert, where logs of long-running pods must rotate",
      }),
    );
  if (pod.checkpoints.length === 0 && pod.sandbox !== undefined)
    found.push(
      of({
        id: "pod-without-checkpoint",
        level: "note",
        text: "it has no checkpoint; it is adopted by its container's labels",
        reason: "if its container is removed by hand, its network is released from the CNI cache alone",
        next: "",
      }),
    );
  return found;
}

function judgeWayBack(
  { facts: { defaultRuntime } }: EngineFacts,
  pod: PodFact,
  { maker }: MadeBy,
  target: WayBackTarget,
  of: (draft: Draft) => Finding,
): Finding[] {
  const node: NodeOfPod = { target, defaultRuntime };
  const found: Finding[] = [];
  for (const row of wayBack) {
    if (!row.targets.includes(target)) continue;
    const { id, level, text, reason, command } = row;
    const next = command === undefined ? row.next : `${row.next}: ${command(target)}`;
    const isTested = row.ofAnyMaker === true || maker === "this program";
    if (isTested && row.pod?.(pod, node) === true) found.push(of({ id, level, text, reason, next }));
    for (const container of pod.containers) {
      if (row.container === undefined || (row.ofAnyMaker !== true && !container.isMadeHere)) continue;
      if (row.container(container))
        found.push({ ...of({ id, level, text, reason, next }), subject: containerOf(pod, container) });
    }
  }
  return found;
}

/** Pods that the kubelet's runtime of now did not make and does not adopt as this program does. */
export function judgeHalfMigrated(
  facts: MigrationFacts,
  { endpoint, pods }: EngineFacts,
): readonly Finding[] {
  const { runtime, source } = configuredRuntime(facts);
  const foreign = pods.filter((pod) => {
    if (pod.sandbox?.isRunning !== true || runtime === "unknown" || runtime === "dockershim") return false;
    return !usesDocker(runtime) || makerOf(pod).maker === "this program";
  });
  if (runtime === "unknown" || foreign.length === 0) return [];
  return foreign.map((pod) => ({
    id: "half-migrated-pods",
    level: "change",
    subject: `pod ${podName(pod)}`,
    text: `the kubelet's files name ${targetNames[runtime]}, and ${makerOf(pod).maker} made it`,
    reason: usesDocker(runtime)
      ? "what the kubelet's runtime does not know of it is in docs/migrate/migrating.md, The way back"
      : "the kubelet's runtime does not see it, so it runs beside the pod that the kubelet makes",
    next: usesDocker(runtime)
      ? `finish the change: dockershim migrate plan, or see migrate check --to ${runtime}`
      : "remove it with docker rm when the kubelet's own pod runs",
    source: `${source}; engine ${endpoint}`,
  }));
}

/** Containers that look like those of a pod, but that no runtime lists. */
export function judgeForeign({ endpoint, foreign }: EngineFacts): readonly Finding[] {
  return foreign.map((container: ContainerFact) => ({
    id: "container-foreign",
    level: "note",
    subject: `container ${container.name}`,
    text: "it has labels of a pod, and a name that no runtime can read: no CRI server lists or removes it",
    reason: "the name is not k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT",
    next: `docker inspect ${container.id.slice(0, 12)}, and remove it when it is not needed`,
    source: `engine ${endpoint}: container ${container.id.slice(0, 12)}`,
  }));
}
