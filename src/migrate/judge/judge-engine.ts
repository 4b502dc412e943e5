/** The engine against the target and the kubelet. Pure. */
import type { ContainerFact, EngineFacts, MigrationFacts } from "../facts/facts.js";
import type { Finding, Level } from "./finding.js";
import { lastFlag } from "../kubelet/flags.js";
import { type Target, targetNames, usesDocker } from "../kubelet/target.js";

/** The first kubelet that asks the runtime for its cgroup driver without a feature gate. */
const asksForDriverMinor = 31;
/** The first kubelet that refuses cgroup version 1 unless it is told otherwise. */
const refusesCgroupV1Minor = 35;
/** Of cri-dockerd 0.4. */
const criDockerdApiMinor = 42;

export function judgeEngine(facts: MigrationFacts, engine: EngineFacts, target: Target): readonly Finding[] {
  const info = engine.facts;
  const source = `engine ${engine.endpoint}: GET /info`;
  const found: Finding[] = [];
  const add = (id: string, level: Level, text: string, reason: string, next: string, at = source): void => {
    found.push({ id, level, subject: "node", text, reason, next, source: at });
  };
  const apiMinor = Number(info.engineApiVersion.split(".")[1] ?? "0");
  if (target === "cri-dockerd" && apiMinor < criDockerdApiMinor) {
    add(
      "engine-api",
      "blocked",
      `the engine speaks API ${info.engineApiVersion}, cri-dockerd 0.4 needs 1.${criDockerdApiMinor}`,
      "cri-dockerd from 0.4 on asks for that version",
      "update the engine to 23 or later, or install cri-dockerd 0.3",
    );
  }
  for (const container of containersOf(engine)) {
    if (container.notInspected === undefined) continue;
    found.push({
      ...{ id: "container-not-inspected", level: "change", subject: `container ${container.name}`, source },
      text: `the engine does not tell what it is: ${container.notInspected}`,
      reason: "its mounts, log, network and runtime are not judged",
      next: `docker inspect ${container.id.slice(0, 12)}; if that hangs, see the engine's log, and restart the engine`,
    });
  }
  judgeCgroups(facts, info, target, add);
  if (target === "dockershim" && info.security.usernsRemap)
    add(
      ...(["engine-userns", "note"] as const),
      "the engine maps users; pods of the host's network or PID namespace, and privileged ones, get userns-mode host",
      "the engine refuses them otherwise",
      "",
    );
  if (info.security.rootless)
    add(
      ...(["engine-rootless", "blocked"] as const),
      "the engine runs without root",
      "kubelets that run as root expect an engine that does so",
      "use an engine that runs as root",
    );
  if (usesDocker(target)) judgeLogDriver(facts, engine, target, add);
  else judgeLeavingDocker(facts, engine, target, add);
  if (target === "dockershim" && !info.liveRestore)
    add(
      ...(["engine-live-restore", "note"] as const),
      "a restart of the engine ends all pods; the change of the runtime needs none",
      "live-restore is off",
      "",
    );
  return found;
}

function containersOf({ pods, foreign, outside }: EngineFacts): readonly ContainerFact[] {
  const ofPods = pods.flatMap(({ sandbox, containers }) => [
    ...(sandbox === undefined ? [] : [sandbox]),
    ...containers,
  ]);
  return [...ofPods, ...foreign, ...outside];
}

type Add = (id: string, level: Level, text: string, reason: string, next: string, at?: string) => void;

function judgeCgroups(
  { kubelet }: MigrationFacts,
  { cgroupDriver, cgroupVersion }: EngineFacts["facts"],
  target: Target,
  add: Add,
): void {
  const flag = lastFlag(kubelet.service?.flags ?? [], "cgroup-driver");
  const configured = kubelet.settings.get("cgroupDriver");
  const minor = kubelet.version?.minor;
  const unset = kubelet.config?.path ?? "the kubelet's default";
  const inFile = configured === undefined ? unset : `${configured.path}:${configured.line}`;
  const place = flag === undefined ? inFile : `${flag.file}:${flag.line}`;
  const driver = flag?.value ?? configured?.value ?? "cgroupfs";
  const asks = minor !== undefined && minor >= asksForDriverMinor && target !== "dockershim-in-tree";
  if (usesDocker(target) && kubelet.service !== undefined && driver !== cgroupDriver) {
    if (asks)
      add(
        ...(["cgroup-driver", "note"] as const),
        `the kubelet's files say cgroup driver ${driver}, the engine has ${cgroupDriver}`,
        "this kubelet asks the runtime and takes the engine's",
        `set cgroupDriver: ${cgroupDriver}, so that the file says what is in use`,
        place,
      );
    else
      add(
        ...(["cgroup-driver", "blocked"] as const),
        `the kubelet has cgroup driver ${driver}, the engine has ${cgroupDriver}`,
        "with different drivers the kubelet does not start, or pods are outside of their limits",
        `set cgroupDriver: ${cgroupDriver} in the kubelet's configuration`,
        place,
      );
  }
  if (cgroupVersion === 1 && minor !== undefined && minor >= refusesCgroupV1Minor) {
    const permitted = kubelet.settings.get("failCgroupV1")?.value === "false";
    add(
      ...(["cgroup-version", permitted ? "note" : "blocked"] as const),
      "the node has cgroup version 1",
      `kubelets from 1.${refusesCgroupV1Minor} on refuse it unless failCgroupV1 is false`,
      permitted ? "" : "set failCgroupV1: false, or boot with cgroup version 2",
      kubelet.config?.path ?? "engine: GET /info",
    );
  }
}

function judgeLogDriver(facts: MigrationFacts, { facts: info }: EngineFacts, target: Target, add: Add): void {
  const { loggingDriver } = info;
  const options = logOptionsOf(facts);
  if (loggingDriver !== "json-file") {
    if (target === "dockershim")
      add(
        ...(["log-driver", "note"] as const),
        `the engine's log driver is ${loggingDriver}: new pods get log files, adopted ones stay without`,
        "this program writes the files itself; cri-dockerd and dockershim have none but with json-file",
        "",
      );
    else
      add(
        ...(["log-driver", "change"] as const),
        `the engine's log driver is ${loggingDriver}: pods have no log files, kubectl logs shows nothing`,
        `${targetNames[target]} only links to files of json-file`,
        'set "log-driver": "json-file" in daemon.json and restart the engine',
      );
  } else if (options["max-size"] === undefined) {
    add(
      ...(["log-options", "note"] as const),
      "Docker's log files have no size limit",
      "daemon.json has no log-opts max-size; the kubelet cannot rotate Docker's files",
      '"log-opts": {"max-size": "10m", "max-file": "3"} in daemon.json, for containers made afterwards',
      facts.daemonConfig?.path ?? "/etc/docker/daemon.json",
    );
  }
}

function logOptionsOf({ daemonConfig }: MigrationFacts): Readonly<Record<string, unknown>> {
  const options = daemonConfig?.values?.["log-opts"];
  return typeof options === "object" && options !== null ? (options as Record<string, unknown>) : {};
}

/** Settings of daemon.json that have another place in containerd and CRI-O. */
const settingsToMove: Readonly<Record<string, string>> = {
  "insecure-registries": "registry hosts of the runtime",
  "registry-mirrors": "registry hosts of the runtime",
  "default-ulimits": "LimitNOFILE and ulimits of the runtime",
  "log-opts": "containerLogMaxSize and containerLogMaxFiles of the kubelet",
  runtimes: "runtime handlers of the runtime",
  proxies: "environment of the runtime's unit",
  dns: "resolvConf of the kubelet",
  "userns-remap": "user namespaces of pods",
};

function judgeLeavingDocker(
  facts: MigrationFacts,
  { facts: info }: EngineFacts,
  target: Target,
  add: Add,
): void {
  const name = targetNames[target];
  if (info.loggingDriver !== "json-file")
    add(
      ...(["log-driver", "lost"] as const),
      `logs no longer go to the log driver ${info.loggingDriver}`,
      `${name} writes files in the CRI's format and has no log drivers`,
      "let an agent read /var/log/pods",
    );
  add(
    ...(["engine-builds", "change"] as const),
    "docker build, docker ps and docker logs no longer show or feed the pods",
    `${name} has images and containers of its own`,
    "build elsewhere and push; use crictl on the node",
  );
  for (const [key, place] of Object.entries(settingsToMove)) {
    if (facts.daemonConfig?.values?.[key] === undefined) continue;
    add(
      `daemon-${key}`,
      "change",
      `the setting ${key} of Docker has no effect on pods any more`,
      `${name} does not read daemon.json`,
      `move it: ${place}`,
      facts.daemonConfig.path,
    );
  }
}
