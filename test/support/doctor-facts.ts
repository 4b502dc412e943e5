/** What `dockershim doctor` reads of a node that is well: tests break one thing of it. */
import type {
  DoctorFacts,
  EngineFacts,
  HostFacts,
  NetworkFacts,
  ServerFacts,
} from "../../src/doctor/facts.js";
import type {
  FlagFact,
  KubeletSetting,
  MigrationFacts,
  ServiceFacts,
} from "../../src/migrate/facts/facts.js";
import { fakeReach } from "../fakes/reach.js";
import { nodeFacts } from "../fakes/node-facts.js";

const socket = "/var/run/dockershim.sock";
const day = 24 * 3600 * 1000;
export const now = Date.parse("2026-11-27T12:00:00Z");

function service(name: string, program: string): ServiceFacts {
  const path = `/usr/lib/systemd/system/${name}`;
  const entry = { section: "Service", key: "ExecStart", value: program, file: path, line: 5 };
  return {
    unit: {
      ...{ name, path, dropIns: [], isMasked: false, isEnabled: true, lastingLink: undefined },
      ...{ entries: [], problems: [] },
    },
    command: {
      entry,
      words: [{ text: program, raw: program, file: path, line: 5 }],
      ...{ environmentFiles: [], variables: new Map(), problems: [] },
    },
    flags: [],
  };
}

const kubeletConfig = "/var/lib/kubelet/config.yaml";

function setting(value: string): KubeletSetting {
  return { value, path: kubeletConfig, line: 3 };
}

/** A kubelet 1.30 of kubeadm, which asks this program. */
export const migration: MigrationFacts = {
  root: "/",
  isRoot: true,
  node: { name: "node-1", source: "host name" },
  engine: { endpoint: "unix:///var/run/docker.sock", problem: "not asked" },
  runtimeEngine: undefined,
  daemonConfig: undefined,
  kubelet: {
    service: service("kubelet.service", "/usr/bin/kubelet"),
    wrapper: undefined,
    config: { path: kubeletConfig, text: "", values: new Map(), problem: undefined },
    dropIns: [],
    settings: new Map([
      ["cgroupDriver", setting("systemd")],
      ["containerRuntimeEndpoint", setting(`unix://${socket}`)],
      ["resolvConf", setting("/run/systemd/resolve/resolv.conf")],
    ]),
    instanceConfig: undefined,
    version: { text: "1.30.1", minor: 30, source: "/usr/bin/kubelet --version" },
    running: { pid: 900, flags: [] },
    isKubeadm: true,
  },
  otherKubelet: undefined,
  services: {
    docker: undefined,
    criDocker: undefined,
    criDockerSocket: undefined,
    dockershim: service("dockershim.service", "/usr/bin/dockershim"),
    units: [],
    servers: [
      {
        runtime: "dockershim",
        service: service("dockershim.service", "/usr/bin/dockershim"),
        wrapper: undefined,
        socket: undefined,
        endpoint: `unix://${socket}`,
      },
    ],
    links: new Map(),
    listeners: new Map(),
  },
  network: {
    configurationDirectory: "/etc/cni/net.d",
    configurations: [],
    binDirectories: [],
    cached: new Map(),
  },
  checkpoints: [],
  dockerUsers: [],
  socketProblem: undefined,
  problems: [],
};

const fileSystem = {
  id: "fd01",
  totalBytes: 100 * 1024 ** 3,
  availableBytes: 60 * 1024 ** 3,
  inodes: 6_000_000,
  freeInodes: 5_000_000,
  readOnly: false,
};

export const healthy = {
  atMs: now,
  settings: {
    source: "dockershim.service",
    problem: undefined,
    engineEndpoint: "unix:///var/run/docker.sock",
    socket,
    stateDir: "/var/lib/dockershim",
    cgroupDriver: undefined,
    networkPlugin: "cni",
    cniConfDir: "/etc/cni/net.d",
    cniBinDirs: ["/opt/cni/bin", "/usr/lib/cni"],
    pauseImage: "registry.k8s.io/pause:3.10",
    builtinPauseImage: "fallback",
    defaultUlimits: [],
  },
  engine: {
    state: "answers",
    facts: {
      info: nodeFacts({
        engineVersion: "28.5.2",
        engineApiVersion: "1.51",
        apiMinor: 51,
        cgroupDriver: "systemd",
        cgroupVersion: 2,
      }),
      hasPauseImage: true,
      reach: fakeReach(true),
      openFiles: { soft: 65_536, hard: 524_288 },
    },
  },
  server: {
    seen: {
      runs: true,
      socket: "socket",
      listener: "program",
      takenPorts: [],
      lastWords: undefined,
      quarantine: [],
      runtimes: ["dockershim"],
      namesProblem: undefined,
      ociRuntimeProblem: undefined,
    },
  },
  host: {
    seen: {
      passed: { atMs: now - day, proof: "the last change of /var/lib/dockershim/pods" },
      synchronized: true,
      sysctls: {
        "net.ipv4.ip_forward": "1",
        "net.bridge.bridge-nf-call-iptables": "1",
        "net.ipv4.conf.all.rp_filter": "0",
      },
      limits: [
        { name: "connections", used: 2000, limit: 262_144 },
        { name: "threads", used: 3000, limit: 192_731 },
      ],
      selinux: "off",
      apparmor: false,
      nameservers: ["192.0.2.53"],
      resolvConf: "/run/systemd/resolve/resolv.conf",
    },
  },
  places: [
    { path: "/var/lib/dockershim", holds: "records of this program", reading: { seen: fileSystem } },
    { path: "/var/lib/docker", holds: "images and containers", reading: { seen: fileSystem } },
  ],
  certificates: [
    {
      holder: "the kubelet at the API server",
      path: "/var/lib/kubelet/pki/kubelet-client-current.pem",
      reading: { seen: { notBeforeMs: now - 100 * day, notAfterMs: now + 265 * day } },
    },
  ],
  network: {
    seen: {
      plugin: "cni",
      configurations: [
        {
          path: "/etc/cni/net.d/10-bridge.conflist",
          network: "pods",
          problem: undefined,
          missing: [],
          bridges: [{ name: "cni0", subnets: ["10.244.1.0/24"] }],
        },
      ],
      network: "pods",
      problem: undefined,
      status: undefined,
      addresses: { ranges: ["10.244.1.0/24"], used: 12, total: 253 },
      bridges: [
        { name: "docker0", ports: 0 },
        { name: "cni0", ports: 12 },
      ],
      ranges: [
        { cidr: "172.17.0.0/16", interfaceName: "docker0" },
        { cidr: "10.244.1.1/24", interfaceName: "cni0" },
      ],
    },
  },
  firewall: {
    seen: {
      version: "1.8.9 (nf_tables)",
      differsFromDefault: false,
      forwardPolicy: "DROP",
      otherForwardRules: ['-m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD'],
    },
  },
  orphans: { seen: { resources: [], complaints: undefined } },
  migration: { seen: migration },
} as const satisfies DoctorFacts;

export function withEngine(changes: Partial<EngineFacts>): DoctorFacts {
  return { ...healthy, engine: { state: "answers", facts: { ...healthy.engine.facts, ...changes } } };
}

export function withServer(changes: Partial<ServerFacts>): DoctorFacts {
  return { ...healthy, server: { seen: { ...healthy.server.seen, ...changes } } };
}

export function withHost(changes: Partial<HostFacts>): DoctorFacts {
  return { ...healthy, host: { seen: { ...healthy.host.seen, ...changes } } };
}

export function withNetwork(changes: Partial<NetworkFacts>): DoctorFacts {
  return { ...healthy, network: { seen: { ...healthy.network.seen, ...changes } } };
}

/** The first file of the configuration. */
export function withConfiguration(changes: Partial<NetworkFacts["configurations"][number]>): DoctorFacts {
  const { network, problem } = { network: undefined, problem: "no valid networks found in /etc/cni/net.d" };
  const [first] = healthy.network.seen.configurations;
  return withNetwork({ configurations: [{ ...first, ...changes }], network, problem });
}

export function withFileSystem(changes: Partial<typeof fileSystem>): DoctorFacts {
  const places = healthy.places.map((place) => ({
    ...place,
    reading: { seen: { ...fileSystem, ...changes } },
  }));
  return { ...healthy, places };
}

export function withKubelet(
  settings: Readonly<Record<string, string>>,
  flags: readonly FlagFact[] = [],
): DoctorFacts {
  const changed = Object.entries(settings).map(([name, value]) => [name, setting(value)] as const);
  const kubelet = {
    ...migration.kubelet,
    settings: new Map([...migration.kubelet.settings, ...changed]),
    running: { pid: 900, flags },
  };
  return { ...healthy, migration: { seen: { ...migration, kubelet } } };
}
