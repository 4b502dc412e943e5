/** Networks that pods of a rehearsal can have, as `--network-plugin` of the server names them. */
export const networkPlugins = ["no-op", "cni", "kubenet"] as const;
export type NetworkPluginName = (typeof networkPlugins)[number];
