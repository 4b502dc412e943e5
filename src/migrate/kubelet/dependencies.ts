/** Units that start the unit of a runtime again, with each start of their own. Pure. */
import type { MigrationFacts, ServiceFacts } from "../facts/facts.js";
import type { UnitEntry } from "../systemd/unit-file.js";
import { runsThisProgram, type Target } from "./target.js";

/** Keys of [Unit] that start another unit, or fail without it. */
const keys: readonly string[] = ["Requires", "Requisite", "Wants", "BindsTo", "Upholds"];

/** Keys of [Unit] that have an effect only beside those, and the one by which a stop of the unit stops the other, too. */
const orderKeys: readonly string[] = ["After", "Before", "PartOf"];

export interface Dependency {
  readonly service: ServiceFacts;
  readonly entry: UnitEntry;
  /** The unit that it starts. */
  readonly name: string;
}

/** Those on units that serve the same pods as the target. */
export function dependenciesBeside(
  facts: Pick<MigrationFacts, "services">,
  target: Target,
): readonly Dependency[] {
  return entriesBeside(facts, target, keys);
}

/** What goes with them, in files of the node's own: without it the new unit would be started in no order. */
export function orderBeside(facts: Pick<MigrationFacts, "services">, target: Target): readonly Dependency[] {
  const starting = dependenciesBeside(facts, target).map(({ service }) => service);
  return entriesBeside(facts, target, orderKeys).filter(
    ({ service, entry: { key, file } }) =>
      !belongsToPackage(file) && (key === "PartOf" || starting.includes(service)),
  );
}

function entriesBeside(
  { services }: Pick<MigrationFacts, "services">,
  target: Target,
  sought: readonly string[],
): readonly Dependency[] {
  const { criDocker, criDockerSocket, dockershim, units } = services;
  const isTheirs = target === "cri-dockerd" || runsThisProgram(criDocker?.command);
  const theirs = isTheirs ? [] : [criDocker?.unit.name, criDockerSocket?.name];
  const own =
    target === "dockershim" && !runsThisProgram(criDocker?.command) ? undefined : dockershim?.unit.name;
  return dependenciesOn(
    units,
    [...theirs, own].filter((name) => name !== undefined),
    sought,
  );
}

/** Of other units on those of the names. */
export function dependenciesOn(
  units: readonly ServiceFacts[],
  names: readonly string[],
  sought = keys,
): readonly Dependency[] {
  return units
    .filter(({ unit }) => !names.includes(unit.name))
    .flatMap((service) =>
      service.unit.entries
        .filter(({ section, key }) => section === "Unit" && sought.includes(key))
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
