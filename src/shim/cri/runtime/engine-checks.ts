/** Whether the engine fits the flags: checked at each connect. */
import { ShimError } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import type { NodeFacts } from "../../../domain/node-facts.js";
import { engineTakesAnnotations } from "../../plan/oci-annotations.js";

/** Refuses an engine with another cgroup driver than that of the flag, which is also the kubelet's. */
export function requireCgroupDriver(wanted: NodeFacts["cgroupDriver"] | undefined, facts: NodeFacts): void {
  if (wanted === undefined || wanted === facts.cgroupDriver) return;
  throw new ShimError(
    "invalid",
    `--cgroup-driver=${wanted}: the Docker Engine uses the cgroup driver "${facts.cgroupDriver}"`,
  );
}

/** Warns at each connect, not for each pod. */
export function warnOfIgnoredAnnotations(
  allowedAnnotations: readonly string[],
  facts: NodeFacts,
  log: Logger,
): void {
  if (allowedAnnotations.length === 0 || engineTakesAnnotations(facts)) return;
  log.warn(
    { engineVersion: facts.engineVersion, allowedAnnotations },
    "--allowed-annotations has no effect: the engine takes annotations from Docker Engine 24 (API 1.43) on",
  );
}

/** A rootless engine has cgroups only where those of version 2 were delegated to its user. */
export function warnOfMissingCgroups({ cgroupDriver }: NodeFacts, log: Logger): void {
  if (cgroupDriver !== "none") return;
  log.warn(
    "the engine runs without cgroups (rootless): it refuses CPU limits, memory limits have no effect, " +
      "resources cannot be changed, and statistics have no CPU and memory",
  );
}
