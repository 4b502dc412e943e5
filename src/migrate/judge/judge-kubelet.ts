/** The kubelet and the runtime that it has against the target. Pure. */
import type { MigrationFacts } from "../facts/facts.js";
import type { Finding } from "./finding.js";
import { type Add, judgeBoot, judgeDependencies, judgeServices, judgeUnitFlags } from "./judge-units.js";
import {
  cadvisorPath,
  firstMinorWithoutDocker,
  firstMinorWithoutFlag,
  lacksContainerdFlag,
  shimFlags,
} from "../kubelet/containerd-flag.js";
import { lastFlag } from "../kubelet/flags.js";
import {
  configuredRuntime,
  foreignImageEndpoint,
  type KubeletRuntime,
  lastInTreeMinor,
  maskedService,
  runningRuntime,
  socketPath,
  type Target,
  targetNames,
  unknownStart,
  usesDocker,
  wrappedRuntimes,
} from "../kubelet/target.js";
import { isInStore } from "../kubelet/dependencies.js";

/** The lowest kubelet that each target was made for, and why. */
const lowestKubelet: Partial<Record<Target, readonly [minor: number, reason: string]>> = {
  dockershim: [20, "this program serves CRI v1alpha2 and v1; kubelets before 1.20 were never tried"],
  "cri-dockerd": [23, "cri-dockerd 0.4 serves CRI v1 alone; 0.3 serves v1alpha2 as well"],
};

export function judgeKubelet(facts: MigrationFacts, target: Target): readonly Finding[] {
  const found: Finding[] = [];
  const add: Add = (draft) => found.push({ ...draft, subject: "node" });
  for (const { place, text } of facts.problems)
    add({
      id: "file-not-understood",
      level: "change",
      text: `${place} ${text}`,
      source: place,
      reason: "what this line sets is not known here; migrate plan leaves the file alone",
      next: `correct ${place}, or judge it by hand`,
    });
  judgeConfigFiles(facts, add);
  const { service, version } = facts.kubelet;
  if (service === undefined) {
    add({
      id: "kubelet-unit-missing",
      level: "change",
      text:
        facts.otherKubelet === undefined
          ? "there is no kubelet.service"
          : `there is no kubelet.service: the kubelet is in ${facts.otherKubelet}`,
      reason: "no unit directory of systemd has it, so its flags are not known",
      next: "check how this node starts its kubelet",
      source: "/etc/systemd/system, /usr/lib/systemd/system",
    });
  } else if (version === undefined) {
    add({
      id: "kubelet-version",
      level: "change",
      text: "the kubelet's version is not known",
      reason: "its program did not answer to --version",
      next: "give --kubelet-version",
      source: service.unit.path,
    });
  }
  judgeVersion(facts, target, add);
  judgeState(facts, target, add);
  return found;
}

function judgeConfigFiles({ kubelet, daemonConfig }: MigrationFacts, add: Add): void {
  for (const config of [kubelet.config, ...kubelet.dropIns, kubelet.instanceConfig]) {
    if (config?.problem === undefined) continue;
    add({
      id: "kubelet-config-broken",
      level: "blocked",
      source: config.path,
      text: `${config.path} cannot be read: ${config.problem}`,
      reason: "the kubelet does not start with it, and its settings are not known here",
      next: `correct ${config.path}`,
    });
  }
  const configFlag = lastFlag(kubelet.service?.flags ?? [], "config");
  if (configFlag !== undefined && kubelet.config === undefined)
    add({
      id: "kubelet-config-missing",
      level: "blocked",
      source: `${configFlag.file}:${configFlag.line}`,
      text: `${configFlag.value} is missing`,
      reason: "the kubelet's flag --config names it",
      next: "restore the file, or remove the flag",
    });
  if (daemonConfig?.problem !== undefined)
    add({
      id: "daemon-config-broken",
      level: "blocked",
      source: daemonConfig.path,
      text: `${daemonConfig.path} cannot be read: ${daemonConfig.problem}`,
      reason: "the engine does not start with it",
      next: `correct ${daemonConfig.path}`,
    });
}

function judgeVersion({ kubelet: { version } }: MigrationFacts, target: Target, add: Add): void {
  if (version === undefined) return;
  const lowest = lowestKubelet[target];
  const blocked = (text: string, reason: string, next: string): void =>
    add({ id: "kubelet-version", level: "blocked", text, reason, next, source: version.source });
  if (target === "dockershim-in-tree" && version.minor > lastInTreeMinor)
    blocked(
      `kubelet ${version.text} has no dockershim inside`,
      "it was removed in 1.24",
      "use --to cri-dockerd, or a kubelet 1.23 that the API server still accepts",
    );
  else if (lowest !== undefined && version.minor < lowest[0])
    blocked(`kubelet ${version.text} is older than 1.${lowest[0]}`, lowest[1], "update the kubelet first");
}

function judgeState(facts: MigrationFacts, target: Target, add: Add): void {
  const configured = configuredRuntime(facts);
  const running = runningRuntime(facts);
  const start = unknownStart(facts);
  if (start !== undefined && facts.kubelet.service !== undefined) {
    add({
      id: start.id,
      level: "change",
      source: start.source,
      text: `${start.text}, so its runtime is not known from its files`,
      reason: running === undefined ? "its flags are not known here" : uses(running),
      next: "change the runtime there, by hand; migrate plan makes no plan",
    });
  } else if (configured.runtime === "unknown" && facts.kubelet.service !== undefined) {
    add({
      id: "kubelet-runtime",
      level: "change",
      source: configured.source,
      text:
        configured.endpoint === ""
          ? "no file says which runtime the kubelet uses"
          : `the kubelet uses ${configured.endpoint}, and no unit here serves it`,
      reason: "the endpoint is not that of a known runtime",
      next: "check containerRuntimeEndpoint, or the flag --container-runtime-endpoint",
    });
  } else if (configured.runtime !== "unknown") {
    add({
      id: "kubelet-runtime",
      source: configured.source,
      text: `the kubelet's files name ${targetNames[configured.runtime]}${at(configured.endpoint)}`,
      ...changeOfRuntime(configured.runtime, target, configured.endpoint),
    });
  }
  const isKnown = facts.kubelet.service !== undefined && start === undefined;
  if (running !== undefined && isKnown && running.runtime !== configured.runtime)
    add({
      id: "half-migrated-kubelet",
      level: "change",
      source: `/proc/${facts.kubelet.running?.pid ?? 0}/cmdline`,
      text: `${uses(running)}, its files name ${nameOf(configured.runtime)}${at(configured.endpoint)}`,
      reason: "the files were changed after its start",
      next: "systemctl daemon-reload && systemctl restart kubelet, or take the edits back",
    });
  for (const { text, source } of wrappedRuntimes(facts))
    add({
      id: "runtime-wrapped",
      level: "change",
      source,
      text: `${text}, so its flags are not known from its files`,
      reason: "how it makes pods is not known here",
      next: "give the unit the program itself; migrate plan makes no plan",
    });
  const masked = maskedService(facts, target);
  if (masked !== undefined)
    add({
      id: "unit-masked",
      level: "change",
      source: masked.path,
      text: `${masked.name} is masked`,
      reason: "systemd does not start it",
      next: `systemctl unmask ${masked.name}`,
    });
  judgeSocket(facts, configured, add);
  judgeContainerdFlag(facts, target, add);
  judgeUnitFlags(facts, configured.runtime, target, add);
  const path = facts.kubelet.service?.unit.path ?? "";
  if (isInStore(path))
    add({
      id: "unit-store",
      level: "change",
      source: path,
      text: "the kubelet's unit is in a read-only store",
      reason: "the configuration of the system makes it, and no file of the store can be edited",
      next: "dockershim migrate plan, which says what to write into that configuration",
    });
  judgeImages(facts, configured.runtime, target, add);
  judgeDependencies(facts, configured.runtime, target, add);
  judgeServices(facts, add);
  if (configured.runtime === target) judgeBoot(facts, target, add);
}

function changeOfRuntime(
  from: Target,
  target: Target,
  endpoint: string,
): Pick<Finding, "level" | "reason" | "next"> {
  if (from === target) return { level: "ok", reason: "it is the target already", next: "" };
  const reason = `the target is ${targetNames[target]}`;
  if (!usesDocker(from))
    return {
      level: "restart",
      reason: `${reason}, which does not see these pods: the kubelet makes all of them again, and the containers of before run on beside them`,
      next: `drain the node, stop the kubelet, remove its pods (crictl --runtime-endpoint ${endpoint} rmp -fa), then edit its files by hand: migrate plan makes no plan from here`,
    };
  const next = usesDocker(target) ? `dockershim migrate plan --to ${target}` : "drain the node first";
  return { level: "note", reason, next };
}

function uses({ runtime, endpoint }: KubeletRuntime): string {
  return `the running kubelet uses ${nameOf(runtime)}${at(endpoint)}`;
}

function nameOf(runtime: Target | "unknown"): string {
  return runtime === "unknown" ? "an unknown runtime" : targetNames[runtime];
}

function at(endpoint: string): string {
  return endpoint === "" ? "" : ` at ${endpoint}`;
}

function judgeSocket(facts: MigrationFacts, { runtime, endpoint, source }: KubeletRuntime, add: Add): void {
  const { socketProblem, services } = facts;
  if (socketProblem === undefined) return;
  const server = services.servers.find((one) => socketPath(one.endpoint) === socketPath(endpoint));
  const unit = server?.service.unit.name.replace(/\.service$/, "") ?? runtime;
  add({
    id: "socket-not-served",
    level: "change",
    source,
    text: `no program serves ${endpoint}: ${socketProblem}`,
    reason: "the kubelet's files name this socket",
    next: `systemctl status ${unit === "unknown" ? "of its service" : unit}, or change the endpoint`,
  });
}

function judgeContainerdFlag(facts: MigrationFacts, target: Target, add: Add): void {
  const path = cadvisorPath(shimFlags(facts.services));
  const { service, version } = facts.kubelet;
  if (target !== "dockershim" || path === undefined || service === undefined) return;
  if (unknownStart(facts) !== undefined) return;
  if (version === undefined || version.minor < firstMinorWithoutDocker) return;
  const isFlagKnown = version.minor < firstMinorWithoutFlag;
  const lacks = lacksContainerdFlag(service.flags, path);
  const about = { id: "container-metrics", source: service.unit.path } as const;
  const plan = "dockershim migrate plan --to dockershim (docs/run/container-metrics.md)";
  if (!isFlagKnown && !lacks)
    add({
      ...about,
      level: "change",
      text: `the kubelet has the flag --containerd=${path}: it does not start with it`,
      reason: "kubelets from 1.37 on have no flags of cAdvisor any more",
      next: plan,
    });
  else if (lacks)
    add({
      ...about,
      level: "note",
      text: isFlagKnown
        ? `the kubelet lacks --containerd=${path}: its container metrics have no names`
        : "the container metrics of the kubelet have no names without the gate PodAndContainerStatsFromCRI",
      reason: "from 1.24 on kubelets ask containerd for them, never Docker",
      next: isFlagKnown ? plan : "give the kubelet the gate (docs/run/container-metrics.md)",
    });
}

function judgeImages(facts: MigrationFacts, from: Target | "unknown", target: Target, add: Add): void {
  const images = foreignImageEndpoint(facts);
  if (images === undefined || from === "unknown" || !usesDocker(target)) return;
  add({
    id: "image-endpoint",
    level: from === target ? "note" : "change",
    source: images.source,
    text: `the kubelet pulls images through another program, at ${images.value}`,
    reason: "which runtime that program asks is not known here; migrate plan leaves the endpoint as it is",
    next: `give that program the endpoint of ${targetNames[target]}`,
  });
}
