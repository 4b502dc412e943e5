/**
 * The table of options: the one place that knows their names, defaults and meanings. The command line, the
 * environment, the configuration file, `dockershim config`, `--help` and docs/flags.md are all made from it. Its keys
 * are the fields of `Config`.
 */
import { parseReference } from "../domain/image-reference.js";
import { ShimError } from "../lib/errors.js";
import { containerOptions } from "./container-options.js";
import { bindAddressKind, dockerEndpointKind, listenEndpointKind, localEndpointKind } from "./endpoints.js";
import {
  booleanKind,
  cidrKind,
  dualStackCidrsKind,
  durationKind,
  enumKind,
  imagePatternsKind,
  integerKind,
  logLevelKind,
  optional,
  pathKind,
  pathListKind,
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
    help: "Where the CRI is served: a unix socket, or fd:// for the first socket that systemd passes",
    criDockerdDefault: "unix:///var/run/cri-dockerd.sock",
    kubeletDefault: "unix:///var/run/dockershim.sock",
    why: "the path that kubelets with dockershim, kubeadm and crictl know",
  }),
  stateDir: option({
    name: "state-dir",
    aliases: ["cri-dockerd-root-directory", "experimental-dockershim-root-directory"],
    group: "Serving the CRI",
    kind: pathKind,
    default: "/var/lib/dockershim",
    help: "Directory of the checkpoints (below sandbox/) and of all other state that outlives the process",
    criDockerdDefault: "/var/lib/cri-dockerd",
    kubeletDefault: "/var/lib/dockershim",
    why: "pods that dockershim started are found again; coming from cri-dockerd, give its directory",
  }),
};

const dockerEngine = {
  dockerEndpoint: option({
    name: "docker-endpoint",
    group: "Docker Engine",
    kind: optional(dockerEndpointKind),
    default: "",
    defaultShown: "DOCKER_HOST, else unix:///var/run/docker.sock",
    help: "The Docker Engine: unix:///path or tcp://host:port, with TLS where DOCKER_CERT_PATH or DOCKER_TLS_VERIFY ask for it",
    criDockerdDefault: "unix:///var/run/docker.sock",
    kubeletDefault: "unix:///var/run/docker.sock",
    why: "both look at DOCKER_HOST only when the flag is given as empty; here that is the default",
  }),
  runtimeRequestTimeoutMs: option({
    name: "runtime-request-timeout",
    group: "Docker Engine",
    kind: durationKind({ zeroMeansMs: 119_000 }),
    default: "2m0s",
    help: "Limit of one request to the engine, except pulls, logs, exec and attach; 0 means 1m59s",
    criDockerdDefault: "0s (1m59s)",
    kubeletDefault: "2m0s",
    why: "the kubelet's own limit of a CRI call",
  }),
  cgroupDriver: option({
    name: "cgroup-driver",
    group: "Docker Engine",
    kind: optional(enumKind(["cgroupfs", "systemd"])),
    default: "",
    defaultShown: "the engine's",
    help: "The cgroup driver that the engine must have; the start is refused when it has another",
    kubeletDefault: "cgroupfs",
    why: "the engine knows its driver; the flag is a check and not a setting",
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
    help: "Raise OOM score adjustments to the lowest that the engine may set; auto: where the engine cannot lower scores",
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
    help: "Whether pods may use the pause image that is part of dockershim when the configured one cannot be pulled",
  }),
  pinnedImages: option({
    name: "pinned-images",
    group: "Images",
    kind: imagePatternsKind,
    default: "",
    defaultShown: "none",
    help: "Images that the kubelet's garbage collection spares, separated by commas: names, beginnings as registry.example/*, or parts as *web*",
  }),
  dockerConfigDir: option({
    name: "docker-config-dir",
    group: "Images",
    kind: optional(pathKind),
    default: "",
    defaultShown: "/var/lib/kubelet, $HOME/.docker, /.docker",
    help: "Directory of the config.json with the node's registry credentials, used to pull the pause image",
  }),
  imagePullProgressDeadlineMs: option({
    name: "image-pull-progress-deadline",
    group: "Images",
    kind: durationKind(),
    default: "1m0s",
    help: "A pull that makes no progress for this long is cancelled",
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
      hint: "the name of a CNI network is not meant here",
    }),
    default: "auto",
    help: "Who makes pod networks; auto: cni where the CNI configuration directory exists, else no-op; empty: no-op",
    criDockerdDefault: "cni",
    kubeletDefault: "",
    why: "auto gives what cri-dockerd does on nodes with CNI and what dockershim does on others",
  }),
  cniConfDir: option({
    name: "cni-conf-dir",
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
    help: "Directory in which results of CNI plugins are kept until the pod ends",
    criDockerdDefault: "/var/lib/cni/cache",
    kubeletDefault: "/var/lib/cni/cache",
  }),
  writeExampleCniConfig: option({
    name: "write-example-cni-config",
    group: "Network",
    kind: booleanKind,
    default: "false",
    help: "Before the start, write a single-node network list (subnet from --pod-cidr) to --cni-conf-dir, unless a configuration is there",
  }),
  networkPluginMtuBytes: option({
    name: "network-plugin-mtu",
    group: "Network",
    kind: integerKind({ min: 68, max: 65_535, also: 0 }),
    default: "0",
    help: "MTU that kubenet sets; 0: it finds one out",
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
    why: "none breaks such pods; promiscuous-bridge needs ebtables rules that fail unnoticed with ebtables-nft",
  }),
  nonMasqueradeCidr: option({
    name: "non-masquerade-cidr",
    group: "Network",
    kind: cidrKind,
    default: "10.0.0.0/8",
    help: "kubenet masquerades traffic to addresses outside this network; 0.0.0.0/0 or ::/0: none at all",
    kubeletDefault: "10.0.0.0/8",
  }),
  iptablesMode: option({
    name: "iptables-mode",
    group: "Network",
    kind: enumKind(["auto", "nft", "legacy"]),
    default: "auto",
    help: "Backend of iptables in which kubenet writes its rules; auto: the one that holds Kubernetes' chains, else that of plain iptables",
  }),
  podCidrs: option({
    name: "pod-cidr",
    group: "Network",
    kind: dualStackCidrsKind,
    default: "",
    defaultShown: "told by the kubelet",
    help: "Network of the pods, for kubenet and for CNI lists that ask for ipRanges; two, separated by a comma, for dual stack",
    criDockerdDefault: "",
    kubeletDefault: "",
  }),
  ipv6DualStack: option({
    name: "ipv6-dual-stack",
    group: "Network",
    kind: booleanKind,
    default: "true",
    help: "Report all addresses of a pod and not only the first",
    criDockerdDefault: "false",
    why: "a pod has the addresses that its network gave it; without them the pod's status lacks its IPv6 address",
  }),
};

const streaming = {
  streamingBindAddress: option({
    name: "streaming-bind-addr",
    group: "Streaming",
    kind: bindAddressKind,
    default: "127.0.0.1",
    help: "IP address, with or without a port, on which exec, attach and port-forward are served",
    criDockerdDefault: "(all addresses)",
    why: "only the kubelet connects here, as with dockershim, which listened on localhost and had no flag; empty means the same",
  }),
  streamingConnectionIdleTimeoutMs: option({
    name: "streaming-connection-idle-timeout",
    group: "Streaming",
    kind: durationKind({ zeroMeansMs: 0 }),
    default: "4h0m0s",
    help: "A streaming connection without traffic for this long is closed; 0: never",
    kubeletDefault: "4h0m0s",
  }),
  streamingTlsCertFile: option({
    name: "streaming-tls-cert-file",
    group: "Streaming",
    kind: optional(pathKind),
    default: "",
    defaultShown: "none: plain HTTP",
    help: "PEM file of the certificate, with its intermediates, for exec, attach and port-forward over TLS; needs the key, too",
  }),
  streamingTlsPrivateKeyFile: option({
    name: "streaming-tls-private-key-file",
    group: "Streaming",
    kind: optional(pathKind),
    default: "",
    defaultShown: "none",
    help: "PEM file of the private key that belongs to --streaming-tls-cert-file",
  }),
};

const logging = {
  containerLogFormat: option({
    name: "container-log-format",
    group: "Logging",
    kind: enumKind(["cri", "docker"]),
    default: "cri",
    help: "Log files of new containers: written in the CRI's format, or links to Docker's JSON files, as dockershim made them",
    criDockerdDefault: "docker (no flag)",
    why: "kubelets rotate files of the CRI's format, and log agents read the same format on all nodes",
  }),
  adoptedLogs: option({
    name: "adopted-logs",
    group: "Logging",
    kind: enumKind(["keep", "convert"]),
    default: "keep",
    help: "Logs of running containers that dockershim or cri-dockerd made: kept as links to Docker's JSON files, which kubelets cannot rotate, or converted to files in the CRI's format at the first rotation",
    criDockerdDefault: "keep (no flag)",
  }),
  logLevel: option({
    name: "log-level",
    group: "Logging",
    kind: logLevelKind,
    default: "info",
    help: "panic, fatal, error, warn, info, debug or trace",
    criDockerdDefault: "info",
  }),
  verbosity: option({
    name: "v",
    group: "Logging",
    kind: optional(integerKind({ min: 0, max: 10 })),
    default: "",
    defaultShown: "none",
    help: "Log level as a number of klog: 0 to 3 info, 4 and 5 debug, 6 to 10 trace; --log-level of the same source wins",
    kubeletDefault: "0",
  }),
};

const metrics = {
  metricsBindAddress: option({
    name: "metrics-bind-address",
    group: "Metrics",
    kind: optional(localEndpointKind),
    default: "",
    defaultShown: "none: not served",
    help: "Where metrics for Prometheus and the health of the program are served (/metrics, /healthz, /readyz): IP:port of the loopback interface, or unix:///path",
    why: "metrics cost memory and time, and a listener that is not used is a risk",
  }),
};

export const options = {
  ...serving,
  ...dockerEngine,
  ...images,
  ...containerOptions,
  ...network,
  ...streaming,
  ...logging,
  ...metrics,
};

export type Options = typeof options;
export type OptionField = keyof Options;

/** The parsed value of every option, before those that depend on others are settled. */
export type OptionValues = {
  readonly [Field in OptionField]: Options[Field] extends Option<infer Value> ? Value : never;
};

/** All options with the field that each sets, in the order of the documentation. */
export const optionList = Object.entries(options) as readonly (readonly [OptionField, Option<unknown>])[];
