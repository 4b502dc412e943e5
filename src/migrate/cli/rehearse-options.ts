import type { NetworkPluginName } from "../rehearse/network-plugins.js";

export interface RehearseOptions {
  readonly recording: string;
  /** By the recording when it is not given. */
  readonly as?: "dockershim" | "cri-dockerd";
  readonly dockerEndpoint?: string;
  readonly networkPlugin: "auto" | NetworkPluginName;
  /** Where the network list is; an example of its own when it is not given. */
  readonly cniConfDir?: string;
  readonly cniBinDirs: readonly string[];
  /** Path of a cri-dockerd to ask in the end. */
  readonly criDockerd?: string;
  readonly anyway: boolean;
  readonly format: "page" | "json";
}
