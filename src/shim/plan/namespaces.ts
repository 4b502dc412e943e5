/** Namespaces of sandboxes and of the containers that join them. */
import { NamespaceMode, type NamespaceOption } from "../../domain/cri.js";
import type { HostConfig } from "../../domain/create-body.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { unsupportedField } from "../../domain/field-errors.js";
import { securityContextField } from "./security-options.js";

export interface PodNamespaces {
  readonly network: NamespaceMode;
  readonly pid: NamespaceMode;
  readonly ipc: NamespaceMode;
}

/** The modes of a request. POD is the default of each: an absent message means what an empty one means. */
export function requestedNamespaces(options: NamespaceOption | null | undefined): PodNamespaces {
  const { POD } = NamespaceMode;
  return { network: options?.network ?? POD, pid: options?.pid ?? POD, ipc: options?.ipc ?? POD };
}

type NamespaceModes = Pick<
  HostConfig,
  "NetworkMode" | "IpcMode" | "PidMode" | "UTSMode" | "UsernsMode" | "CgroupnsMode"
>;

/** The sandbox owns the pod's namespaces: containers join its network and its shareable IPC namespace. */
export function sandboxNamespaceModes(
  namespaces: PodNamespaces,
  podNetworkMode: string,
  context: { readonly facts: NodeFacts; readonly privileged: boolean },
): NamespaceModes {
  const hostNetwork = namespaces.network === NamespaceMode.NODE;
  const hostPid = namespaces.pid === NamespaceMode.NODE;
  return {
    NetworkMode: hostNetwork ? "host" : podNetworkMode,
    IpcMode: namespaces.ipc === NamespaceMode.NODE ? "host" : "shareable",
    ...(hostPid ? { PidMode: "host" } : {}),
    CgroupnsMode: cgroupNamespaceMode(context),
    ...hostUserNamespace(context.facts, hostNetwork || hostPid || context.privileged),
  };
}

/** What a container must know of its sandbox. */
export interface SandboxNamespaces {
  readonly id: string;
  readonly hostNetwork: boolean;
  readonly snapshot: { readonly pidMode: string; readonly privileged: boolean };
}

/** `resolveContainer` gives the full id of the TARGET mode's container, or throws. */
export function containerNamespaceModes(
  options: NamespaceOption | null | undefined,
  sandbox: SandboxNamespaces,
  context: {
    readonly facts: NodeFacts;
    readonly privileged: boolean;
    readonly resolveContainer: (id: string) => string;
  },
): NamespaceModes {
  const requested = requestedNamespaces(options);
  const joined = `container:${sandbox.id}`;
  if (requested.network === NamespaceMode.CONTAINER) {
    throw unsupportedField(
      `${securityContextField}.namespace_options.network`,
      "a container has no network but its pod's",
      "CONTAINER",
    );
  }
  const hostNetwork = sandbox.hostNetwork || requested.network === NamespaceMode.NODE;
  const hostUsers =
    sandbox.hostNetwork ||
    sandbox.snapshot.privileged ||
    sandbox.snapshot.pidMode === "host" ||
    context.privileged ||
    requested.pid === NamespaceMode.NODE;
  return {
    NetworkMode: joined,
    IpcMode: requested.ipc === NamespaceMode.CONTAINER ? "private" : joined,
    ...pidMode(requested.pid, joined, () => context.resolveContainer(options?.target_id ?? "")),
    ...(hostNetwork ? { UTSMode: "host" } : {}),
    CgroupnsMode: cgroupNamespaceMode(context),
    ...hostUserNamespace(context.facts, hostUsers),
  };
}

function pidMode(mode: NamespaceMode, joined: string, target: () => string): Pick<HostConfig, "PidMode"> {
  switch (mode) {
    case NamespaceMode.NODE:
      return { PidMode: "host" };
    case NamespaceMode.POD:
      return { PidMode: joined };
    case NamespaceMode.TARGET:
      return { PidMode: `container:${target()}` };
    case NamespaceMode.CONTAINER:
      return {};
  }
}

/** An engine with remapped users shares host namespaces, and gives privileges, only outside its user namespace. */
function hostUserNamespace(facts: NodeFacts, needed: boolean): Pick<HostConfig, "UsernsMode"> {
  return facts.security.usernsRemap && needed ? { UsernsMode: "host" } : {};
}

/** As Kubernetes asks of runtimes: with cgroup v2 a namespace of its own unless privileged, with v1 the host's. */
function cgroupNamespaceMode({
  facts,
  privileged,
}: {
  readonly facts: Pick<NodeFacts, "cgroupVersion">;
  readonly privileged: boolean;
}): "host" | "private" {
  return facts.cgroupVersion === 2 && !privileged ? "private" : "host";
}
