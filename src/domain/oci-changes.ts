/**
 * What the OCI specification of a container must have and Docker's API has no words for, as data. It is planned
 * before the container is created, and kept in its record: the container may be started by a later process.
 */

/** The name under which the engine has the OCI runtime of this program (`runtimes` of daemon.json). */
export const ociRuntimeName = "dockershim-runc";

/** The ids 0 to `size` of a container are those of the node from `hostId` on. */
export interface MappedIds {
  readonly hostId: number;
  readonly size: number;
}

export interface UserNamespace {
  readonly uids: MappedIds;
  readonly gids: MappedIds;
}

/** Each is all limits of its kind that a container must not run without. */
export type EarlyLimits = "unified" | "hugepages";

/** As OCI specifications have it; `timeout` in seconds. */
export interface OciHook {
  readonly path: string;
  readonly args?: readonly string[];
  readonly env?: readonly string[];
  readonly timeout?: number;
}

/** As OCI specifications have it. */
export interface OciMount {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** Of a device node in a container; what is left out is the node's own. */
export interface DeviceOwner {
  readonly uid?: number;
  readonly gid?: number;
  readonly fileMode?: number;
}

/** When hooks are run: names of OCI specifications. */
export const hookNames = [
  "prestart",
  "createRuntime",
  "createContainer",
  "startContainer",
  "poststart",
  "poststop",
] as const;
export type HookName = (typeof hookNames)[number];

export interface OciChanges {
  /** As `CAP_NET_RAW`. Docker gives the container these capabilities, but no ambient ones. */
  readonly ambientCapabilities?: readonly string[];
  /** Clean path in the container → options of the mount there, as `noexec`. */
  readonly mountOptions?: Readonly<Record<string, readonly string[]>>;
  /** Of the pod. Its sandbox makes the namespace, and containers join it. */
  readonly users?: UserNamespace & { readonly joins?: true };
  /** Clean path in the container → who the owners of files of the volume there are. */
  readonly mappedMounts?: Readonly<Record<string, UserNamespace>>;
  /** Added to those of Docker. */
  readonly hooks?: Readonly<Partial<Record<HookName, readonly OciHook[]>>>;
  /** Added to those of Docker. */
  readonly mounts?: readonly OciMount[];
  /** Path in the container of a device that Docker makes → who owns it there. */
  readonly deviceOwners?: Readonly<Record<string, DeviceOwner>>;
  /** Limits of the container's record that hold before the first instruction. */
  readonly limits?: readonly EarlyLimits[];
}
