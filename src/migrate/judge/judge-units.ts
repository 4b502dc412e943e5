/** The units of the runtimes, and those that start them, against the target. Pure. */
import type { MigrationFacts, ServiceFacts } from "../facts/facts.js";
import { belongsToPackage, dependenciesBeside, dependenciesOn } from "../kubelet/dependencies.js";
import { refusedFlags, unitDifferences } from "../kubelet/shim-flags.js";
import { runsThisProgram, type Target, targetNames, usesDocker } from "../kubelet/target.js";
import type { Finding } from "./finding.js";

export type Add = (draft: Omit<Finding, "subject">) => void;

export function judgeUnitFlags(
  facts: MigrationFacts,
  from: Target | "unknown",
  target: Target,
  add: Add,
): void {
  const { dockershim } = facts.services;
  for (const { place, text } of target === "dockershim" ? refusedFlags(facts, from) : [])
    add({
      id: "flag-refused",
      level: "change",
      source: place,
      text,
      reason: "migrate plan leaves the flag out",
      next: "see docs/run/flags.md, and give the unit of this program what is meant",
    });
  if (target !== "dockershim" || from === "unknown" || dockershim === undefined) return;
  for (const { name, unit, runtime, place } of unitDifferences(facts, from)) {
    const value = (given: string | undefined): string =>
      given === undefined ? "none" : JSON.stringify(given);
    add({
      id: "unit-flags",
      level: "change",
      source: place ?? dockershim.unit.path,
      text: `${dockershim.unit.name} has another --${name}: ${value(unit)}; ${targetNames[from]} has ${value(runtime)}`,
      reason: "new pods would be made in another way than those of now",
      next: "dockershim migrate plan, which edits the unit",
    });
  }
}

/** The plan enables the unit; by hand it may have been started alone. */
export function judgeBoot({ services }: MigrationFacts, target: Target, add: Add): void {
  const { criDocker, dockershim, servers, units } = services;
  if (target !== "cri-dockerd" && target !== "dockershim") return;
  const isTheirs = target === "cri-dockerd" || runsThisProgram(criDocker?.command);
  const service = isTheirs ? criDocker : dockershim;
  if (service === undefined || service.unit.isMasked) return;
  const socket = servers.find((one) => one.service === service)?.socket;
  const started = socket === undefined ? [service.unit] : [service.unit, socket];
  const names = started.map(({ name }) => name);
  if (started.some(({ isEnabled }) => isEnabled) || dependenciesOn(units, names).length > 0) return;
  add({
    id: "unit-disabled",
    level: "change",
    source: service.unit.path,
    text: `${service.unit.name} is not enabled`,
    reason: "after the next boot the kubelet has no runtime",
    next: `systemctl enable ${names.join(" ")}`,
  });
}

/** Before the change an edit of the plan is enough; after it, they serve together at the next start. */
export function judgeDependencies(
  facts: MigrationFacts,
  from: Target | "unknown",
  target: Target,
  add: Add,
): void {
  if (!usesDocker(target)) return;
  for (const { service, entry, name } of dependenciesBeside(facts, target)) {
    const isEdited = from !== target && !belongsToPackage(entry.file);
    add({
      id: "unit-dependency",
      level: isEdited ? "note" : "change",
      source: `${entry.file}:${entry.line}`,
      text: `${service.unit.name} starts ${name}: ${entry.key}=${name}`,
      reason: `after the change two programs would serve the same pods, ${name} and ${targetNames[target]}`,
      next: belongsToPackage(entry.file)
        ? `copy ${entry.file} to /etc/systemd/system, then dockershim migrate plan --to ${target}`
        : `dockershim migrate plan --to ${target}, which edits the unit`,
    });
  }
}

export function judgeServices({ services }: MigrationFacts, add: Add): void {
  const { criDocker, criDockerSocket, dockershim } = services;
  const theirs = [criDocker?.unit.name, criDockerSocket?.name].filter(Boolean).join(" ");
  const isEnabled = (service: ServiceFacts | undefined): boolean =>
    service !== undefined && service.unit.isEnabled && !service.unit.isMasked;
  const criEnabled =
    isEnabled(criDocker) || (criDockerSocket?.isEnabled === true && !criDockerSocket.isMasked);
  if (criEnabled && isEnabled(dockershim))
    add({
      id: "half-migrated-services",
      level: "change",
      text: `${theirs.split(".")[0] ?? ""} and dockershim are both enabled`,
      reason: "both serve the same pods; a kubelet uses one of them, and the other can confuse crictl",
      next: `systemctl disable --now ${theirs}, or dockershim.service`,
      source: `${criDocker?.unit.path ?? criDockerSocket?.path ?? ""}, ${dockershim?.unit.path ?? ""}`,
    });
  for (const service of [criDocker, dockershim]) {
    if (service === undefined || service.unit.isMasked || service.command.entry !== undefined) continue;
    add({
      id: "unit-without-command",
      level: "blocked",
      source: service.unit.path,
      text: `${service.unit.name} has no ExecStart`,
      reason: "a drop-in resets it, or the file is cut off",
      next: `systemctl cat ${service.unit.name}, and correct it`,
    });
  }
}
