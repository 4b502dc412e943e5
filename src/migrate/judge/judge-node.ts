/** Network, checkpoints, images, containers outside of pods and users of Docker's files. Pure. */
import { dirname } from "node:path/posix";
import type { EngineFacts, MigrationFacts } from "../facts/facts.js";
import type { Finding } from "./finding.js";
import { lastFlag } from "../kubelet/flags.js";
import { makerOf } from "../facts/maker.js";
import {
  configuredRuntime,
  runsThisProgram,
  socketPath,
  type Target,
  targetNames,
  usesDocker,
} from "../kubelet/target.js";
import { judgeDockerUser } from "./judge-docker-user.js";
import { networkOf } from "./judge-pods.js";

export function judgeNetwork(facts: MigrationFacts, target: Target): readonly Finding[] {
  const { network, kubelet, services, engine } = facts;
  const found: Finding[] = [];
  const { configurationDirectory: directory } = network;
  const add = (draft: Omit<Finding, "subject">): void => {
    found.push({ ...draft, subject: "node" });
  };
  for (const { path, problem } of network.configurations) {
    if (problem === undefined) continue;
    add({
      id: "cni-config-broken",
      level: "change",
      text: `${path}: ${problem}`,
      reason: "this file is skipped",
      next: `correct ${path}`,
      source: path,
    });
  }
  const flag =
    lastFlag(services.dockershim?.flags ?? [], "network-plugin") ??
    lastFlag(services.criDocker?.flags ?? [], "network-plugin") ??
    lastFlag(kubelet.service?.flags ?? [], "network-plugin");
  const pods = "facts" in engine ? engine.pods : [];
  const used = [...new Set(pods.map((pod) => networkOf(facts, pod)))].filter(
    (plugin) => plugin !== "host" && plugin !== "unknown",
  );
  const first = network.configurations.find((one) => one.network !== undefined);
  const shown = used.length === 0 ? "no pod has a network" : `pods have: ${used.sort().join(", ")}`;
  const configured = first === undefined ? `no network in ${directory}` : `network ${first.network ?? ""}`;
  const source = flag === undefined ? directory : `${flag.file}:${flag.line}`;
  add({
    id: "network-plugin",
    level: "ok",
    text: `${shown}; ${configured}`,
    reason: "containers, caches and files",
    next: "",
    source,
  });
  if (used.includes("cni") && first === undefined)
    add({
      id: "cni-config-missing",
      level: usesDocker(target) ? "change" : "blocked",
      text: `pods have CNI networks, and ${directory} has no valid configuration`,
      reason: "new pods get no network",
      next: "restore the configuration of the CNI network",
      source: directory,
    });
  if (used.includes("kubenet") && !usesDocker(target))
    add({
      id: "kubenet-gone",
      level: "blocked",
      text: "kubenet ends with Docker",
      reason: `${targetNames[target]} needs a CNI configuration`,
      next: "install a CNI network first",
      source,
    });
  const corrupt = facts.checkpoints.filter(({ flavour }) => flavour === undefined);
  const known = new Set(pods.map(({ sandboxId }) => sandboxId));
  for (const { path, reason, sandboxId } of corrupt) {
    if (known.has(sandboxId)) continue;
    add({
      id: "checkpoint-corrupt-alone",
      level: "note",
      text: `${path} is corrupt: ${reason ?? ""}`,
      reason: "no container belongs to it; this program moves it to quarantine/, dockershim deletes it",
      next: `dockershim checkpoint verify --directory ${dirname(path)}, and remove the file`,
      source: path,
    });
  }
  return found;
}

/** Whether a program that calls the kubelet's runtime finds nobody there after the change. */
function losesSocket(facts: MigrationFacts, name: string, target: Target): boolean {
  const { servers, criDocker } = facts.services;
  const { runtime, endpoint } = configuredRuntime(facts);
  if (runtime !== "cri-dockerd" && runtime !== "dockershim") return false;
  const isServed = servers.some(
    (server) => server.runtime === target && socketPath(server.endpoint) === socketPath(endpoint),
  );
  // The dockershim inside the kubelet has the socket of this program.
  const isSame = runtime === target || target === "dockershim-in-tree" || runsThisProgram(criDocker?.command);
  return !isServed && !isSame && !servers.some(({ service }) => service.unit.name === name);
}

/** Images, containers outside of pods, and who reads Docker's socket and files. */
export function judgeSurroundings(
  facts: MigrationFacts,
  engine: EngineFacts | undefined,
  target: Target,
): readonly Finding[] {
  const found: Finding[] = [];
  const users = facts.dockerUsers.filter(
    ({ use, name }) => use !== "runtime" || losesSocket(facts, name, target),
  );
  found.push(...users.flatMap((user) => judgeDockerUser(user, target) ?? []));
  if (engine === undefined) return found;
  const source = `engine ${engine.endpoint}`;
  for (const { name, isRunning } of engine.outside) {
    if (usesDocker(target)) continue;
    found.push({
      id: "container-outside",
      level: isRunning ? "blocked" : "change",
      subject: `container ${name}`,
      text: isRunning ? "it runs outside of pods, and ends when Docker is removed" : "it is outside of pods",
      reason: `${targetNames[target]} does not see containers of Docker`,
      next: "make it a pod or a service, or keep Docker beside the new runtime",
      source,
    });
  }
  if (usesDocker(target) && engine.outside.length > 0)
    found.push({
      id: "container-outside",
      level: "note",
      subject: "node",
      next: "",
      source,
      text: `containers outside of pods stay as they are: ${engine.outside.length}`,
      reason: "no CRI server on Docker lists or touches them",
    });
  if (!tellsLocalImages(engine))
    found.push({
      id: "image-local",
      level: "note",
      subject: "node",
      source: `${source}: GET /images/json`,
      text: "images that exist only on this node cannot be distinguished from others, and are not pinned",
      reason: "the containerd image store of this engine gives every image a digest (until Docker Engine 29)",
      next: usesDocker(target)
        ? ""
        : "docker push what was built here, or docker save it and import the file",
    });
  for (const { id, names } of engine.localImages) {
    const subject = `image ${names[0] ?? id}`;
    found.push({ id: "image-local", subject, source: `${source}: GET /images/json`, ...localImage(target) });
  }
  return found;
}

/** What becomes of an image that exists only on this node. */
function localImage(target: Target): Pick<Finding, "level" | "text" | "reason" | "next"> {
  const text = "it exists only on this node";
  if (!usesDocker(target)) {
    const reason = `no registry is known to have it, and ${targetNames[target]} does not read Docker's images`;
    return { level: "lost", text, reason, next: "docker push it, or docker save it and import the file" };
  }
  if (target === "dockershim") {
    const pinned = `${text}, and is pinned: kubelets from 1.29 on keep it`;
    return { level: "note", text: pinned, reason: "it was built or loaded here", next: "" };
  }
  return {
    level: "change",
    text: `${text}, and the kubelet may remove it when the disk fills`,
    reason: "this program pins such images, the target does not",
    next: "docker push it, or keep a container of it (docker create)",
  };
}

/** The answers of a containerd image store have the origin of an image since Docker Engine 29. */
function tellsLocalImages({ facts }: EngineFacts): boolean {
  return facts.imageStore !== "containerd" || Number.parseInt(facts.engineVersion) >= firstWithIdentities;
}

const firstWithIdentities = 29;

/** How many pods each program made, for the page's head. */
export function countMakers(engine: EngineFacts): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const pod of engine.pods) {
    const { maker } = makerOf(pod);
    counts.set(maker, (counts.get(maker) ?? 0) + 1);
  }
  return counts;
}
