/** Units that start the unit of a runtime again, with each start of their own. Pure. */
import type { MigrationFacts, ServiceFacts } from "../facts/facts.js";
import type { UnitEntry } from "../systemd/unit-file.js";
import { runsThisProgram, type Target } from "./target.js";

/** Keys of [Unit] that start another unit, or fail without it. */
const keys: readonly string[] = ["Requires", "Requisite", "Wants", "BindsTo", "Upholds"];

export interface Dependency {
  readonly service: ServiceFacts;
  readonly entry: UnitEntry;
  /** The unit that it starts. */
  readonly name: string;
}

/** Those on units that serve the same pods as the target. */
export function dependenciesBeside(
  { services }: Pick<MigrationFacts, "services">,
  target: Target,
): readonly Dependency[] {
  const { criDocker, criDockerSocket, dockershim, units } = services;
  const isTheirs = target === "cri-dockerd" || runsThisProgram(criDocker?.command);
  const theirs = isTheirs ? [] : [criDocker?.unit.name, criDockerSocket?.name];
  const own =
    target === "dockershim" && !runsThisProgram(criDocker?.command) ? undefined : dockershim?.unit.name;
  return dependenciesOn(
    units,
    [...theirs, own].filter((name) => name !== undefined),
  );
}

/** Of other units on those of the names. */
export function dependenciesOn(
  units: readonly ServiceFacts[],
  names: readonly string[],
): readonly Dependency[] {
  return units
    .filter(({ unit }) => !names.includes(unit.name))
    .flatMap((service) =>
      service.unit.entries
        .filter(({ section, key }) => section === "Unit" && keys.includes(key))
        .flatMap((entry) =>
          entry.value
            .split(/\s+/)
            .filter((name) => names.includes(name))
            .map((name) => ({ service, entry, name })),
        ),
    );
}

/** Where NixOS and Guix keep what they make of the configuration of the system. */
export function isInStore(path: string): boolean {
  return /^\/(nix|gnu)\/store\//.test(path);
}

/** Files of packages, which an update replaces: no drop-in takes a dependency from them. */
export function belongsToPackage(path: string): boolean {
  return !path.startsWith("/etc/") && !path.startsWith("/var/");
}
