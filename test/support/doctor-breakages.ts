/** Ways to break a node, each with what `dockershim doctor` reads of it then, and the check that names it. */
import type { DoctorFacts } from "../../src/doctor/facts.js";
import type { Severity } from "../../src/doctor/finding.js";
import { nodeFacts } from "../fakes/node-facts.js";
import {
  healthy,
  now,
  withConfiguration,
  withEngine,
  withFileSystem,
  withHost,
  withKubelet,
  withNetwork,
  withServer,
} from "./doctor-facts.js";

export interface Breakage {
  /** As a row of docs/run/doctor.md begins. */
  readonly name: string;
  readonly facts: DoctorFacts;
  readonly check: string;
  readonly severity: Severity;
}

const day = 24 * 3600 * 1000;
const { info } = healthy.engine.facts;
const mebibyte = 1024 ** 2;

function withOrphan(more: { readonly otherEngine?: string } = {}): DoctorFacts {
  const resources = [{ what: "address 10.244.1.7 of network pods", certainlyOurs: true }];
  return { ...healthy, orphans: { seen: { ...more, resources, complaints: undefined } } };
}

type Row = (check: string, name: string, facts: DoctorFacts) => Breakage;

const rowOf =
  (severity: Severity): Row =>
  (check, name, facts) => ({ name, facts, check, severity });
const [error, warning, note] = [rowOf("error"), rowOf("warning"), rowOf("note")];

function failing(kind: "timeout" | "precondition" | "unavailable", problem: string): DoctorFacts {
  return { ...healthy, engine: { state: "fails", kind, problem } };
}

export const breakages: readonly Breakage[] = [
  error("cgroup-driver", "wrong cgroup driver", withKubelet({ cgroupDriver: "cgroupfs" })),
  error("cni-plugins", "missing plugin", withConfiguration({ missing: ["portmap"] })),
  error(
    "cni-files",
    "broken CNI configuration",
    withConfiguration({
      network: undefined,
      problem: "error parsing configuration list: unexpected end of JSON input",
    }),
  ),
  ...[
    [
      "plugins that cannot be executed",
      'CNI plugin "bridge" VERSION: run "/opt/cni/bin/bridge": not executable',
    ],
    [
      "CNI configuration for newer plugins",
      'plugin bridge does not support config version "1.1.0" (only 0.4.0, 1.0.0)',
    ],
  ].map(([name = "", problem = ""]) =>
    error(
      "network-ready",
      name,
      withNetwork({
        network: undefined,
        problem: `no valid networks found in /etc/cni/net.d: /etc/cni/net.d/10-bridge.conflist: ${problem}`,
      }),
    ),
  ),
  error("iptables", "iptables missing", {
    ...healthy,
    firewall: { problem: "iptables is not installed", timedOut: false },
  }),
  error("oci-runtime", "OCI runtime that does not work", {
    ...withServer({
      ociRuntimeProblem:
        'the engine\'s runtime "dockershim-runc" does not work: exec: "/usr/libexec/dockershim-runc": no such file',
    }),
    engine: withEngine({
      info: {
        ...info,
        runtimes: [...info.runtimes, { name: "dockershim-runc", kind: "other", recursiveReadOnly: false }],
      },
    }).engine,
  }),
  error("settings", "broken settings of the server", {
    ...healthy,
    settings: {
      ...healthy.settings,
      problem: 'config file "/etc/dockershim/config.yaml" line 3 column 1: unknown option "cgroups"',
    },
  }),
  error("disk", "full disk", withFileSystem({ availableBytes: 20 * mebibyte })),
  error("read-only", "disk that the kernel has made read-only", withFileSystem({ readOnly: true })),
  error(
    "kernel-limits",
    "too many connections",
    withHost({ limits: [{ name: "connections", used: 262_144, limit: 262_144 }] }),
  ),
  error(
    "kernel-limits",
    "too many processes",
    withHost({ limits: [{ name: "threads", used: 32_700, limit: 32_768 }] }),
  ),
  error(
    "kernel-limits",
    "inotify used up",
    withHost({ limits: [{ name: "inotify", used: 128, limit: 128 }] }),
  ),
  error("inodes", "no inodes", withFileSystem({ freeInodes: 12 })),
  error("forward-policy", "FORWARD DROP", {
    ...healthy,
    firewall: { seen: { ...healthy.firewall.seen, otherForwardRules: [] } },
  }),
  error("socket", "stale socket", withServer({ runs: false, listener: "none", runtimes: [] })),
  error("engine", "frozen engine", failing("timeout", "connect to the engine: not finished after 5s")),
  error(
    "engine",
    "engine not running",
    failing(
      "unavailable",
      "cannot reach the Docker Engine at unix:///var/run/docker.sock: connect ECONNREFUSED",
    ),
  ),
  error("engine", "engine that does not start", {
    ...healthy,
    engine: {
      ...{ state: "fails", kind: "unavailable", problem: "no such socket" },
      lastWords:
        "failed to start daemon: error initializing graphdriver: prior storage driver overlay2 failed",
    },
  }),
  error(
    "socket",
    "server that does not start",
    withServer({
      ...{ runs: false, socket: "absent", listener: "none", runtimes: [] },
      lastWords: 'dockershim: listen on "/var/run/dockershim.sock": another server answers there',
    }),
  ),
  error("certificates", "expired certificate", {
    ...healthy,
    certificates: healthy.certificates.map((one) => ({
      ...one,
      reading: { seen: { notBeforeMs: now - 400 * day, notAfterMs: now - 35 * day } },
    })),
  }),
  error("clock", "clock wrong", { ...healthy, atMs: Date.parse("2019-01-01T00:00:00Z"), certificates: [] }),
  error(
    "engine",
    "API too old",
    failing(
      "precondition",
      "Docker Engine 19.03.15 speaks API 1.40, dockershim needs 1.41 (Docker Engine 20.10) or newer",
    ),
  ),
  warning(
    "limits",
    "no swap accounting",
    withEngine({ info: { ...info, warnings: ["No swap limit support"] } }),
  ),
  warning(
    "forwarding",
    "missing module",
    withHost({
      sysctls: { ...healthy.host.seen.sysctls, "net.bridge.bridge-nf-call-iptables": undefined },
    }),
  ),
  error(
    "resolv-conf",
    "resolv.conf loop",
    withHost({ nameservers: ["127.0.0.53"], resolvConf: "/etc/resolv.conf" }),
  ),
  error(
    "ports",
    "port taken",
    withServer({
      runs: false,
      socket: "absent",
      listener: "none",
      runtimes: [],
      takenPorts: [
        { flag: "metrics-bind-address", address: "127.0.0.1:9093", holder: "process 4711 (alertmanager)" },
      ],
    }),
  ),
  error(
    "kubelet-endpoint",
    "kubelet with another endpoint",
    withKubelet({ containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock" }),
  ),
  error(
    "two-runtimes",
    "two runtimes",
    withServer({ runtimes: ["dockershim", "cri-dockerd (process 812)"] }),
  ),
  warning("selinux", "SELinux", withHost({ selinux: "enforcing" })),
  warning("apparmor", "AppArmor", withHost({ apparmor: true })),
  warning("open-files", "ulimits", withEngine({ openFiles: { soft: 1024, hard: 524_288 } })),
  error(
    "bridges",
    "orphaned bridge",
    withNetwork({ ranges: [{ cidr: "10.244.9.1/24", interfaceName: "cni0" }] }),
  ),
  error(
    "addresses",
    "no addresses for pods",
    withNetwork({ addresses: { ranges: ["10.244.1.0/24"], used: 253, total: 253 } }),
  ),
  error("between-pods", "no packets between pods", {
    ...withNetwork({ plugin: "no-op", configurations: [], network: undefined, addresses: undefined }),
    migration: {
      seen: {
        ...healthy.migration.seen,
        daemonConfig: { path: "/etc/docker/daemon.json", values: { icc: false }, problem: undefined },
      },
    },
  }),
  warning("orphans", "orphaned address", withOrphan()),
  warning("orphans", "address of a pod of another engine", withOrphan({ otherEngine: "5e3f9a0c-2d1b" })),
  error("mounts", "hanging mount", {
    ...healthy,
    places: [
      {
        path: "/var/lib/kubelet",
        holds: "volumes of pods",
        reading: { problem: "not finished after 5s", timedOut: true },
      },
    ],
  }),
  error(
    "forwarding",
    "forwarding off",
    withHost({ sysctls: { ...healthy.host.seen.sysctls, "net.ipv4.ip_forward": "0" } }),
  ),
  error(
    "cni-status",
    "network not ready",
    withNetwork({ status: 'CNI plugin "calico" STATUS: the datastore is out of reach' }),
  ),
  warning(
    "quarantine",
    "records in quarantine",
    withServer({ quarantine: ["pod-4c1d….json-0a1b2c3d4e5f6071"] }),
  ),
  note(
    "engine-firewall",
    "engine with nftables",
    withEngine({ info: nodeFacts({ ...info, firewallBackend: "nftables" }) }),
  ),
];
