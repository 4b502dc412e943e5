/** The options about metrics: of this program, and of containers. Part of the table in options.ts. */
import { listenEndpointKind, localEndpointKind } from "./endpoints.js";
import { option } from "./option.js";
import { booleanKind, optional } from "./value-kinds.js";

export const metricsOptions = {
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
  cadvisorSocket: option({
    name: "cadvisor-socket",
    group: "Metrics",
    kind: optional(listenEndpointKind),
    default: "unix:///run/dockershim/cadvisor.sock",
    defaultShown: "/run/dockershim/cadvisor.sock; none with --read-only",
    help: "Socket for the kubelet's flag --containerd, from which its cAdvisor has the names of containers: a path, or fd:// as systemd passes it",
    why: "kubelets from 1.24 on ask containerd and never Docker; without an answer their container metrics have no names",
  }),
};
