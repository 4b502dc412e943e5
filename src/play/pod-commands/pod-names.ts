/** Pods as command lines name them: by name, by workload, or by labels. Pure. */
import { ShimError } from "../../lib/errors.js";

export interface PodName {
  readonly namespace: string;
  readonly name: string;
  /** A workload or a Service of that name, whose pods are meant. */
  readonly kind?: string;
  /** Of a Service, when it is known which ones these are. */
  readonly labels?: readonly LabelTerm[];
}

/** The pods that are named, else those of the namespace, or of all, that have the labels. */
export interface PodSelection {
  readonly pods: readonly PodName[];
  readonly namespace: string | undefined;
  readonly labels: readonly LabelTerm[];
}

/** `in`: the label has one of the values, or is there without any given; `notIn`: the opposite. */
export interface LabelTerm {
  readonly key: string;
  readonly values: readonly string[] | undefined;
  readonly is: "in" | "notIn";
}

/** The names that kubectl knows kinds by. Those of pods stand for nothing else. */
const kinds: ReadonlyMap<string, string> = new Map(
  (
    [
      ["Pod", "pod pods po"],
      ["Deployment", "deployment deployments deploy"],
      ["ReplicaSet", "replicaset replicasets rs"],
      ["ReplicationController", "replicationcontroller replicationcontrollers rc"],
      ["StatefulSet", "statefulset statefulsets sts"],
      ["DaemonSet", "daemonset daemonsets ds"],
      ["Job", "job jobs"],
      ["CronJob", "cronjob cronjobs cj"],
      ["Service", "service services svc"],
    ] as const
  ).flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind] as const)),
);

/** `pod`, `pods` or `po`. */
export function isKindOfPods(word: string): boolean {
  return kinds.get(word) === "Pod";
}

/** For a name that is none, as in `describe deploy web`. */
export function kindHint(word: string): string | undefined {
  const kind = kinds.get(word);
  if (kind === undefined) return undefined;
  return kind === "Pod" ? `leave "${word}" out` : `write ${word}/NAME`;
}

/** `NAME`, `NAMESPACE/NAME` or `KIND/NAME`, as `deploy/web`. Throws `invalid`. */
export function parsePodName(text: string, namespace: string | undefined): PodName {
  const parts = text.split("/");
  const [first = "", second] = parts;
  const name = second ?? first;
  const kind = second === undefined ? undefined : kinds.get(first.toLowerCase().replace(/\..*$/, ""));
  const given = second === undefined || kind !== undefined ? undefined : first;
  if (parts.length > 2 || name === "" || given === "")
    throw new ShimError("invalid", `pod ${JSON.stringify(text)}: write NAME, NAMESPACE/NAME or KIND/NAME`);
  if (given !== undefined && namespace !== undefined && given !== namespace)
    throw new ShimError("invalid", `pod ${JSON.stringify(text)}: --namespace names another namespace`);
  const pod = { namespace: given ?? namespace ?? "default", name };
  return kind === undefined || kind === "Pod" ? pod : { ...pod, kind };
}

/** `app=web,tier!=db,new,!old,zone in (a,b),zone notin (c)`. Throws `invalid`. */
export function parseLabels(text: string): readonly LabelTerm[] {
  return text.split(/,(?![^(]*\))/).map((part) => {
    const term = part.trim();
    const [, key = "", sign, value = ""] = /^([\w./-]+)\s*(==?|!=)\s*([\w.-]*)$/.exec(term) ?? [];
    if (sign !== undefined) return { key, values: [value], is: sign === "!=" ? "notIn" : "in" };
    const [, ofSet = "", how, list = ""] = /^([\w./-]+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(term) ?? [];
    if (how !== undefined)
      return {
        key: ofSet,
        values: list.split(",").map((each) => each.trim()),
        is: how === "in" ? "in" : "notIn",
      };
    const [, not, alone] = /^(!?)\s*([\w./-]+)$/.exec(term) ?? [];
    if (alone !== undefined) return { key: alone, values: undefined, is: not === "!" ? "notIn" : "in" };
    throw new ShimError(
      "invalid",
      `labels ${JSON.stringify(text)}: write KEY=VALUE, KEY!=VALUE, KEY, !KEY, "KEY in (A,B)" or "KEY notin (A,B)"`,
    );
  });
}

export function hasLabels(labels: Readonly<Record<string, string>>, terms: readonly LabelTerm[]): boolean {
  return terms.every(({ key, values, is }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    const isIn = value !== undefined && (values === undefined || values.includes(value));
    return isIn === (is === "in");
  });
}
