/** Which flags the kubelet has to have for a runtime, by its version. Pure. */
import type { FlagFact } from "../facts/facts.js";
import {
  containerdFlag,
  firstMinorWithoutDocker,
  firstMinorWithoutFlag,
  lacksContainerdFlag,
} from "../kubelet/containerd-flag.js";
import { lastFlag } from "../kubelet/flags.js";
import { type Target, withoutRuntimeFlagMinor } from "../kubelet/target.js";

/** Flags that ended with the dockershim in 1.24: a later kubelet does not start with them. */
export const dockershimFlags: readonly string[] = [
  ...["network-plugin", "cni-conf-dir", "cni-bin-dir", "cni-cache-dir", "network-plugin-mtu"],
  ...["docker-endpoint", "image-pull-progress-deadline", "experimental-dockershim-root-directory"],
];

export interface KubeletChange {
  /** Undefined: the flag goes. */
  readonly flags: ReadonlyMap<string, string | undefined>;
  /** The same for the flag that leads cAdvisor to the names of containers. */
  readonly containerdFlag: ReadonlyMap<string, string | undefined>;
  /** `containerRuntimeEndpoint` of the configuration file; undefined: it stays as it is. */
  readonly configEndpoint: string | undefined;
}

export interface KubeletState {
  readonly minor: number;
  readonly flags: readonly FlagFact[];
  /** Whether there is a configuration file that can be edited. */
  readonly hasConfig: boolean;
  readonly hasConfigEndpoint: boolean;
  /** Whether its images come from another program, whose endpoint stays. */
  readonly hasForeignImages: boolean;
}

/** What brings the names of containers, and takes them away where no program would answer, or no kubelet would start. */
function containerdFlagFor(
  { minor, flags }: KubeletState,
  target: Target,
  cadvisorPath: string | undefined,
): KubeletChange["flags"] {
  const change = new Map<string, string | undefined>();
  if (cadvisorPath === undefined) return change;
  const lacks = lacksContainerdFlag(flags, cadvisorPath);
  if (target !== "dockershim" || minor >= firstMinorWithoutFlag) {
    if (!lacks) change.set(containerdFlag, undefined);
  } else if (lacks && minor >= firstMinorWithoutDocker) change.set(containerdFlag, cadvisorPath);
  return change;
}

/** `networkFlags`: what the dockershim inside the kubelet needs where the kubelet has none. */
export function kubeletChange(
  state: KubeletState,
  target: Target,
  endpoint: string,
  {
    networkFlags,
    cadvisorPath,
  }: {
    readonly networkFlags: ReadonlyMap<string, string>;
    /** Where this program serves the names of containers. */
    readonly cadvisorPath: string | undefined;
  },
): KubeletChange {
  const { minor, flags, hasConfig, hasConfigEndpoint, hasForeignImages } = state;
  const change = new Map<string, string | undefined>();
  const ofCadvisor = containerdFlagFor(state, target, cadvisorPath);
  const remove = (name: string): void => {
    if (lastFlag(flags, name) !== undefined) change.set(name, undefined);
  };
  if (!hasForeignImages) remove("image-service-endpoint");
  if (target === "dockershim-in-tree") {
    remove("container-runtime");
    remove("container-runtime-endpoint");
    for (const [name, value] of networkFlags)
      if (lastFlag(flags, name) === undefined) change.set(name, value);
    return { flags: change, configEndpoint: undefined, containerdFlag: ofCadvisor };
  }
  if (minor >= firstMinorWithoutDocker) for (const name of dockershimFlags) remove(name);
  if (minor < firstMinorWithoutDocker) change.set("container-runtime", "remote");
  else if (minor < withoutRuntimeFlagMinor && lastFlag(flags, "container-runtime")?.value === "docker")
    remove("container-runtime");
  else if (minor >= withoutRuntimeFlagMinor) remove("container-runtime");
  const flag = lastFlag(flags, "container-runtime-endpoint");
  const inConfig = minor >= withoutRuntimeFlagMinor && hasConfig;
  if (flag !== undefined || !inConfig) change.set("container-runtime-endpoint", endpoint);
  const setsConfig = inConfig && (flag === undefined || hasConfigEndpoint);
  return { flags: change, configEndpoint: setsConfig ? endpoint : undefined, containerdFlag: ofCadvisor };
}
