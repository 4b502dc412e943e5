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

function failing(kind: "timeout" | "precondition" | "unavailable", problem: string): DoctorFacts {
  return { ...healthy, engine: { state: "fails", kind, problem } };
}

export const breakages: readonly Breakage[] = [
  {
    name: "wrong cgroup driver",
    facts: withKubelet({ cgroupDriver: "cgroupfs" }),
    check: "cgroup-driver",
    severity: "error",
  },
  {
    name: "missing plugin",
    facts: withConfiguration({ missing: ["portmap"] }),
    check: "cni-plugins",
    severity: "error",
  },
  {
    name: "broken CNI configuration",
    facts: withConfiguration({
      network: undefined,
      problem: "error parsing configuration list: unexpected end of JSON input",
    }),
    check: "cni-files",
    severity: "error",
  },
  ...[
    [
      "plugins that cannot be executed",
      'CNI plugin "bridge" VERSION: run "/opt/cni/bin/bridge": not executable',
    ],
    [
      "CNI configuration for newer plugins",
      'plugin bridge does not support config version "1.1.0" (only 0.4.0, 1.0.0)',
    ],
  ].map(([name = "", problem = ""]): Breakage => ({
    name,
    facts: withNetwork({
      network: undefined,
      problem: `no valid networks found in /etc/cni/net.d: /etc/cni/net.d/10-bridge.conflist: ${problem}`,
    }),
    check: "network-ready",
    severity: "error",
  })),
  {
    name: "iptables missing",
    facts: { ...healthy, firewall: { problem: "iptables is not installed", timedOut: false } },
    check: "iptables",
    severity: "error",
  },
  {
    name: "OCI runtime that does not work",
    facts: {
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
    },
    check: "oci-runtime",
    severity: "error",
  },
  {
    name: "broken settings of the server",
    facts: {
      ...healthy,
      settings: {
        ...healthy.settings,
        problem: 'config file "/etc/dockershim/config.yaml" line 3 column 1: unknown option "cgroups"',
      },
    },
    check: "settings",
    severity: "error",
  },
  {
    name: "full disk",
    facts: withFileSystem({ availableBytes: 20 * mebibyte }),
    check: "disk",
    severity: "error",
  },
  {
    name: "disk that the kernel has made read-only",
    facts: withFileSystem({ readOnly: true }),
    check: "read-only",
    severity: "error",
  },
  {
    name: "too many connections",
    facts: withHost({ limits: [{ name: "connections", used: 262_144, limit: 262_144 }] }),
    check: "kernel-limits",
    severity: "error",
  },
  {
    name: "too many processes",
    facts: withHost({ limits: [{ name: "threads", used: 32_700, limit: 32_768 }] }),
    check: "kernel-limits",
    severity: "error",
  },
  {
    name: "inotify used up",
    facts: withHost({ limits: [{ name: "inotify", used: 128, limit: 128 }] }),
    check: "kernel-limits",
    severity: "error",
  },
  { name: "no inodes", facts: withFileSystem({ freeInodes: 12 }), check: "inodes", severity: "error" },
  {
    name: "FORWARD DROP",
    facts: { ...healthy, firewall: { seen: { ...healthy.firewall.seen, otherForwardRules: [] } } },
    check: "forward-policy",
    severity: "error",
  },
  {
    name: "stale socket",
    facts: withServer({ runs: false, listener: "none", runtimes: [] }),
    check: "socket",
    severity: "error",
  },
  {
    name: "frozen engine",
    facts: failing("timeout", "connect to the engine: not finished after 5s"),
    check: "engine",
    severity: "error",
  },
  {
    name: "engine not running",
    facts: failing(
      "unavailable",
      "cannot reach the Docker Engine at unix:///var/run/docker.sock: connect ECONNREFUSED",
    ),
    check: "engine",
    severity: "error",
  },
  {
    name: "engine that does not start",
    facts: {
      ...healthy,
      engine: {
        ...{ state: "fails", kind: "unavailable", problem: "no such socket" },
        lastWords:
          "failed to start daemon: error initializing graphdriver: prior storage driver overlay2 failed",
      },
    },
    check: "engine",
    severity: "error",
  },
  {
    name: "server that does not start",
    facts: withServer({
      ...{ runs: false, socket: "absent", listener: "none", runtimes: [] },
      lastWords: 'dockershim: listen on "/var/run/dockershim.sock": another server answers there',
    }),
    check: "socket",
    severity: "error",
  },
  {
    name: "expired certificate",
    facts: {
      ...healthy,
      certificates: healthy.certificates.map((one) => ({
        ...one,
        reading: { seen: { notBeforeMs: now - 400 * day, notAfterMs: now - 35 * day } },
      })),
    },
    check: "certificates",
    severity: "error",
  },
  {
    name: "clock wrong",
    facts: { ...healthy, atMs: Date.parse("2019-01-01T00:00:00Z"), certificates: [] },
    check: "clock",
    severity: "error",
  },
  {
    name: "API too old",
    facts: failing(
      "precondition",
      "Docker Engine 19.03.15 speaks API 1.40, dockershim needs 1.41 (Docker Engine 20.10) or newer",
    ),
    check: "engine",
    severity: "error",
  },
  {
    name: "no swap accounting",
    facts: withEngine({ info: { ...info, warnings: ["No swap limit support"] } }),
    check: "limits",
    severity: "warning",
  },
  {
    name: "missing module",
    facts: withHost({
      sysctls: { ...healthy.host.seen.sysctls, "net.bridge.bridge-nf-call-iptables": undefined },
    }),
    check: "forwarding",
    severity: "warning",
  },
  {
    name: "resolv.conf loop",
    facts: withHost({ nameservers: ["127.0.0.53"], resolvConf: "/etc/resolv.conf" }),
    check: "resolv-conf",
    severity: "error",
  },
  {
    name: "port taken",
    facts: withServer({
      runs: false,
      socket: "absent",
      listener: "none",
      runtimes: [],
      takenPorts: [
        { flag: "metrics-bind-address", address: "127.0.0.1:9093", holder: "process 4711 (alertmanager)" },
      ],
    }),
    check: "ports",
    severity: "error",
  },
  {
    name: "kubelet with another endpoint",
    facts: withKubelet({ containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock" }),
    check: "kubelet-endpoint",
    severity: "error",
  },
  {
    name: "two runtimes",
    facts: withServer({ runtimes: ["dockershim", "cri-dockerd (process 812)"] }),
    check: "two-runtimes",
    severity: "error",
  },
  { name: "SELinux", facts: withHost({ selinux: "enforcing" }), check: "selinux", severity: "warning" },
  { name: "AppArmor", facts: withHost({ apparmor: true }), check: "apparmor", severity: "warning" },
  {
    name: "ulimits",
    facts: withEngine({ openFiles: { soft: 1024, hard: 524_288 } }),
    check: "open-files",
    severity: "warning",
  },
  {
    name: "orphaned bridge",
    facts: withNetwork({ ranges: [{ cidr: "10.244.9.1/24", interfaceName: "cni0" }] }),
    check: "bridges",
    severity: "error",
  },
  {
    name: "no addresses for pods",
    facts: withNetwork({ addresses: { ranges: ["10.244.1.0/24"], used: 253, total: 253 } }),
    check: "addresses",
    severity: "error",
  },
  {
    name: "no packets between pods",
    facts: {
      ...withNetwork({ plugin: "no-op", configurations: [], network: undefined, addresses: undefined }),
      migration: {
        seen: {
          ...healthy.migration.seen,
          daemonConfig: { path: "/etc/docker/daemon.json", values: { icc: false }, problem: undefined },
        },
      },
    },
    check: "between-pods",
    severity: "error",
  },
  {
    name: "orphaned address",
    facts: {
      ...healthy,
      orphans: {
        seen: {
          resources: [{ what: "address 10.244.1.7 of network pods", certainlyOurs: true }],
          complaints: undefined,
        },
      },
    },
    check: "orphans",
    severity: "warning",
  },
  {
    name: "address of a pod of another engine",
    facts: {
      ...healthy,
      orphans: {
        seen: {
          otherEngine: "5e3f9a0c-2d1b",
          resources: [{ what: "address 10.244.1.7 of network pods", certainlyOurs: true }],
          complaints: undefined,
        },
      },
    },
    check: "orphans",
    severity: "warning",
  },
  {
    name: "hanging mount",
    facts: {
      ...healthy,
      places: [
        {
          path: "/var/lib/kubelet",
          holds: "volumes of pods",
          reading: { problem: "not finished after 5s", timedOut: true },
        },
      ],
    },
    check: "mounts",
    severity: "error",
  },
  {
    name: "forwarding off",
    facts: withHost({ sysctls: { ...healthy.host.seen.sysctls, "net.ipv4.ip_forward": "0" } }),
    check: "forwarding",
    severity: "error",
  },
  {
    name: "network not ready",
    facts: withNetwork({ status: 'CNI plugin "calico" STATUS: the datastore is out of reach' }),
    check: "cni-status",
    severity: "error",
  },
  {
    name: "records in quarantine",
    facts: withServer({ quarantine: ["pod-4c1d….json-0a1b2c3d4e5f6071"] }),
    check: "quarantine",
    severity: "warning",
  },
  {
    name: "engine with nftables",
    facts: withEngine({ info: nodeFacts({ ...info, firewallBackend: "nftables" }) }),
    check: "engine-firewall",
    severity: "note",
  },
];
