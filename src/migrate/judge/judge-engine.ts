/** The engine against the target and the kubelet. Pure. */
import type { ContainerFact, EngineFacts, MigrationFacts } from "../facts/facts.js";
import type { Finding } from "./finding.js";
import { lastFlag } from "../kubelet/flags.js";
import { type Target, targetNames, usesDocker } from "../kubelet/target.js";

/** The first kubelet that asks the runtime for its cgroup driver without a feature gate. */
const asksForDriverMinor = 31;
/** The first kubelet that refuses cgroup version 1 unless it is configured to permit it. */
const refusesCgroupV1Minor = 35;
/** The minor version of the engine's API that cri-dockerd 0.4 asks for. */
const criDockerdApiMinor = 42;

export function judgeEngine(facts: MigrationFacts, engine: EngineFacts, target: Target): readonly Finding[] {
  const info = engine.facts;
  const source = `engine ${engine.endpoint}: GET /info`;
  const found: Finding[] = [];
  const add: Add = (draft) => found.push({ source, ...draft, subject: "node" });
  const apiMinor = Number(info.engineApiVersion.split(".")[1] ?? "0");
  if (target === "cri-dockerd" && apiMinor < criDockerdApiMinor)
    add({
      id: "engine-api",
      level: "blocked",
      text: `the engine speaks API ${info.engineApiVersion}, cri-dockerd 0.4 needs 1.${criDockerdApiMinor}`,
      reason: "cri-dockerd from 0.4 on asks for that version",
      next: "update the engine to 23 or later, or install cri-dockerd 0.3",
    });
  for (const container of containersOf(engine)) {
    if (container.notInspected === undefined) continue;
    found.push({
      id: "container-not-inspected",
      level: "change",
      subject: `container ${container.name}`,
      source,
      text: `the engine cannot inspect it: ${container.notInspected}`,
      reason: "its mounts, log, network and runtime are not judged",
      next: `docker inspect ${container.id.slice(0, 12)}; if that hangs, see the engine's log, and restart the engine`,
    });
  }
  judgeCgroups(facts, info, target, add);
  if (target === "dockershim" && info.security.usernsRemap)
    add({
      id: "engine-userns",
      level: "note",
      text: "the engine maps users; pods of the host's network or PID namespace, and privileged ones, get userns-mode host",
      reason: "the engine refuses them otherwise",
      next: "",
    });
  if (info.security.rootless)
    add({
      id: "engine-rootless",
      level: "blocked",
      text: "the engine runs without root",
      reason: "kubelets that run as root expect an engine that does so",
      next: "use an engine that runs as root",
    });
  if (usesDocker(target)) judgeLogDriver(facts, engine, target, add);
  else judgeLeavingDocker(facts, engine, target, add);
  if (target === "dockershim" && !info.liveRestore)
    add({
      id: "engine-live-restore",
      level: "note",
      text: "a restart of the engine ends all pods; the change of the runtime needs none",
      reason: "live-restore is off",
      next: "",
    });
  return found;
}

function containersOf({ pods, foreign, outside }: EngineFacts): readonly ContainerFact[] {
  const ofPods = pods.flatMap(({ sandbox, containers }) => [
    ...(sandbox === undefined ? [] : [sandbox]),
    ...containers,
  ]);
  return [...ofPods, ...foreign, ...outside];
}

/** Without a source it is the engine's answer to `GET /info`. */
type Add = (draft: Omit<Finding, "subject" | "source"> & { readonly source?: string }) => void;

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
  if (usesDocker(target) && kubelet.service !== undefined && driver !== cgroupDriver)
    add({
      id: "cgroup-driver",
      level: asks ? "note" : "blocked",
      text: `the kubelet${asks ? "'s files say" : " has"} cgroup driver ${driver}, the engine has ${cgroupDriver}`,
      reason: asks
        ? "this kubelet asks the runtime and takes the engine's"
        : "with different drivers the kubelet does not start, or pods are outside of their limits",
      next: `set cgroupDriver: ${cgroupDriver}${asks ? ", so that the file says what is in use" : " in the kubelet's configuration"}`,
      source: place,
    });
  if (cgroupVersion === 1 && minor !== undefined && minor >= refusesCgroupV1Minor) {
    const permitted = kubelet.settings.get("failCgroupV1")?.value === "false";
    add({
      id: "cgroup-version",
      level: permitted ? "note" : "blocked",
      text: "the node has cgroup version 1",
      reason: `kubelets from 1.${refusesCgroupV1Minor} on refuse it unless failCgroupV1 is false`,
      next: permitted ? "" : "set failCgroupV1: false, or boot with cgroup version 2",
      source: kubelet.config?.path ?? "engine: GET /info",
    });
  }
}

function judgeLogDriver(facts: MigrationFacts, { facts: info }: EngineFacts, target: Target, add: Add): void {
  const { loggingDriver } = info;
  const options = logOptionsOf(facts);
  if (loggingDriver !== "json-file") {
    if (target === "dockershim")
      add({
        id: "log-driver",
        level: "note",
        text: `the engine's log driver is ${loggingDriver}: new pods get log files, adopted ones stay without`,
        reason:
          "this program writes the files itself; cri-dockerd and dockershim have none but with json-file",
        next: "",
      });
    else
      add({
        id: "log-driver",
        level: "change",
        text: `the engine's log driver is ${loggingDriver}: pods have no log files, kubectl logs shows nothing`,
        reason: `${targetNames[target]} only links to files of json-file`,
        next: 'set "log-driver": "json-file" in daemon.json and restart the engine',
      });
  } else if (options["max-size"] === undefined) {
    add({
      id: "log-options",
      level: "note",
      text: "Docker's log files have no size limit",
      reason:
        "neither daemon.json nor docker.service has the log option max-size; the kubelet cannot rotate Docker's files",
      next: '"log-opts": {"max-size": "10m", "max-file": "3"} in daemon.json, for containers made afterwards',
      source: facts.daemonConfig?.path ?? "/etc/docker/daemon.json",
    });
  }
}

function logOptionsOf({ daemonConfig, services }: MigrationFacts): Readonly<Record<string, unknown>> {
  const options = daemonConfig?.values?.["log-opts"];
  if (typeof options === "object" && options !== null) return options as Record<string, unknown>;
  // Docker does not start with both.
  const given = (services.docker?.flags ?? []).filter(({ name }) => name === "log-opt");
  return Object.fromEntries(given.map(({ value }) => value.split("=", 2)) as [string, string][]);
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
    add({
      id: "log-driver",
      level: "lost",
      text: `logs no longer go to the log driver ${info.loggingDriver}`,
      reason: `${name} writes files in the CRI's format and has no log drivers`,
      next: "let an agent read /var/log/pods",
    });
  add({
    id: "engine-builds",
    level: "change",
    text: "docker build, docker ps and docker logs no longer show or feed the pods",
    reason: `${name} has images and containers of its own`,
    next: "build elsewhere and push; use crictl on the node",
  });
  for (const [key, place] of Object.entries(settingsToMove)) {
    if (facts.daemonConfig?.values?.[key] === undefined) continue;
    add({
      id: `daemon-${key}`,
      level: "change",
      text: `the setting ${key} of Docker has no effect on pods any more`,
      reason: `${name} does not read daemon.json`,
      next: `move it: ${place}`,
      source: facts.daemonConfig.path,
    });
  }
}
