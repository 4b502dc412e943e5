/**
 * The containers that dockershim 1.20 and cri-dockerd 0.4 make for requests of a kubelet: names, create bodies
 * and checkpoints. Pure. The rules are those of the two programs, their omissions included; recorded bodies of
 * both prove them (test/golden/create-bodies.json).
 */
import type {
  ContainerConfig,
  LinuxContainerConfig,
  NamespaceOption,
  PodSandboxConfig,
} from "../../domain/cri.js";
import { NamespaceMode, SecurityProfileProfileType } from "../../domain/cri.js";
import { type CreateBody, defined, type HostConfig } from "../../domain/create-body.js";
import {
  annotationPrefix,
  containerNameLabel,
  containerType,
  type Labels,
  logPathLabel,
  sandboxContainerName,
  sandboxIdLabel,
  sandboxType,
  typeLabel,
} from "../../domain/labels.js";
import type { PodSandboxCheckpoint } from "../../shim/ports/checkpoint-store.js";
import { portBindings, toPortMappings } from "../../shim/plan/port-bindings.js";

export type LegacyProgram = "dockershim" | "cri-dockerd";

export interface LegacyNode {
  readonly program: LegacyProgram;
  readonly cgroupDriver: string;
  readonly pauseImage: string;
  /** `none` with cni and kubenet. */
  readonly networkMode: "none" | "default";
}

export interface LegacySandbox {
  readonly name: string;
  readonly body: CreateBody;
  readonly checkpoint: PodSandboxCheckpoint;
}

const sharedMemoryBytes = 64 * 1024 * 1024;

export function legacySandbox(config: PodSandboxConfig, node: LegacyNode): LegacySandbox {
  const { linux, metadata } = config;
  const security = linux?.security_context ?? undefined;
  const options = security?.namespace_options ?? undefined;
  const hostNetwork = options?.network === NamespaceMode.NODE;
  const portMappings = toPortMappings(config.port_mappings);
  const { ExposedPorts, PortBindings } = portBindings(portMappings);
  const stored = portMappings.map(({ hostIp, ...mapping }) =>
    hostIp === "" ? mapping : { ...mapping, hostIp },
  );
  const name = metadata?.name ?? "";
  const namespace = metadata?.namespace ?? "";
  return {
    name: dockerName(sandboxContainerName, config, metadata?.attempt ?? 0),
    body: defined({
      Image: node.pauseImage,
      Hostname: config.hostname === "" ? undefined : config.hostname,
      User: userOf(security?.run_as_user?.value, security?.run_as_group?.value),
      ExposedPorts,
      Labels: dockerLabels(config, { [typeLabel]: sandboxType, [containerNameLabel]: sandboxContainerName }),
      HostConfig: defined({
        IpcMode: options?.ipc === NamespaceMode.NODE ? "host" : "shareable",
        // Without `linux` the field stays empty: Docker's own network, also with cni.
        NetworkMode: linux === null ? undefined : hostNetwork ? "host" : node.networkMode,
        PidMode: options?.pid === NamespaceMode.NODE ? "host" : undefined,
        CgroupParent: cgroupParent(linux?.cgroup_parent, node),
        CpuShares: 2,
        OomScoreAdj: -998,
        Sysctls: nonEmpty(linux?.sysctls),
        ShmSize: sharedMemoryBytes,
        PortBindings,
        GroupAdd: list(security?.supplemental_groups.map(String)),
        ReadonlyRootfs: security?.readonly_rootfs === true ? true : undefined,
        Privileged: node.program === "cri-dockerd" && security?.privileged === true ? true : undefined,
        SecurityOpt: [...selinux(security?.selinux_options), "no-new-privileges"],
      }),
    }),
    checkpoint: {
      version: "v1",
      name,
      namespace,
      data: {
        ...(stored.length > 0 ? { portMappings: stored } : {}),
        ...(hostNetwork ? { hostNetwork: true } : {}),
      },
    },
  };
}

export interface LegacyContainerRequest {
  readonly sandboxId: string;
  readonly config: ContainerConfig;
  readonly sandboxConfig: PodSandboxConfig;
}

export function legacyContainer(
  { sandboxId, config, sandboxConfig }: LegacyContainerRequest,
  node: LegacyNode,
): { readonly name: string; readonly body: CreateBody } {
  const { linux, metadata } = config;
  return {
    name: dockerName(metadata?.name ?? "", sandboxConfig, metadata?.attempt ?? 0),
    body: defined({
      Image: config.image?.image ?? "",
      Entrypoint: list(config.command),
      Cmd: list(config.args),
      Env: list(config.envs.map(({ key, value }) => `${key}=${String(value)}`)),
      WorkingDir: config.working_dir === "" ? undefined : config.working_dir,
      OpenStdin: config.stdin ? true : undefined,
      StdinOnce: config.stdin_once ? true : undefined,
      Tty: config.tty ? true : undefined,
      User: userOf(
        linux?.security_context?.run_as_username || linux?.security_context?.run_as_user?.value,
        linux?.security_context?.run_as_group?.value,
      ),
      Healthcheck: { Test: ["NONE"] },
      Labels: dockerLabels(config, {
        [typeLabel]: containerType,
        [sandboxIdLabel]: sandboxId,
        [logPathLabel]: joinPath(sandboxConfig.log_directory, config.log_path),
      }),
      HostConfig: defined({
        Binds: config.mounts.map(bindOf),
        Devices: config.devices.map((device) => ({
          PathOnHost: device.host_path,
          PathInContainer: device.container_path,
          CgroupPermissions: device.permissions,
        })),
        RestartPolicy: { Name: "no" as const },
        ShmSize: sharedMemoryBytes,
        CgroupParent: cgroupParent(sandboxConfig.linux?.cgroup_parent, node),
        SecurityOpt: securityOptions(linux?.security_context ?? null, node),
        ...(linux === null ? {} : linuxFields(linux, { sandboxId, sandboxConfig }, node)),
      }),
    }),
  };
}

function linuxFields(
  { resources, security_context: security }: LinuxContainerConfig,
  { sandboxId, sandboxConfig }: Omit<LegacyContainerRequest, "config">,
  node: LegacyNode,
): Partial<HostConfig> {
  const ofSandbox = `container:${sandboxId}`;
  const options = security?.namespace_options ?? undefined;
  const memory = number(resources?.memory_limit_in_bytes);
  const hostNetwork =
    (options ?? sandboxConfig.linux?.security_context?.namespace_options)?.network === NamespaceMode.NODE;
  return defined({
    NetworkMode: ofSandbox,
    IpcMode: ofSandbox,
    UTSMode: hostNetwork ? "host" : undefined,
    PidMode: pidMode(options, ofSandbox),
    CpuPeriod: number(resources?.cpu_period),
    CpuQuota: number(resources?.cpu_quota),
    CpuShares: number(resources?.cpu_shares),
    // dockershim leaves them out.
    ...(node.program === "cri-dockerd"
      ? { CpusetCpus: text(resources?.cpuset_cpus), CpusetMems: text(resources?.cpuset_mems) }
      : {}),
    Memory: memory,
    MemorySwap: memory,
    OomScoreAdj: number(resources?.oom_score_adj),
    GroupAdd: list(security?.supplemental_groups.map(String)),
    Privileged: security?.privileged === true ? true : undefined,
    ReadonlyRootfs: security?.readonly_rootfs === true ? true : undefined,
    CapAdd: list(security?.capabilities?.add_capabilities),
    CapDrop: list(security?.capabilities?.drop_capabilities),
    ...(security?.privileged === true
      ? {}
      : { MaskedPaths: list(security?.masked_paths), ReadonlyPaths: list(security?.readonly_paths) }),
  });
}

type Security = LinuxContainerConfig["security_context"];

function securityOptions(security: Security, node: LegacyNode): readonly string[] | undefined {
  const seccomp = seccompOf(security, node);
  return list([
    ...selinux(security?.selinux_options),
    ...appArmor(security?.apparmor_profile),
    ...(security?.no_new_privs === true ? ["no-new-privileges"] : []),
    ...(seccomp === undefined ? [] : [seccomp]),
  ]);
}

/** A profile of the node's files is not known here: the engine's default stands for it. */
function seccompOf(security: Security, { program }: LegacyNode): string | undefined {
  if (program === "dockershim") {
    const path = security?.seccomp_profile_path ?? "";
    return path === "" || path === "unconfined" ? "seccomp=unconfined" : undefined;
  }
  const type = security?.seccomp?.profile_type;
  const isNamed = type !== undefined && type !== SecurityProfileProfileType.Unconfined;
  return isNamed ? undefined : "seccomp=unconfined";
}

function appArmor(profile = ""): readonly string[] {
  if (profile === "" || profile === "runtime/default") return [];
  return [`apparmor=${profile.replace(/^localhost\//, "")}`];
}

function selinux(
  options:
    | { readonly user: string; readonly role: string; readonly type: string; readonly level: string }
    | null
    | undefined,
): readonly string[] {
  const parts = (["user", "role", "type", "level"] as const).map(
    (key) => [key, options?.[key] ?? ""] as const,
  );
  return parts.filter(([, value]) => value !== "").map(([key, value]) => `label=${key}:${value}`);
}

function pidMode(options: NamespaceOption | undefined, ofSandbox: string): string | undefined {
  switch (options?.pid) {
    case NamespaceMode.NODE:
      return "host";
    case NamespaceMode.CONTAINER:
      return undefined;
    case NamespaceMode.TARGET:
      return `container:${options.target_id}`;
    default:
      return ofSandbox;
  }
}

/** `host:container[:ro,Z,propagation]` */
function bindOf(mount: ContainerConfig["mounts"][number]): string {
  const propagation = ["", "rslave", "rshared"][mount.propagation] ?? "";
  const words = [mount.readonly ? "ro" : "", mount.selinux_relabel ? "Z" : "", propagation];
  const attributes = words.filter((word) => word !== "").join(",");
  return [mount.host_path, mount.container_path, ...(attributes === "" ? [] : [attributes])].join(":");
}

/** With the systemd driver only the last part, which is the name of the slice. */
function cgroupParent(parent: string | undefined, { cgroupDriver }: LegacyNode): string | undefined {
  if (parent === undefined || parent === "") return undefined;
  return cgroupDriver === "systemd" ? (parent.replace(/\/+$/, "").split("/").at(-1) ?? parent) : parent;
}

function dockerName(container: string, { metadata }: PodSandboxConfig, attempt: number): string {
  const { name = "", namespace = "", uid = "" } = metadata ?? {};
  return ["k8s", container, name, namespace, uid, String(attempt)].join("_");
}

function dockerLabels(config: Pick<PodSandboxConfig, "labels" | "annotations">, own: Labels): Labels {
  const annotations = Object.entries(config.annotations).map(([key, value]) => [
    annotationPrefix + key,
    value,
  ]);
  return { ...config.labels, ...(Object.fromEntries(annotations) as Labels), ...own };
}

/** As Go joins: empty parts are dropped. */
function joinPath(...parts: readonly string[]): string {
  return parts
    .filter((part) => part !== "")
    .join("/")
    .replaceAll(/\/+/g, "/");
}

function userOf(user: string | undefined, group: string | undefined): string | undefined {
  if (user === undefined || user === "") return undefined;
  return group === undefined ? user : `${user}:${group}`;
}

function list<Item>(items: readonly Item[] | undefined): readonly Item[] | undefined {
  return items === undefined || items.length === 0 ? undefined : items;
}

function nonEmpty(map: Labels | undefined): Labels | undefined {
  return map === undefined || Object.keys(map).length === 0 ? undefined : map;
}

function number(value: string | number | undefined): number | undefined {
  const found = Number(value ?? 0);
  return found === 0 ? undefined : found;
}

function text(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
