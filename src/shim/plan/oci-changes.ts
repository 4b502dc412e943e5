/** What a container needs of the OCI runtime in front of runc, beside Docker's create body. */
import { type Mount, NamespaceMode } from "../../domain/cri.js";
import { invalidField, quote, unsupportedField } from "../../domain/field-errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { type EarlyLimits, type OciChanges, type UserNamespace } from "../../domain/oci-changes.js";
import type { SandboxConfig, ValidContainerConfig } from "../../domain/requests.js";
import type { CgroupSettings } from "../ports/host.js";
import { type CdiEdits, targetsOf, unsupportedPart } from "./cdi-edits.js";
import { needsCgroup, requestedSettings, splitByNeed } from "./cgroups.js";
import type { PodNamespaces } from "./namespaces.js";
import { cleanPath } from "./paths.js";
import { mayNeedRuntimeForReadOnly, recursiveOption, requestedReadOnly } from "./recursive-read-only.js";
import { dockerRuntime, whyNoOciRuntime } from "./runtime-handler.js";
import { securityContextField } from "./security-options.js";
import { isSameUsers, mountUsers, requestedUsers, whyNoUserNamespaces } from "./user-namespaces.js";
import { visibleMounts } from "./visible-mounts.js";

/** Mount options of the CRI. */
const mountOptionNames: ReadonlySet<string> = new Set(["noexec", "nosuid", "nodev"]);

export interface OciContext {
  readonly facts: NodeFacts;
  /** Docker runtime of the pod; `""` is the engine's default. */
  readonly runtime: string;
  /** Why the OCI runtime cannot be used; undefined where it works. */
  readonly problem: string | undefined;
  /** Of the pod, if it has its own. */
  readonly users: UserNamespace | undefined;
  /** Whether the node has a controller with which runc limits hugepages. */
  readonly limitsHugepages: boolean;
  /** Undefined where the engine injects devices, or none are requested. */
  readonly cdi: CdiEdits | undefined;
}

const usersField = `${securityContextField}.namespace_options.userns_options`;

/** The user namespace of a pod. Throws `unsupported` where this engine, or this pod, cannot have one. */
export function planSandboxUsers(
  { linux }: SandboxConfig,
  runtimeHandler: string,
  { network, pid, ipc }: PodNamespaces,
  { facts, ociProblem }: { readonly facts: NodeFacts; readonly ociProblem?: string | undefined },
): OciChanges | undefined {
  const users = requestedUsers(linux?.security_context?.namespace_options?.userns_options, usersField);
  if (users === undefined) return undefined;
  const runtime = dockerRuntime(runtimeHandler, facts) ?? "";
  const why =
    whyNoOciRuntime({ facts, runtime, problem: undefined }) ?? whyNoUserNamespaces(facts, ociProblem);
  if (why !== undefined) throw unsupportedField(usersField, why);
  if ([network, pid, ipc].includes(NamespaceMode.NODE))
    throw unsupportedField(usersField, "a pod with users of its own cannot have namespaces of the node");
  return { users };
}

/** Names with `CAP_`, as in OCI specifications; the request may leave it out. */
export function ambientCapabilities({ linux }: Pick<ValidContainerConfig, "linux">): readonly string[] {
  const names = linux?.security_context?.capabilities?.add_ambient_capabilities ?? [];
  return names.map(ociName);
}

/** Docker gives those that are to be ambient, too, and refuses names that it does not know. */
export function addedCapabilities(config: Pick<ValidContainerConfig, "linux">): readonly string[] {
  const added = config.linux?.security_context?.capabilities?.add_capabilities ?? [];
  const names = new Set(added.map(ociName));
  return [...added, ...ambientCapabilities(config).filter((name) => !names.has(name))];
}

function ociName(name: string): string {
  return `CAP_${name.toUpperCase().replace(/^CAP_/, "")}`;
}

/** Whether the request has something that Docker's API cannot say. Without it nobody asks for the runtime. */
export function mayNeedOciRuntime(
  config: ValidContainerConfig,
  facts: NodeFacts,
  { cdi }: { readonly cdi?: CdiEdits | undefined },
): boolean {
  const { mounts, linux } = config;
  const resources = linux?.resources ?? null;
  return (
    cdi?.beyondDocker !== undefined ||
    ambientCapabilities(config).length > 0 ||
    mounts.some(({ mount_options, uidMappings }) => mount_options.length + uidMappings.length > 0) ||
    mounts.some((mount) => mayNeedRuntimeForReadOnly(mount, facts)) ||
    linux?.security_context?.namespace_options?.userns_options?.mode === NamespaceMode.POD ||
    (resources !== null && needsCgroup(requestedSettings(resources)))
  );
}

/**
 * Undefined for a container that Docker's API can say everything of. Throws `unsupported`, with the field, where
 * the runtime is needed and cannot be used. Limits have another way then.
 */
export function planOciChanges(
  config: ValidContainerConfig,
  cgroup: CgroupSettings | undefined,
  context: OciContext,
): OciChanges | undefined {
  const why = whyNoOciRuntime(context);
  const ambient = ambientCapabilities(config);
  if (ambient.length > 0 && why !== undefined) {
    const field = `${securityContextField}.capabilities.add_ambient_capabilities`;
    throw unsupportedField(field, `Docker cannot set ambient capabilities, and ${why}`);
  }
  const beyond = context.cdi?.beyondDocker;
  if (beyond !== undefined && why !== undefined) throw unsupportedPart(beyond.device, beyond.part, why);
  const [owned] = Object.keys(beyond?.changes.deviceOwners ?? {});
  if (beyond !== undefined && owned !== undefined && context.users !== undefined) {
    const reason = "runc gives a container with users of its own the device of the node, with its owner";
    throw unsupportedPart(beyond.device, `the owner or mode of ${quote(owned)}`, reason);
  }
  const mounts = visibleMounts(config.mounts, context.cdi === undefined ? [] : targetsOf(context.cdi));
  const mountOptions = Object.fromEntries(
    mounts.flatMap(([index, mount]) => {
      const options = optionsOf(mount, index, why, context);
      return options.length === 0 ? [] : [[cleanPath(mount.container_path), options] as const];
    }),
  );
  const mappedMounts = Object.fromEntries(
    mounts.flatMap(([index, mount]) => mappedMount(mount, index, context)),
  );
  const changes: OciChanges = {
    ...joinedUsers(config, context),
    ...(Object.keys(mappedMounts).length > 0 ? { mappedMounts } : {}),
    ...beyond?.changes,
    ...(ambient.length > 0 ? { ambientCapabilities: ambient } : {}),
    ...(Object.keys(mountOptions).length > 0 ? { mountOptions } : {}),
    ...(why === undefined && cgroup !== undefined ? earlyLimits(cgroup, context) : {}),
  };
  return Object.keys(changes).length === 0 ? undefined : changes;
}

/** Of hugepages only where runc can set them: elsewhere the container runs without, and the log says so. */
function earlyLimits(
  cgroup: CgroupSettings,
  { limitsHugepages }: Pick<OciContext, "limitsHugepages">,
): Pick<OciChanges, "limits"> {
  const { unified, hugepages } = splitByNeed(cgroup).needed;
  const limits: readonly EarlyLimits[] = [
    ...(Object.keys(unified).length > 0 ? ["unified" as const] : []),
    ...(hugepages.length > 0 && limitsHugepages ? ["hugepages" as const] : []),
  ];
  return limits.length > 0 ? { limits } : {};
}

/** A container has the users of its pod, and says so as its sandbox did. */
function joinedUsers(
  { linux }: ValidContainerConfig,
  { users, problem }: OciContext,
): Pick<OciChanges, "users"> {
  const requested = requestedUsers(linux?.security_context?.namespace_options?.userns_options, usersField);
  if (!isSameUsers(requested, users)) throw invalidField(usersField, "is not that of the pod's sandbox");
  if (users === undefined) return {};
  if (problem !== undefined) throw unsupportedField(usersField, problem);
  return { users: { ...users, joins: true } };
}

function mappedMount(
  mount: Mount,
  index: number,
  { facts, problem }: OciContext,
): readonly (readonly [path: string, users: UserNamespace])[] {
  const field = `config.mounts[${index}]`;
  const users = mountUsers(mount, field);
  if (users === undefined) return [];
  const why = whyNoUserNamespaces(facts, problem);
  if (why !== undefined) throw unsupportedField(`${field}.uidMappings`, why);
  return [[cleanPath(mount.container_path), users]];
}

function optionsOf(
  mount: Mount,
  index: number,
  why: string | undefined,
  { facts, runtime, problem }: OciContext,
): readonly string[] {
  const field = `config.mounts[${index}].mount_options`;
  const { mount_options: options } = mount;
  const unknown = options.find((option) => !mountOptionNames.has(option));
  if (unknown !== undefined)
    throw invalidField(field, `is none of ${[...mountOptionNames].join(", ")}`, unknown);
  if (why !== undefined && options.length > 0)
    throw unsupportedField(field, `Docker takes no options for mounts, and ${why}`, options.join(","));
  const context = { facts, runtime, ociProblem: problem };
  const isRecursive = requestedReadOnly(mount, `config.mounts[${index}]`, context) === "ociRuntime";
  return isRecursive ? [...options, recursiveOption] : options;
}
