/** Fields of the CRI that no released protocol has yet, and their plans. Without its switch a field has no effect. */
import type { DockerUlimit } from "../../domain/create-body.js";
import { invalidField, unsupportedField } from "../../domain/field-errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { environment } from "./environment.js";
import { securityContextField } from "./security-options.js";
import type { ExecRequest, KeyValue, LinuxContainerSecurityContext } from "../../domain/cri.js";

/** First API version whose engines have the security option: Docker Engine 28. */
const writableCgroupsApiMinor = 48;

/** The engine refuses names that it does not know. */
export function requestedUlimits(
  security: SecurityContextInFlight | null,
  switches: FieldSwitches = fieldsInFlight,
): readonly DockerUlimit[] {
  if (!switches.ulimits) return [];
  return (security?.ulimits ?? []).map(({ name, soft, hard }, index) => {
    const number = (key: string, text: string): number => {
      const value = Number(text);
      if (Number.isSafeInteger(value) && value >= -1) return value;
      throw invalidField(`${securityContextField}.ulimits[${index}].${key}`, "must be -1 or a limit", text);
    };
    return { Name: name, Soft: number("soft", soft), Hard: number("hard", hard) };
  });
}

/**
 * Docker mounts the container's own cgroup read-only unless it is privileged. On cgroup version 1 a writable
 * mount would be that of the node.
 */
export function cgroupMountOptions(
  security: SecurityContextInFlight | null,
  facts: NodeFacts,
  switches: FieldSwitches = fieldsInFlight,
): readonly string[] {
  if (!switches.cgroupMountMode || security?.cgroup_mount_mode === undefined) return [];
  const mode = security.cgroup_mount_mode;
  if (mode === "DEFAULT") return [];
  if (facts.apiMinor >= writableCgroupsApiMinor && facts.cgroupVersion === 2)
    return [`writable-cgroups=${mode === "WRITABLE"}`];
  if (mode === "READ_ONLY") return [];
  throw unsupportedField(
    `${securityContextField}.cgroup_mount_mode`,
    "Docker mounts cgroups writable from Docker Engine 28 on, with cgroup version 2",
    mode,
  );
}

/** `NAME=value` for an exec, after the environment of its container; empty for none. */
export function execEnvironment(
  { envs }: ExecInFlight,
  switches: FieldSwitches = fieldsInFlight,
): { readonly env?: readonly string[] } {
  if (!switches.execEnvs || envs === undefined || envs.length === 0) return {};
  return { env: environment(envs, "envs") };
}

/**
 * Fields that Kubernetes has proposed for the CRI and not merged: their numbers are not fixed. While a switch
 * is off, its field has no effect. To switch one on: the field into proto/runtime/v1/api.proto with its
 * number, `npm run generate`, the switch, and rows in docs/understand/request-fields.md and rpc-support.md. Fields of
 * the answer of Status by which a kubelet asks for support belong to it.
 */
export interface FieldSwitches {
  /** KEP-5758: LinuxContainerSecurityContext.ulimits. */
  readonly ulimits: boolean;
  /** KEP-5474: cgroup_mount_mode of a container. */
  readonly cgroupMountMode: boolean;
  /** KEP-6090: ExecRequest.envs and ExecSyncRequest.envs. */
  readonly execEnvs: boolean;
}

export const fieldsInFlight: FieldSwitches = { ulimits: false, cgroupMountMode: false, execEnvs: false };

interface RequestedUlimit {
  /** As `nofile`. */
  readonly name: string;
  /** Decimal int64; -1 is unlimited. */
  readonly soft: string;
  readonly hard: string;
}

/** With the fields in flight. */
interface SecurityContextInFlight extends Partial<LinuxContainerSecurityContext> {
  readonly ulimits?: readonly RequestedUlimit[];
  readonly cgroup_mount_mode?: "DEFAULT" | "READ_ONLY" | "WRITABLE";
}

/** With the fields in flight; ExecSyncRequest has the same. */
interface ExecInFlight extends Partial<Pick<ExecRequest, "container_id" | "cmd">> {
  readonly envs?: readonly KeyValue[];
}
