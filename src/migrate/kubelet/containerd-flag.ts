/**
 * The kubelet's flag `--containerd`, which leads its cAdvisor to the names of containers. Pure.
 */
import { options } from "../../shim/config/options.js";
import type { FlagFact, ServiceFacts } from "../facts/facts.js";
import { lastFlag } from "./flags.js";

export const containerdFlag = "containerd";
/** Kubelets before it ask Docker. */
export const firstMinorWithoutDocker = 24;

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
export function shimFlags({
  dockershim,
  criDocker,
}: {
  readonly dockershim: ServiceFacts | undefined;
  readonly criDocker: ServiceFacts | undefined;
}): readonly FlagFact[] {
  // A drop-in may run this program in the unit of cri-dockerd.
  const inTheirs = criDocker?.command.words[0]?.text.endsWith("/dockershim") === true;
  return (inTheirs ? criDocker : dockershim)?.flags ?? [];
}

function socketPath(text: string): string {
  return text.replace(/^unix:\/\//, "").replace(/^\/var\/run\//, "/run/");
}
