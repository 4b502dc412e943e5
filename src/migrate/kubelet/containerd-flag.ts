/** The kubelet's flag `--containerd`, which leads its cAdvisor to the names of containers. Pure. */
import { options } from "../../shim/config/options.js";
import type { FlagFact, MigrationFacts } from "../facts/facts.js";
import { lastFlag } from "./flags.js";
import { runsThisProgram, socketPath } from "./target.js";

export const containerdFlag = "containerd";
/** Kubelets before it ask Docker. */
export const firstMinorWithoutDocker = 24;
/** Kubelets from it on do not start with the flag: names come with the gate PodAndContainerStatsFromCRI alone. */
export const firstMinorWithoutFlag = 37;

const defaultPath = socketPath(options.cadvisorSocket.default);

/** Where this program serves cAdvisor with these flags; undefined: not at all. A socket unit has the default. */
export function cadvisorPath(flags: readonly FlagFact[]): string | undefined {
  const given = lastFlag(flags, "cadvisor-socket")?.value;
  if (given === undefined || given === "fd://") return defaultPath;
  return given === "" ? undefined : socketPath(given);
}

/** Whether the kubelet with these flags asks another socket. */
export function lacksContainerdFlag(flags: readonly FlagFact[], path: string): boolean {
  return socketPath(lastFlag(flags, containerdFlag)?.value ?? "") !== path;
}

/** The flags of the unit that runs this program. */
export function shimFlags({ dockershim, criDocker }: MigrationFacts["services"]): readonly FlagFact[] {
  return (runsThisProgram(criDocker?.command) ? criDocker : dockershim)?.flags ?? [];
}
