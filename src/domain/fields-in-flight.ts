/**
 * Fields that Kubernetes has proposed for the CRI and not merged: their numbers are not fixed. While a switch
 * is off, its field has no effect. To switch one on: the field into proto/runtime/v1/api.proto with its
 * number, `npm run generate`, the switch, and rows in docs/understand/request-fields.md and rpc-support.md. Fields of
 * the answer of Status by which a kubelet asks for support belong to it.
 */
import type { ExecRequest, KeyValue, LinuxContainerSecurityContext } from "./cri.js";

export interface FieldSwitches {
  /** KEP-5758: LinuxContainerSecurityContext.ulimits. */
  readonly ulimits: boolean;
  /** KEP-5474: cgroup_mount_mode of a container. */
  readonly cgroupMountMode: boolean;
  /** KEP-6090: ExecRequest.envs and ExecSyncRequest.envs. */
  readonly execEnvs: boolean;
}

export const fieldsInFlight: FieldSwitches = { ulimits: false, cgroupMountMode: false, execEnvs: false };

export interface RequestedUlimit {
  /** As `nofile`. */
  readonly name: string;
  /** Decimal int64; -1 is unlimited. */
  readonly soft: string;
  readonly hard: string;
}

/** With the fields in flight. */
export interface SecurityContextInFlight extends Partial<LinuxContainerSecurityContext> {
  readonly ulimits?: readonly RequestedUlimit[];
  readonly cgroup_mount_mode?: "DEFAULT" | "READ_ONLY" | "WRITABLE";
}

/** With the fields in flight; ExecSyncRequest has the same. */
export interface ExecInFlight extends Partial<Pick<ExecRequest, "container_id" | "cmd">> {
  readonly envs?: readonly KeyValue[];
}
