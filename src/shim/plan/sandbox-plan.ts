/** Plan of RunPodSandbox: create body, checkpoint, resolv.conf and network request, as data. */
import { dnsFields, resolvConfContent } from "./resolv-conf.js";
import { type CreateBody, defined, noHealthcheck, unlessBlank } from "../../domain/create-body.js";
import { NamespaceMode } from "../../domain/cri.js";
import {
  containerNameLabel,
  sandboxContainerName,
  sandboxType,
  toDockerLabels,
  typeLabel,
} from "../../domain/labels.js";
import { alternativeName, sandboxName, type PodIdentity } from "../../domain/names.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { type OciChanges, ociRuntimeName } from "../../domain/oci-changes.js";
import type { PortMapping } from "../../domain/sandbox.js";
import type { SandboxConfig, ValidRunPodSandbox } from "../../domain/requests.js";
import type { NetworkPlugin, PodNetworkRequest } from "../ports/network-plugin.js";
import { appArmorOption, chooseAppArmor } from "./apparmor.js";
import { cgroupParent } from "./cgroups.js";
import { requestedNamespaces, sandboxNamespaceModes, type PodNamespaces } from "./namespaces.js";
import { composeLabels } from "./compose-labels.js";
import { allowedAnnotations, annotationsField, sandboxAnnotations } from "./oci-annotations.js";
import { planSandboxUsers } from "./oci-changes.js";
import { podResources, type PodResources } from "./resources.js";
import { portBindings, toPortMappings } from "./port-bindings.js";
import { dockerRuntime } from "./runtime-handler.js";
import { chooseSeccomp, seccompOption } from "./seccomp.js";
import { securityOptions, securityContextField } from "./security-options.js";
import { podSysctls } from "./sysctls.js";
import { sandboxUserFields } from "./users.js";

export interface SandboxContext {
  readonly facts: NodeFacts;
  readonly network: Pick<NetworkPlugin, "name" | "dockerNetworkMode" | "dockerPublishesPorts">;
  readonly pauseImage: string;
  /** The score that this host can give, for the one that is wanted. */
  readonly oomScoreAdj: (wanted: number) => number;
  /** Why the OCI runtime in front of runc cannot be used; undefined where it works, or nothing needs it. */
  readonly ociProblem?: string | undefined;
  /** Prefixes of the keys of annotations that are meant for the OCI runtime. */
  readonly allowedAnnotations: readonly string[];
  /** Whether containers have labels that group them by pod. */
  readonly composeLabels?: boolean;
  /** The engine's files are out of reach: DNS goes into the create body instead of resolv.conf. */
  readonly apiOnlyDns: boolean;
  /** Content of the file that `localhostSeccompPath` named. */
  readonly seccompProfile?: string | undefined;
  /** Undefined when they cannot be read. */
  readonly loadedAppArmorProfiles?: ReadonlySet<string> | undefined;
}

export interface SandboxPlan {
  readonly identity: PodIdentity;
  readonly name: string;
  /** For when a container that cannot be removed has `name`; `random` is a uint32. */
  readonly alternativeName: (random: number) => string;
  readonly body: CreateBody;
  readonly checkpoint: {
    readonly namespace: string;
    readonly name: string;
    readonly hostNetwork: boolean;
    readonly portMappings: readonly PortMapping[];
  };
  readonly hostNetwork: boolean;
  /** To be written after start; absent: the engine's own file stays. */
  readonly resolvConf?: string;
  /** Absent with the host's network. */
  readonly networkRequest?: Omit<PodNetworkRequest, "sandboxId" | "netns">;
  /** Modes as requested, which Docker cannot tell apart afterwards. */
  readonly namespaces: PodNamespaces;
  readonly runtimeHandler: string;
  /** As requested. */
  readonly cgroupParent: string;
  readonly logDirectory: string;
  /** Absent when the request has none. */
  readonly resources?: PodResources;
  /** What the OCI runtime in front of runc adds to Docker's specification of the pause container. */
  readonly oci?: OciChanges;
}

/** The pause container's values, as in dockershim and cri-dockerd. */
const pauseOomScoreAdj = -998;
const pauseCpuShares = 2;
/** The size of the pod's /dev/shm: Docker's default, explicit as in dockershim and cri-dockerd. */
const sharedMemoryBytes = 64 * 1024 * 1024;

export function planSandbox(
  { config, runtime_handler }: ValidRunPodSandbox,
  context: SandboxContext,
): SandboxPlan {
  const { name, namespace, uid, attempt } = config.metadata;
  const identity: PodIdentity = { name, namespace, uid, attempt };
  const namespaces = requestedNamespaces(config.linux?.security_context?.namespace_options);
  const hostNetwork = namespaces.network === NamespaceMode.NODE;
  const portMappings = toPortMappings(config.port_mappings);
  const dockerName = sandboxName(identity);
  const oci = planSandboxUsers(config, runtime_handler, namespaces, context);
  return defined({
    identity,
    name: dockerName,
    alternativeName: (random: number) => alternativeName(dockerName, random),
    body: createBody(
      config,
      oci === undefined ? dockerRuntime(runtime_handler, context.facts) : ociRuntimeName,
      namespaces,
      portMappings,
      context,
    ),
    oci,
    checkpoint: { namespace, name, hostNetwork, portMappings },
    hostNetwork,
    resolvConf: context.apiOnlyDns ? undefined : resolvConfContent(config.dns_config),
    networkRequest: hostNetwork ? undefined : networkRequest(config, portMappings),
    namespaces,
    runtimeHandler: runtime_handler,
    cgroupParent: config.linux?.cgroup_parent ?? "",
    logDirectory: config.log_directory,
    resources: config.linux === null ? undefined : podResources(config.linux, "config.linux."),
  });
}

function createBody(
  config: SandboxConfig,
  runtime: string | undefined,
  namespaces: PodNamespaces,
  portMappings: readonly PortMapping[],
  context: SandboxContext,
): CreateBody {
  const { facts, network } = context;
  const linux = config.linux;
  const security = linux?.security_context;
  const privileged = security?.privileged ?? false;
  const published = network.dockerPublishesPorts && namespaces.network !== NamespaceMode.NODE;
  const { ExposedPorts, PortBindings } = portBindings(published ? portMappings : []);
  const { User, GroupAdd } = sandboxUserFields(security);
  return defined({
    Image: context.pauseImage,
    Hostname: unlessBlank(config.hostname),
    User,
    Labels: {
      ...(context.composeLabels === true ? composeLabels(config.metadata, sandboxContainerName) : {}),
      ...toDockerLabels(config.labels, config.annotations, {
        [typeLabel]: sandboxType,
        [containerNameLabel]: sandboxContainerName,
      }),
    },
    ExposedPorts,
    // The pause image may have one, for audits.
    Healthcheck: noHealthcheck,
    HostConfig: defined({
      ...sandboxNamespaceModes(namespaces, network.dockerNetworkMode, { facts, privileged }),
      CgroupParent: cgroupParent(
        linux?.cgroup_parent ?? "",
        facts.cgroupDriver,
        "config.linux.cgroup_parent",
      ),
      CpuShares: pauseCpuShares,
      OomScoreAdj: context.oomScoreAdj(pauseOomScoreAdj),
      ShmSize: sharedMemoryBytes,
      Init: false,
      Sysctls: podSysctls(linux?.sysctls ?? {}, namespaces),
      PortBindings,
      GroupAdd,
      ReadonlyRootfs: security?.readonly_rootfs ?? false,
      Privileged: privileged,
      SecurityOpt: sandboxSecurityOptions(config, context),
      Runtime: runtime,
      Annotations: annotationsField(
        {
          ...allowedAnnotations([config.annotations], context.allowedAnnotations),
          ...sandboxAnnotations(config, runtime ?? "", facts),
        },
        facts,
      ),
      // The pause container writes nothing: no log file for each pod.
      LogConfig: { Type: "none", Config: {} },
      ...(context.apiOnlyDns ? dnsFields(config.dns_config) : {}),
    }),
  });
}

function sandboxSecurityOptions(config: SandboxConfig, context: SandboxContext): readonly string[] {
  const security = config.linux?.security_context ?? null;
  if (security === null)
    return securityOptions({ selinux: null, appArmor: undefined, noNewPrivileges: true, seccomp: undefined });
  const seccomp = chooseSeccomp(security, { absent: "default", field: securityContextField });
  const appArmor = chooseAppArmor(security, securityContextField);
  return securityOptions({
    selinux: security.selinux_options,
    appArmor: appArmorOption(appArmor, context.facts, context.loadedAppArmorProfiles),
    noNewPrivileges: true,
    seccomp: security.privileged ? undefined : seccompOption(seccomp, context.seccompProfile),
  });
}

function networkRequest(
  config: SandboxConfig,
  portMappings: readonly PortMapping[],
): Omit<PodNetworkRequest, "sandboxId" | "netns"> {
  const { name, namespace, uid } = config.metadata;
  const dns = config.dns_config;
  return {
    name,
    namespace,
    uid,
    annotations: config.annotations,
    portMappings,
    cgroupParent: config.linux?.cgroup_parent ?? "",
    ...(dns === null ? {} : { dns: { servers: dns.servers, searches: dns.searches, options: dns.options } }),
  };
}
