/** The flags that this program needs to make pods as the runtime of now makes them. Pure. */
import type { Option } from "../../shim/config/option.js";
import { optionList } from "../../shim/config/options.js";
import type { FlagFact, MigrationFacts } from "../facts/facts.js";
import { lastFlag } from "./flags.js";
import { runsThisProgram } from "./target.js";

/** Flags of the kubelet's dockershim, with the name of this program's flag. */
const kubeletFlags: readonly string[] = [
  ...["network-plugin", "cni-conf-dir", "cni-bin-dir", "cni-cache-dir", "network-plugin-mtu"],
  ...["hairpin-mode", "non-masquerade-cidr", "pod-cidr", "docker-endpoint", "pod-infra-container-image"],
  ...["image-pull-progress-deadline", "experimental-dockershim-root-directory"],
];

/** Flags of cri-dockerd that are not taken over: the socket stays its own. */
const notTaken: readonly string[] = ["container-runtime-endpoint", "log-level"];
const criDockerdRoot = "cri-dockerd-root-directory";

/** The configuration of the program that serves now, as flags of this program. */
export function presentFlags(
  { kubelet, services }: MigrationFacts,
  from: string,
): ReadonlyMap<string, string> {
  if (from === "cri-dockerd") {
    const flags = services.criDocker?.flags ?? [];
    const known = new Set(optionList.flatMap(([, { name, aliases = [] }]) => [name, ...aliases]));
    const names = [...new Set(flags.map(({ name }) => name))].filter(
      (name) => known.has(name) && !notTaken.includes(name) && !isDefaultRoot(name, flags),
    );
    const taken = names.map((name) => [name, lastFlag(flags, name)?.value ?? ""] as const);
    return new Map(names.includes("network-plugin") ? taken : [["network-plugin", "cni"], ...taken]);
  }
  if (from !== "dockershim-in-tree") return new Map();
  const flags = kubelet.service?.flags ?? [];
  const taken = kubeletFlags.flatMap((name) => {
    const value = lastFlag(flags, name)?.value;
    return value === undefined || value === "" ? [] : [[name, value] as const];
  });
  const hasPlugin = (lastFlag(flags, "network-plugin")?.value ?? "") !== "";
  // The kubelet's default is no network plugin; this program would look for CNI.
  return new Map(hasPlugin ? taken : [["network-plugin", "no-op"], ...taken]);
}

/** A flag of the unit that is there, which says something else than the runtime of now. */
export interface UnitDifference {
  /** Without dashes, as the unit or the runtime has it. */
  readonly name: string;
  /** Undefined: not given. */
  readonly unit: string | undefined;
  readonly runtime: string | undefined;
  /** Where the unit has it. */
  readonly place: string | undefined;
}

/**
 * Where the unit of this program would make other pods than the runtime of now. Flags that only this program has, and
 * other spellings and defaults of one value, are no difference.
 */
export function unitDifferences(facts: MigrationFacts, from: string): readonly UnitDifference[] {
  const { dockershim, criDocker } = facts.services;
  if (dockershim?.unit.isMasked !== false || runsThisProgram(criDocker?.command)) return [];
  if (from !== "cri-dockerd" && from !== "dockershim-in-tree") return [];
  const wanted = presentFlags(facts, from);
  return optionList.flatMap(([, option]): readonly UnitDifference[] => {
    const names = [option.name, ...(option.aliases ?? [])];
    const taken = names.find((name) => wanted.has(name));
    // Where it keeps its own files is not the other's matter.
    const counts = names.some((name) => kubeletFlags.includes(name)) && option.name !== "state-dir";
    if (taken === undefined && !counts) return [];
    const given = dockershim.flags.findLast(({ name }) => names.includes(name));
    const runtime = taken === undefined ? undefined : wanted.get(taken);
    if (effective(option, given?.value) === effective(option, runtime)) return [];
    const place = given === undefined ? undefined : `${given.file}:${given.line}`;
    return [{ name: given?.name ?? taken ?? option.name, unit: given?.value, runtime, place }];
  });
}

/** One spelling of each value. */
function effective({ kind, default: fallback }: Option<unknown>, value = fallback): string {
  try {
    return JSON.stringify(kind.format(kind.parse(value)));
  } catch {
    // The program would refuse it: then only the same text is the same.
    return value;
  }
}

/** This program reads checkpoints there in any case; those of another directory only as its own state. */
function isDefaultRoot(name: string, flags: readonly FlagFact[]): boolean {
  return name === criDockerdRoot && lastFlag(flags, name)?.value === "/var/lib/cri-dockerd";
}
