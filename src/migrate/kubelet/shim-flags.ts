/** The flags that this program needs to make pods as the runtime of now makes them. Pure. */
import type { Option } from "../../shim/config/option.js";
import { ignoredFlags } from "../../shim/config/other-flags.js";
import { optionList } from "../../shim/config/options.js";
import type { FlagFact, MigrationFacts } from "../facts/facts.js";
import { messageOf } from "../../lib/errors.js";
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
    const names = [...new Set(flags.map(({ name }) => name))].filter(
      (name) => !notTaken.includes(name) && !isDefaultRoot(name, flags),
    );
    const taken = startingFlags(flags, names);
    return new Map(names.includes("network-plugin") ? taken : [["network-plugin", "cni"], ...taken]);
  }
  if (from !== "dockershim-in-tree") return new Map();
  const flags = kubelet.service?.flags ?? [];
  const taken = startingFlags(flags, kubeletFlags).filter(([, value]) => value !== "");
  const hasPlugin = (lastFlag(flags, "network-plugin")?.value ?? "") !== "";
  // The kubelet's default is no network plugin; this program would look for CNI.
  return new Map(hasPlugin ? taken : [["network-plugin", "no-op"], ...taken]);
}

/** Flags of the runtime of now with values that this program does not start with, and that its unit has not. */
export function refusedFlags(
  { kubelet, services }: MigrationFacts,
  from: string,
): readonly { readonly place: string; readonly text: string }[] {
  const own = services.dockershim?.flags ?? [];
  const service = from === "cri-dockerd" ? services.criDocker : kubelet.service;
  if (!hasForeignFlags(from) || service === undefined || runsThisProgram(services.criDocker?.command))
    return [];
  return [...new Set(service.flags.map(({ name }) => name))].flatMap((name) => {
    const { value = "", file, line } = lastFlag(service.flags, name) ?? {};
    const option = from === "cri-dockerd" || kubeletFlags.includes(name) ? optionOf(name) : undefined;
    if (own.some((flag) => optionOf(flag.name) === option)) return [];
    const reason =
      value === "" || option === undefined || notTaken.includes(name) ? "" : whyRefused(option, value);
    const text = `this program does not start with --${name}=${value}: ${reason}`;
    return reason === "" ? [] : [{ place: `${file ?? ""}:${line ?? 1}`, text }];
  });
}

function hasForeignFlags(from: string): boolean {
  return from === "cri-dockerd" || from === "dockershim-in-tree";
}

function optionOf(name: string): Option<unknown> | undefined {
  return optionList.find(([, { name: own, aliases = [] }]) => [own, ...aliases].includes(name))?.[1];
}

/** Empty where the value is valid. */
function whyRefused({ kind }: Option<unknown>, value: string): string {
  try {
    kind.parse(value);
    return "";
  } catch (error) {
    return messageOf(error);
  }
}

/** What of cri-dockerd's unit no flag of this program says. */
export function leftOut({
  services,
}: MigrationFacts): readonly { readonly place: string; readonly text: string }[] {
  const service = services.criDocker;
  if (service === undefined || runsThisProgram(service.command)) return [];
  const { command, flags } = service;
  const found = new Map<string, { place: string; text: string }>();
  for (const { name, value, file, line } of flags) {
    const isIgnored = notTaken.includes(name) || ignoredFlags.some((flag) => flag.name === name);
    if (isIgnored || optionOf(name) !== undefined) continue;
    const text = `--${name}=${value} is no flag of this program, and is not taken over`;
    found.set(name, { place: `${file}:${line}`, text });
  }
  for (const [name, { file, line }] of command.variables)
    if (!new RegExp(`\\$\\{?${name}\\b`).test(command.entry?.value ?? ""))
      found.set(`$${name}`, { place: `${file}:${line}`, text: `the variable ${name} is not taken over` });
  for (const { section, key, value, file, line } of service.unit.entries) {
    const isOwn = file !== service.unit.path || /^Exec(StartPre|StartPost|StopPost)$/.test(key);
    const isThere =
      sameInAllUnits.includes(key) || (orderKey.test(key) && value.split(/\s+/).every(isOrdered));
    if (!isOwn || section === "Install" || value === "" || isThere) continue;
    found.set(`${file}:${line}`, { place: `${file}:${line}`, text: `${key}=${value} is not taken over` });
  }
  return [...found.values()];
}

/** What the unit of this program says by itself, or is told of by flags and variables. */
const sameInAllUnits: readonly string[] = [
  ...["Description", "Documentation", "Type", "NotifyAccess", "KillMode", "Delegate", "Restart"],
  ...["ExecStart", "ExecReload", "Environment", "EnvironmentFile"],
];
const orderKey = /^(After|Before|Wants|Requires)$/;

function isOrdered(unit: string): boolean {
  return /^(network-online\.target|(docker|kubelet)\.service|cri-docker(d)?\.socket)$/.test(unit);
}

/** Those of the names that this program has, and starts with. */
function startingFlags(
  flags: readonly FlagFact[],
  names: readonly string[],
): readonly (readonly [name: string, value: string])[] {
  return names.flatMap((name) => {
    const value = lastFlag(flags, name)?.value;
    const option = optionOf(name);
    if (value === undefined || option === undefined) return [];
    return value === "" || whyRefused(option, value) === "" ? [[name, value] as const] : [];
  });
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

/** Where the unit of this program would make other pods than the runtime of now. */
export function unitDifferences(facts: MigrationFacts, from: string): readonly UnitDifference[] {
  const { dockershim, criDocker } = facts.services;
  if (dockershim?.unit.isMasked !== false || runsThisProgram(criDocker?.command)) return [];
  if (!hasForeignFlags(from)) return [];
  const wanted = presentFlags(facts, from);
  const present = (from === "cri-dockerd" ? criDocker : facts.kubelet.service)?.flags ?? [];
  return optionList.flatMap(([, option]): readonly UnitDifference[] => {
    const names = [option.name, ...(option.aliases ?? [])];
    const taken = names.find((name) => wanted.has(name));
    // Where it keeps its own files is not the other's matter.
    const counts = names.some((name) => kubeletFlags.includes(name)) && option.name !== "state-dir";
    if (taken === undefined && !counts) return [];
    const given = dockershim.flags.findLast(({ name }) => names.includes(name));
    const runtime = taken === undefined ? undefined : wanted.get(taken);
    // What the runtime has in its place this program refuses.
    if (taken === undefined && names.some((name) => lastFlag(present, name) !== undefined)) return [];
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
