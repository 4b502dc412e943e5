/** What is given to `dockershim pod`, checked and read. */
import { isIP } from "node:net";
import { ShimError } from "../../lib/errors.js";
import { wrongFlag } from "../../cli/flag-values.js";
import type { FileSpec } from "../pod-commands/copy-files.js";
import {
  isKindOfPods,
  parseLabels,
  parsePodName,
  type PodName,
  type PodSelection,
} from "../pod-commands/pod-names.js";
import type { PsOutput } from "../pod-commands/pod-summary.js";
import type { WaitFor } from "./pod-context.js";

export interface Given {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
  readonly selector?: string;
  readonly all?: boolean;
  readonly endpoint?: string;
  readonly container?: string;
  readonly output?: PsOutput;
  readonly quiet?: boolean;
  readonly headers?: boolean;
  readonly watch?: boolean;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly tail?: string;
  readonly since?: string;
  readonly sinceTime?: string;
  readonly limitBytes?: string;
  readonly timestamps?: boolean;
  readonly prefix?: boolean;
  readonly allContainers?: boolean;
  readonly allPods?: boolean;
  readonly ignoreErrors?: boolean;
  readonly stdin?: boolean;
  readonly tty?: boolean;
  readonly address?: string;
  readonly containers?: boolean;
  readonly sortBy?: "cpu" | "memory";
  readonly for?: string;
  readonly timeout?: string;
  readonly filename?: readonly string[];
  readonly gracePeriod?: string;
}

/** One pod, or one of a workload. */
export function named(args: readonly string[], { namespace }: Given, verb: string): PodName {
  const [name, ...rest] = args;
  if (name === undefined || rest.length > 0)
    throw new ShimError("invalid", `command "pod ${verb}": needs the name of one pod`);
  return parsePodName(name, namespace);
}

export function selectionOf(given: Given, args: readonly string[]): PodSelection {
  const { namespace, allNamespaces = false, all = false, selector } = given;
  const hasOthers = args.length > 1 || selector !== undefined || allNamespaces || all;
  // As of kubectl: `wait pod -l app=web`, `describe pod web`.
  if (hasOthers && args[0] !== undefined && isKindOfPods(args[0])) args = args.slice(1);
  if (args.length > 0 && (selector !== undefined || allNamespaces || all))
    throw new ShimError("invalid", `pod ${JSON.stringify(args[0])}: names exclude --selector, --all and -A`);
  return {
    pods: args.map((name) => parsePodName(name, namespace)),
    namespace: allNamespaces ? undefined : namespace,
    labels: selector === undefined ? [] : parseLabels(selector),
  };
}

/** As kubectl: without names it is the default namespace, unless `-A` is given. */
export function ofNamespace(
  selection: PodSelection,
  { allNamespaces = false, namespace = "default" }: Given,
): PodSelection {
  return selection.pods.length > 0 || allNamespaces ? selection : { ...selection, namespace };
}

export function filesOf(
  { filename = [], selector, all, allNamespaces }: Given,
  args: readonly string[],
): readonly string[] {
  if (args.length > 0 || selector !== undefined || all === true || allNamespaces === true)
    throw new ShimError("invalid", 'command "pod down": names, --selector, --all and -A exclude --filename');
  return filename;
}

export function parseWaitFor(text: string): WaitFor {
  const [, phase] = /^jsonpath='?\{\.status\.phase\}'?=([A-Z][a-z]+)$/.exec(text) ?? [];
  if (phase !== undefined) return { what: "phase", phase };
  if (/^condition=ready(=true)?$/i.test(text)) return { what: "ready" };
  if (text === "delete") return { what: "delete" };
  const ofJob = /^condition=(complete|failed)/i.test(text) ? '; for Jobs: "dockershim play --wait FILE"' : "";
  throw wrongFlag("--for", text, `must be condition=Ready, delete or jsonpath={.status.phase}=PHASE${ofJob}`);
}

export function isCopy(source: FileSpec, target: FileSpec): boolean {
  return (source.pod === undefined) !== (target.pod === undefined);
}

export function count(flag: string, text: string, what: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw wrongFlag(flag, text, `must be a number of ${what}${flag === "--tail" ? ", or -1" : ""}`);
}

/** An address that is no text of one, as that of an empty variable, would be all of the host's. */
export function parseAddresses(text: string): readonly string[] {
  const addresses = text.split(",").map((each) => (each === "localhost" ? "127.0.0.1" : each));
  if (addresses.every((each) => isIP(each) !== 0)) return [...new Set(addresses)];
  throw wrongFlag("--address", text, "must be IP addresses, or localhost, with commas between them");
}

/** RFC 3339. */
export function parseTime(flag: string, text: string): number {
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text)
    ? Date.parse(text)
    : NaN;
  if (Number.isNaN(time)) throw wrongFlag(flag, text, "must be a time as 2026-01-31T10:00:00Z");
  return time;
}
