/** The engine: whether it answers, and whether it has what pods need. Pure. */
import { ociRuntimeName } from "../../domain/oci-changes.js";
import { reachProblem } from "../../domain/reach.js";
import { configuredOpenFiles, isLow } from "../../shim/limits/open-files-notice.js";
import type { Check, Draft } from "../finding.js";
import type { DoctorFacts, EngineFacts } from "../facts.js";

/** Drivers that Docker has removed or calls deprecated, or that copy every layer. */
const poorDrivers: readonly string[] = ["vfs", "devicemapper", "aufs", "overlay"];

/** Warnings of the engine without which limits of pods do not work; it also warns of many that nothing uses. */
const neededControllers = /^No (memory limit|cpu cfs (quota|period)|cpu shares|cpuset|pids limit) support/i;

export const engineChecks: readonly Check<DoctorFacts>[] = [
  { id: "engine", part: "engine", judge: judgeAnswer },
  { id: "driver-flag", part: "engine", judge: judgeDriverFlag },
  { id: "storage", part: "engine", judge: ofEngine(judgeStorage) },
  { id: "limits", part: "engine", judge: ofEngine(judgeLimits) },
  { id: "pause-image", part: "engine", judge: ofEngine(judgePauseImage) },
  { id: "seccomp", part: "engine", judge: ofEngine(judgeSeccomp) },
  { id: "apparmor", part: "engine", judge: ofEngine(judgeAppArmor) },
  { id: "selinux", part: "engine", judge: ofEngine(judgeSelinux) },
  { id: "oci-runtime", part: "engine", judge: ofEngine(judgeOciRuntime) },
  { id: "engine-firewall", part: "network", judge: ofEngine(judgeFirewallBackend) },
  { id: "reach", part: "reach", judge: ofEngine(judgeReach) },
  { id: "open-files", part: "ulimits", judge: ofEngine(judgeOpenFiles) },
];

function ofEngine(
  judge: (engine: EngineFacts, facts: DoctorFacts) => readonly Draft[],
): Check<DoctorFacts>["judge"] {
  return (facts) => (facts.engine.state === "answers" ? judge(facts.engine.facts, facts) : []);
}

function judgeAnswer({ engine, settings: { engineEndpoint: endpoint } }: DoctorFacts): readonly Draft[] {
  if (engine.state === "answers") return [];
  if (engine.state === "asleep")
    return [
      {
        severity: "error",
        what: `no engine runs behind ${endpoint}: systemd listens there, and would start it`,
        meaning: "pods cannot be started or seen; what is asked of the engine was not checked",
        remedy: "systemctl start docker.service",
      },
    ];
  const { kind, problem, lastWords } = engine;
  const meaning = "pods cannot be started or seen; what is asked of the engine was not checked";
  if (kind === "timeout")
    return [
      {
        severity: "error",
        what: `the engine at ${endpoint} takes connections and does not answer`,
        meaning: "it hangs: calls of the kubelet end by their deadlines, and the node becomes NotReady",
        remedy:
          "journalctl -u docker; kill -USR1 $(pidof dockerd) writes its stacks to a file; then: systemctl restart docker, and containerd, if it hangs again",
      },
    ];
  if (kind === "precondition")
    return [
      {
        severity: "error",
        what: problem,
        meaning: "the server refuses to work with it",
        remedy: "update the engine, as by apt-get install docker-ce",
      },
    ];
  const isDenied = /EACCES|EPERM|permission denied/i.test(problem);
  return [
    {
      severity: "error",
      what: lastWords === undefined ? problem : `the engine has ended: ${lastWords}`,
      meaning,
      remedy: isDenied
        ? "run this command as root"
        : lastWords === undefined
          ? "systemctl status docker; start it, or give its address with --docker-endpoint"
          : "journalctl -u docker; correct what it says, then: systemctl reset-failed docker; systemctl start docker",
    },
  ];
}

function judgeDriverFlag({ engine, settings: { cgroupDriver } }: DoctorFacts): readonly Draft[] {
  if (engine.state !== "answers" || cgroupDriver === undefined) return [];
  const { cgroupDriver: present } = engine.facts.info;
  if (present === cgroupDriver) return [];
  return [
    {
      severity: "error",
      what: `--cgroup-driver=${cgroupDriver}, and the engine has ${present}`,
      meaning: "the server does not start",
      remedy: `leave out --cgroup-driver, or "exec-opts": ["native.cgroupdriver=${cgroupDriver}"] in daemon.json`,
    },
  ];
}

function judgeStorage({ info: { storageDriver } }: EngineFacts): readonly Draft[] {
  if (!poorDrivers.includes(storageDriver)) return [];
  return [
    {
      severity: "warning",
      what: `the engine stores images with ${storageDriver}`,
      meaning: "each container copies or maps whole layers: pods start slowly, and disks fill",
      remedy:
        '"storage-driver": "overlay2" in daemon.json, on xfs (ftype=1) or ext4; images are pulled again',
    },
  ];
}

/** The engine's own warnings, as docker info prints them. */
function judgeLimits({ info: { warnings, cgroupVersion } }: EngineFacts): readonly Draft[] {
  const noSwap = warnings.filter((line) => /^No swap limit/i.test(line));
  const others = warnings.filter((line) => neededControllers.test(line));
  const open = warnings.filter((line) => /API is accessible on .* without encryption/i.test(line));
  const drafts: Draft[] = [];
  if (noSwap.length > 0)
    drafts.push({
      severity: "warning",
      what: "the kernel does not account for swap",
      meaning: "containers may swap beyond their memory limits",
      remedy:
        cgroupVersion === 1
          ? "swapoff -a, or boot with swapaccount=1"
          : "swapoff -a, or a kernel with CONFIG_MEMCG_SWAP",
    });
  if (others.length > 0)
    drafts.push({
      severity: "error",
      what: `the engine lacks cgroup controllers: ${others.join(", ")}`,
      meaning: "limits of pods are refused or have no effect",
      remedy: "enable the controllers at boot, as by cgroup_enable=memory on the kernel's command line",
    });
  if (open.length > 0)
    drafts.push({
      severity: "warning",
      what: `the engine says: ${open.join("; ")}`,
      meaning: "every program that reaches this port is root on the node",
      remedy:
        "remove the tcp address from hosts in daemon.json and from docker.service, or give it --tlsverify",
    });
  return drafts;
}

function judgePauseImage({ hasPauseImage }: EngineFacts, { settings }: DoctorFacts): readonly Draft[] {
  const { pauseImage, builtinPauseImage } = settings;
  if (hasPauseImage || builtinPauseImage === "fallback") return [];
  return [
    {
      severity: "warning",
      what: `the pause image ${pauseImage} is not here, and the built-in one is forbidden`,
      meaning: "the first pod pulls it, and no pod starts while the registry is out of reach",
      remedy: `docker pull ${pauseImage}, or leave out --builtin-pause-image=forbid`,
    },
  ];
}

/** Where it is not registered nothing is wrong: it is the operator's choice. */
function judgeOciRuntime({ info: { runtimes } }: EngineFacts, { server }: DoctorFacts): readonly Draft[] {
  const problem = server.seen?.ociRuntimeProblem;
  if (problem === undefined || !runtimes.some(({ name }) => name === ociRuntimeName)) return [];
  return [
    {
      severity: "error",
      what: problem,
      meaning: "pods with users of their own, and others that need more than Docker's API, are refused",
      remedy: "dockershim install --oci-runtime, then: systemctl reload docker",
    },
  ];
}

function judgeSeccomp({ info: { security } }: EngineFacts): readonly Draft[] {
  if (security.seccomp) return [];
  return [
    {
      severity: "warning",
      what: "the engine has no seccomp",
      meaning: "containers may make every system call, and pods with a profile are refused",
      remedy: "a kernel with CONFIG_SECCOMP_FILTER, and an engine that was built with seccomp",
    },
  ];
}

function judgeAppArmor({ info: { security } }: EngineFacts, { host }: DoctorFacts): readonly Draft[] {
  if (host.seen?.apparmor !== true || security.apparmor) return [];
  return [
    {
      severity: "warning",
      what: "the kernel has AppArmor, and the engine does not use it",
      meaning: "containers run unconfined, and pods that ask for a profile are refused",
      remedy: "apt-get install apparmor, then: systemctl restart docker",
    },
  ];
}

function judgeSelinux({ info: { security } }: EngineFacts, { host }: DoctorFacts): readonly Draft[] {
  if (host.seen?.selinux !== "enforcing" || security.selinux) return [];
  return [
    {
      severity: "warning",
      what: "SELinux is enforcing, and the engine does not label containers",
      meaning: "seLinuxOptions of pods have no effect, and nothing separates containers by labels",
      remedy:
        'dnf install container-selinux, "selinux-enabled": true in daemon.json, then: systemctl restart docker',
    },
  ];
}

function judgeFirewallBackend({ info: { firewallBackend } }: EngineFacts): readonly Draft[] {
  if (!firewallBackend.startsWith("nftables")) return [];
  return [
    {
      severity: "note",
      what: `the engine writes its rules with nftables (${firewallBackend})`,
      meaning:
        "rules in the chain DOCKER-USER of iptables have no effect, and the engine does not enable forwarding",
      remedy: "nft list ruleset shows its rules; move own ones from DOCKER-USER to a table of nftables",
    },
  ];
}

function judgeReach({ reach }: EngineFacts): readonly Draft[] {
  const problem = reachProblem(reach);
  if (problem === undefined) return [];
  return [
    {
      severity: "error",
      what: problem,
      meaning: "RuntimeReady is false",
      remedy: "dockershim doctor reach names what is missing; share it, or leave out --engine-reach=host",
    },
  ];
}

function judgeOpenFiles(
  { openFiles }: EngineFacts,
  { settings: { defaultUlimits } }: DoctorFacts,
): readonly Draft[] {
  if (openFiles === undefined || !isLow(openFiles) || configuredOpenFiles(defaultUlimits) !== undefined)
    return [];
  return [
    {
      severity: "warning",
      what: `containers may open ${openFiles.soft} files (${openFiles.hard} hard)`,
      meaning: "programs that do not raise their soft limit fail with EMFILE under load",
      remedy: "--default-ulimits=nofile=65536:524288, or default-ulimits in daemon.json; for new containers",
    },
  ];
}
