/**
 * The table of options with their names, defaults and meanings. The command line, the environment, the
 * configuration file, `dockershim config`, `--help` and docs/run/flags.md all use this table. Its keys are the
 * fields of `Config`.
 */
import { parseReference } from "../../domain/image-reference.js";
import { ShimError } from "../../lib/errors.js";
import { containerOptions } from "./container-options.js";
import {
  bindAddressKind,
  dockerEndpointKind,
  listenEndpointKind,
  localEndpointKind,
  otlpEndpointKind,
} from "./endpoints.js";
import {
  booleanKind,
  dualStackCidrsKind,
  durationKind,
  enumKind,
  imagePatternsKind,
  integerKind,
  logLevelKind,
  optional,
  pathKind,
  pathListKind,
  requiredCidrsKind,
} from "./value-kinds.js";
import { type Option, type ValueKind, option } from "./option.js";

const defaultPauseImage = "registry.k8s.io/pause:3.10";

/** An image reference; empty is the default pause image, as in dockershim. */
const pauseImageKind: ValueKind<string> = {
  placeholder: "image",
  parse(text) {
    if (text === "") return defaultPauseImage;
    if (parseReference(text) === undefined) throw new ShimError("invalid", "is not an image reference");
    return text;
  },
  format: (value) => value,
};

/** An absolute cgroup name; the leading slash may be missing. */
const cgroupNameKind: ValueKind<string> = {
  placeholder: "cgroup",
  parse(text) {
    const name = pathKind.parse(text.startsWith("/") ? text : `/${text}`);
    if (text.split("/").includes("..")) throw new ShimError("invalid", 'must not contain ".."');
    return name;
  },
  format: (value) => value,
};

const serving = {
  containerRuntimeEndpoint: option({
    name: "container-runtime-endpoint",
    group: "Serving the CRI",
    kind: listenEndpointKind,
    default: "unix:///var/run/dockershim.sock",
    help: "Socket of the CRI: unix:///path, or fd:// for the first socket that systemd passes",
    criDockerdDefault: "unix:///var/run/cri-dockerd.sock",
    isNamedDefault: true,
    kubeletDefault: "unix:///var/run/dockershim.sock",
    why: "the path that kubelets with dockershim, kubeadm and crictl know",
  }),
  stateDir: option({
    name: "state-dir",
    aliases: ["cri-dockerd-root-directory", "experimental-dockershim-root-directory"],
    group: "Serving the CRI",
    kind: pathKind,
    default: "/var/lib/dockershim",
    help: "Directory of the checkpoints (in sandbox/) and of all other state that outlives the process",
    criDockerdDefault: "/var/lib/cri-dockerd",
    isNamedDefault: true,
    kubeletDefault: "/var/lib/dockershim",
    why: "the program finds the pods of dockershim there; on a node with pods of cri-dockerd, give that directory",
  }),
};

const observing = {
  readOnly: option({
    name: "read-only",
    group: "Serving the CRI",
    kind: booleanKind,
    default: "false",
    help: "Change nothing on the node and refuse all calls that would, to serve beside another runtime: see dockershim shadow",
  }),
};

const dockerEngine = {
  dockerEndpoint: option({
    name: "docker-endpoint",
    aliases: ["docker"],
    group: "Docker Engine",
    kind: optional(dockerEndpointKind),
    default: "",
    defaultShown: "DOCKER_HOST, Docker's context, unix:///var/run/docker.sock",
    help: "The Docker Engine: unix:///path, tcp://host:port or ssh://user@host. DOCKER_CERT_PATH or DOCKER_TLS_VERIFY turn TLS on",
    criDockerdDefault: "unix:///var/run/docker.sock",
    kubeletDefault: "unix:///var/run/docker.sock",
    why: "the others read DOCKER_HOST only when the flag is given and empty; here empty is the default, and as for the docker command the context of its configuration counts",
  }),
  engineReach: option({
    name: "engine-reach",
    group: "Docker Engine",
    kind: enumKind(["auto", "host", "remote"]),
    default: "auto",
    help: "What of the engine's host is used. auto: what is proven to be in reach; host: all of it, else the start fails; remote: nothing",
  }),
  runtimeRequestTimeoutMs: option({
    name: "runtime-request-timeout",
    group: "Docker Engine",
    kind: durationKind({ zeroMeansMs: 119_000 }),
    default: "2m0s",
    help: "Timeout of one request to the engine, except pulls, logs, exec and attach; 0 means 1m59s",
    criDockerdDefault: "0s (1m59s)",
    kubeletDefault: "2m0s",
    why: "the kubelet's own timeout of a CRI call",
  }),
  cgroupDriver: option({
    name: "cgroup-driver",
    group: "Docker Engine",
    kind: optional(enumKind(["cgroupfs", "systemd"])),
    default: "",
    defaultShown: "the engine's",
    help: "The cgroup driver that the engine must have. With another driver the start fails",
    kubeletDefault: "cgroupfs",
    why: "the engine has a driver already; the flag is a check and not a setting",
  }),
  runtimeCgroups: option({
    name: "runtime-cgroups",
    group: "Docker Engine",
    kind: optional(cgroupNameKind),
    default: "",
    defaultShown: "none",
    help: "Absolute name of a cgroup into which the engine's processes are moved",
    criDockerdDefault: "",
    kubeletDefault: "",
  }),
  clampOomScores: option({
    name: "clamp-oom-scores",
    group: "Docker Engine",
    kind: enumKind(["auto", "always", "never"]),
    default: "auto",
    help: "Raise OOM score adjustments to the lowest that the engine may set. auto: only if the engine cannot lower scores",
  }),
};

const images = {
  pauseImage: option({
    name: "pod-infra-container-image",
    group: "Images",
    kind: pauseImageKind,
    default: defaultPauseImage,
    help: "The image of the container that holds a pod's namespaces",
    criDockerdDefault: defaultPauseImage,
    kubeletDefault: "k8s.gcr.io/pause:3.2",
    why: "k8s.gcr.io is frozen and its images are old",
  }),
  builtinPauseImage: option({
    name: "builtin-pause-image",
    group: "Images",
    kind: enumKind(["fallback", "forbid"]),
    default: "fallback",
    help: "Whether pods may use dockershim's own pause image when the configured image cannot be pulled",
  }),
  pinnedImages: option({
    name: "pinned-images",
    group: "Images",
    kind: imagePatternsKind,
    default: "",
    defaultShown: "none",
    help: "Images that the kubelet's garbage collection keeps, separated by commas: a name, a prefix (registry.example/*) or a part (*web*)",
  }),
  dockerConfigDir: option({
    name: "docker-config-dir",
    group: "Images",
    kind: optional(pathKind),
    default: "",
    defaultShown: "/var/lib/kubelet, $HOME/.docker, /.docker",
    help: "Directory of the config.json with the node's registry credentials, for the pull of the pause image",
  }),
  imagePullProgressDeadlineMs: option({
    name: "image-pull-progress-deadline",
    group: "Images",
    kind: durationKind({ zeroMeansMs: 0 }),
    default: "1m0s",
    help: "Cancel a pull after this time without progress; 0 means 1m0s",
    criDockerdDefault: "1m0s",
    kubeletDefault: "1m0s",
  }),
};

const network = {
  networkPlugin: option({
    name: "network-plugin",
    group: "Network",
    kind: enumKind(["auto", "no-op", "cni", "kubenet"], {
      synonyms: { "": "no-op" },
      hint: "the flag does not take the name of a CNI network",
    }),
    default: "auto",
    help: "Network plugin. auto: cni if the CNI configuration directory exists before the first pod, else no-op; empty: no-op",
    criDockerdDefault: "cni",
    isNamedDefault: true,
    kubeletDefault: "",
    why: "auto does the same as cri-dockerd on nodes with CNI, and the same as dockershim on others",
  }),
  cniConfDir: option({
    name: "cni-conf-dir",
    aliases: ["network-plugin-dir"],
    group: "Network",
    kind: pathKind,
    default: "/etc/cni/net.d",
    help: "Directory of the CNI network configurations",
    criDockerdDefault: "/etc/cni/net.d",
    kubeletDefault: "/etc/cni/net.d",
  }),
  cniBinDirs: option({
    name: "cni-bin-dir",
    group: "Network",
    kind: pathListKind,
    default: "/opt/cni/bin,/usr/lib/cni",
    help: "Directories of the CNI plugins, separated by commas, searched in this order",
    criDockerdDefault: "/opt/cni/bin",
    kubeletDefault: "/opt/cni/bin",
    why: "distributions install their package of plugins in /usr/lib/cni",
  }),
  cniCacheDir: option({
    name: "cni-cache-dir",
    group: "Network",
    kind: pathKind,
    default: "/var/lib/cni/cache",
    help: "Directory of the CNI plugins' results, which are kept until the pod ends",
    criDockerdDefault: "/var/lib/cni/cache",
    kubeletDefault: "/var/lib/cni/cache",
  }),
  writeExampleCniConfig: option({
    name: "write-example-cni-config",
    group: "Network",
    kind: booleanKind,
    default: "false",
    help: "Before the start, write a single-node network list (subnet from --pod-cidr) to --cni-conf-dir if that has no configuration",
  }),
  networkPluginMtuBytes: option({
    name: "network-plugin-mtu",
    group: "Network",
    kind: integerKind({ min: 68, max: 65_535, also: 0 }),
    default: "0",
    help: "MTU that kubenet sets; 0: the smallest MTU of the node's network interfaces",
    criDockerdDefault: "0",
    kubeletDefault: "0",
  }),
  hairpinMode: option({
    name: "hairpin-mode",
    group: "Network",
    kind: enumKind(["hairpin-veth", "promiscuous-bridge", "none"]),
    default: "hairpin-veth",
    help: "How kubenet lets a pod reach itself through a service",
    criDockerdDefault: "none",
    kubeletDefault: "promiscuous-bridge",
    why: "none breaks such pods; promiscuous-bridge needs ebtables rules, which fail without an error with ebtables-nft",
  }),
  nonMasqueradeCidrs: option({
    name: "non-masquerade-cidr",
    group: "Network",
    kind: requiredCidrsKind,
    default: "10.0.0.0/8",
    help: "kubenet masquerades traffic to addresses outside this network; 0.0.0.0/0 or ::/0: no traffic. Dual stack: two, separated by a comma",
    kubeletDefault: "10.0.0.0/8",
  }),
  iptablesMode: option({
    name: "iptables-mode",
    group: "Network",
    kind: enumKind(["auto", "nft", "legacy"]),
    default: "auto",
    help: "Backend of iptables for kubenet's rules. auto: the backend with Kubernetes' chains, else the backend of the iptables command",
  }),
  podCidrs: option({
    name: "pod-cidr",
    group: "Network",
    kind: dualStackCidrsKind,
    default: "",
    defaultShown: "from the kubelet",
    help: "Network of the pods, for kubenet and for CNI lists with the capability ipRanges. Dual stack: two, separated by a comma",
    criDockerdDefault: "",
    kubeletDefault: "",
  }),
  ipv6DualStack: option({
    name: "ipv6-dual-stack",
    group: "Network",
    kind: booleanKind,
    default: "true",
    help: "Report all addresses of a pod instead of only the first",
    criDockerdDefault: "false",
    why: "with false, the status of a dual-stack pod lacks its IPv6 address",
  }),
};

const streaming = {
  streamingBindAddress: option({
    name: "streaming-bind-addr",
    group: "Streaming",
    kind: bindAddressKind,
    default: "127.0.0.1",
    help: "IP address of the server for exec, attach and port-forward, with or without a port",
    criDockerdDefault: "(all addresses)",
    why: "only the kubelet connects; dockershim had no flag and listened on localhost, too. Empty means 127.0.0.1",
  }),
  streamingConnectionIdleTimeoutMs: option({
    name: "streaming-connection-idle-timeout",
    group: "Streaming",
    kind: durationKind({ zeroMeansMs: 0 }),
    default: "4h0m0s",
    help: "Close a streaming connection after this time without traffic; 0: never",
    kubeletDefault: "4h0m0s",
  }),
  streamingTlsCertFile: option({
    name: "streaming-tls-cert-file",
    group: "Streaming",
    kind: optional(pathKind),
    default: "",
    defaultShown: "none: plain HTTP",
    help: "PEM file of the certificate, with its intermediates, for exec, attach and port-forward over TLS. Needs the key as well",
  }),
  streamingTlsPrivateKeyFile: option({
    name: "streaming-tls-private-key-file",
    group: "Streaming",
    kind: optional(pathKind),
    default: "",
    defaultShown: "none",
    help: "PEM file of the private key of --streaming-tls-cert-file",
  }),
};

const logging = {
  containerLogFormat: option({
    name: "container-log-format",
    group: "Logging",
    kind: enumKind(["cri", "docker"]),
    default: "cri",
    help: "Log files of new containers: cri writes files in the CRI's format; docker makes links to Docker's JSON files, as dockershim did",
    criDockerdDefault: "docker (no flag)",
    why: "kubelets rotate files of the CRI's format, and log agents read the same format on all nodes",
  }),
  adoptedLogs: option({
    name: "adopted-logs",
    group: "Logging",
    kind: enumKind(["keep", "convert"]),
    default: "keep",
    help: "Logs of running containers of dockershim or cri-dockerd: keep links to Docker's JSON files, or convert at the first rotation",
    criDockerdDefault: "keep (no flag)",
    why: "kubelets cannot rotate Docker's JSON files; convert makes them files in the CRI's format",
  }),
  logLevel: option({
    name: "log-level",
    group: "Logging",
    kind: logLevelKind,
    default: "info",
    help: "Least severe level that is logged: panic, fatal, error, warn, info, debug or trace",
    criDockerdDefault: "info",
  }),
  verbosity: option({
    name: "v",
    group: "Logging",
    kind: optional(integerKind({ min: 0, max: 10 })),
    default: "",
    defaultShown: "none",
    help: "Log level as a number of klog: 0 to 3 info, 4 and 5 debug, 6 to 10 trace. --log-level from the same source wins",
    kubeletDefault: "0",
  }),
};

const history = {
  historyMaxBytes: option({
    name: "history-max-bytes",
    group: "History",
    kind: integerKind({ min: 1024 ** 2, max: 1024 ** 4, also: 0 }),
    default: "16777216",
    help: "Bytes of the history of pods below --state-dir, for dockershim why; the oldest goes first; 0 keeps none",
  }),
  historyMaxAgeMs: option({
    name: "history-max-age",
    group: "History",
    kind: durationKind(),
    default: "168h0m0s",
    help: "Age of the history of pods; what is older is removed when something is written",
  }),
};

export const options = {
  ...serving,
  ...observing,
  ...dockerEngine,
  ...images,
  ...containerOptions,
  ...network,
  ...streaming,
  ...logging,
  ...history,
  metricsBindAddress: option({
    name: "metrics-bind-address",
    group: "Metrics",
    kind: optional(localEndpointKind),
    default: "",
    defaultShown: "none: not served",
    help: "Address of /metrics (Prometheus), /healthz and /readyz: IP:port of the loopback interface, or unix:///path",
    why: "metrics cost memory and time, and an unused listener is a risk",
  }),
  metricsContainers: option({
    name: "metrics-containers",
    group: "Metrics",
    kind: booleanKind,
    default: "false",
    help: "Serve /metrics/containers as well: cAdvisor's metrics of pods and containers",
    why: "kubelets serve these metrics: see --cadvisor-socket",
  }),
  metricsPage: option({
    name: "metrics-page",
    group: "Metrics",
    kind: booleanKind,
    default: "false",
    help: "Serve / as well, a page for people: the node, its pods, calls under way, the slowest calls and recent errors",
    why: "it shows names of pods, images and errors to all users of the node, unless the address is a socket",
  }),
  cadvisorSocket: option({
    name: "cadvisor-socket",
    group: "Metrics",
    kind: optional(listenEndpointKind),
    default: "unix:///run/dockershim/cadvisor.sock",
    defaultShown: "/run/dockershim/cadvisor.sock; none with --read-only",
    help: "Socket for the kubelet's flag --containerd, from which its cAdvisor has the names of containers: a path, or fd:// as systemd passes it",
    why: "kubelets from 1.24 on ask containerd and never Docker; without an answer their container metrics have no names",
  }),
  otlpEndpoint: option({
    name: "otlp-endpoint",
    group: "Traces",
    kind: optional(otlpEndpointKind),
    default: "",
    defaultShown: "none: no traces",
    help: "Send OpenTelemetry traces of calls to this OTLP receiver, over gRPC: host:port as in the kubelet's tracing, or https://host:port",
  }),
  otlpSamplingRatePerMillion: option({
    name: "otlp-sampling-rate-per-million",
    group: "Traces",
    kind: integerKind({ min: 0, max: 1_000_000 }),
    default: "0",
    help: "How many of a million calls are traced whose caller has no trace. A trace of the caller is continued if the caller samples it",
  }),
};

export type Options = typeof options;
export type OptionField = keyof Options;

/** The parsed value of every option, before resolve.ts computes options that depend on others. */
export type OptionValues = {
  readonly [Field in OptionField]: Options[Field] extends Option<infer Value> ? Value : never;
};

/** All options with the field that each sets, in the order of the documentation. */
export const optionList = Object.entries(options) as readonly (readonly [OptionField, Option<unknown>])[];
