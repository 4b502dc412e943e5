/** Reads a node: files below one root directory, and the engine. Writes nothing and makes no directory. */
import { hostname } from "node:os";
import { messageOf } from "../../lib/errors.js";
import type { Engine } from "../../shim/ports/engine.js";
import type { DaemonConfig, DockerUser, MigrationFacts, ServiceFacts } from "../facts/facts.js";
import { lastFlag } from "../kubelet/flags.js";
import { readKubelet } from "../kubelet/read-kubelet.js";
import { otherKubelet, readServices } from "./cri-servers.js";
import { usersAmongContainers, usersAmongManifests, usersAmongUnits } from "./docker-users.js";
import { inDockerRoot } from "../../domain/docker-root.js";
import { listenerOf } from "./listeners.js";
import { NodeFiles } from "../files/node-files.js";
import { readCheckpoints, readNetwork, readRecords } from "./read-network.js";
import { readEngine } from "./read-engine.js";
import { configuredRuntime, socketPath, targetNames, usesDocker } from "../kubelet/target.js";
import { shimFlags } from "../kubelet/containerd-flag.js";

const daemonConfigPath = "/etc/docker/daemon.json";

export interface GatherOptions {
  readonly root: string;
  /** As operators write it, for messages. */
  readonly endpoint: string;
  /** Undefined: only files are read. */
  readonly engine: Pick<Engine, "connect" | "listContainers" | "inspectContainer" | "listImages"> | undefined;
  readonly kubeletVersion: string | undefined;
  /** Runs a program with `--version`; undefined where that is not possible. */
  readonly askProgram: (program: string) => Promise<string | undefined>;
  /** For the answer about one container; for tests. */
  readonly inspectMs?: number;
}

export async function gatherFacts(options: GatherOptions, signal: AbortSignal): Promise<MigrationFacts> {
  const { root, endpoint, engine, kubeletVersion, askProgram, inspectMs } = options;
  const files = new NodeFiles(root);
  const kubelet = await readKubelet(files, kubeletVersion, askProgram);
  const services = await readServices(files, kubelet);
  const elsewhere = await otherKubelet(files, services.units);
  const units = [kubelet.service, services.criDocker, services.dockershim];
  const flag = (name: string, fallback: string): string => valueOf(units, name) ?? fallback;
  const network = await readNetwork(files, {
    configurationDirectory: flag("cni-conf-dir", "/etc/cni/net.d"),
    binDirectories: flag("cni-bin-dir", "/opt/cni/bin,/usr/lib/cni").split(",").filter(Boolean),
    cacheDirectories: [flag("cni-cache-dir", "/var/lib/cni/cache")],
  });
  const stateDirectories = [
    valueOf([services.dockershim], "state-dir") ?? "/var/lib/dockershim",
    valueOf([kubelet.service], "experimental-dockershim-root-directory") ?? "/var/lib/dockershim",
    valueOf([services.criDocker], "cri-dockerd-root-directory") ?? "/var/lib/cri-dockerd",
  ];
  const problems = [...new Set([...units, services.docker].filter((unit) => unit !== undefined))].flatMap(
    ({ unit, command }) => [...unit.problems, ...command.problems],
  );
  const checkpoints = [];
  for (const directory of new Set(stateDirectories))
    checkpoints.push(...(await readCheckpoints(files, `${directory}/sandbox`)));
  const [ownDirectory = "/var/lib/dockershim"] = stateDirectories;
  const records = await readRecords(files, inDockerRoot(ownDirectory) ?? ownDirectory);
  problems.push(...records.problems);

  const ofRecords = { limits: records.limits, records: records.pods };
  const sources = { endpoint, files, checkpoints, network, inspectMs, ...ofRecords };
  let engineFacts: MigrationFacts["engine"] = { endpoint, problem: "not asked" };
  const users: DockerUser[] = [];
  const configured = configuredRuntime({ kubelet, services, otherKubelet: elsewhere });
  const runtimeSocket = socketPath(configured.endpoint);
  const asleep = await sleepingEngine(files, endpoint);
  try {
    if (asleep !== undefined) engineFacts = { endpoint, problem: asleep };
    else if (engine !== undefined) engineFacts = await readEngine({ ...sources, engine }, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    engineFacts = { endpoint, problem: messageOf(error) };
  }
  const dockerRoot = "facts" in engineFacts ? engineFacts.facts.dockerRootDir : "/var/lib/docker";
  const sought = { dockerRoot, runtimeSocket };
  if ("facts" in engineFacts) users.push(...usersAmongContainers(engineFacts, sought));
  users.push(...(await usersAmongUnits(files, sought)));
  const manifests = await usersAmongManifests(files, manifestDirectory(kubelet), sought);
  users.push(...manifests.users);
  problems.push(...manifests.problems);
  return {
    root,
    // Files of another node are copies.
    isRoot: root !== "/" || process.geteuid?.() === 0,
    node: await readNodeName(files, kubelet.service),
    engine: engineFacts,
    runtimeEngine: engineOf(configured.runtime, kubelet, services),
    daemonConfig: await readDaemonConfig(files, services.docker),
    kubelet,
    otherKubelet: elsewhere,
    services,
    network,
    checkpoints,
    dockerUsers: users,
    socketProblem: await problemOfSocket(files, configured.endpoint),
    problems,
  };
}

/** cri-dockerd and the kubelet have one default; this program asks as the docker command does. */
function engineOf(
  runtime: ReturnType<typeof configuredRuntime>["runtime"],
  kubelet: MigrationFacts["kubelet"],
  services: MigrationFacts["services"],
): MigrationFacts["runtimeEngine"] {
  const flags =
    runtime === "dockershim"
      ? shimFlags(services)
      : (runtime === "cri-dockerd" ? services.criDocker : kubelet.service)?.flags;
  if (runtime === "unknown" || !usesDocker(runtime) || flags === undefined) return undefined;
  const flag = lastFlag(flags, "docker-endpoint");
  if (flag !== undefined && flag.value !== "")
    return { endpoint: flag.value, source: `${flag.file}:${flag.line}` };
  if (runtime === "dockershim" || flag !== undefined) return undefined;
  return { endpoint: "unix:///var/run/docker.sock", source: `the default of ${targetNames[runtime]}` };
}

/** Where systemd listens for an engine that does not run, a question would start it. */
async function sleepingEngine(files: NodeFiles, endpoint: string): Promise<string | undefined> {
  if (!endpoint.startsWith("unix:///")) return undefined;
  const listener = await listenerOf(files, endpoint.slice("unix://".length));
  return listener === "systemd" ? "it does not run; asking it would make systemd start it" : undefined;
}

function valueOf(services: readonly (ServiceFacts | undefined)[], name: string): string | undefined {
  for (const service of services) {
    const value = lastFlag(service?.flags ?? [], name)?.value;
    if (value !== undefined && value !== "") return value;
  }
  return undefined;
}

function manifestDirectory({ service, settings }: MigrationFacts["kubelet"]): string {
  const flag = lastFlag(service?.flags ?? [], "pod-manifest-path")?.value;
  return flag ?? settings.get("staticPodPath")?.value ?? "/etc/kubernetes/manifests";
}

async function readNodeName(
  files: NodeFiles,
  kubelet: ServiceFacts | undefined,
): Promise<MigrationFacts["node"]> {
  const flag = lastFlag(kubelet?.flags ?? [], "hostname-override");
  // Kubernetes writes node names in lower case.
  if (flag !== undefined) return { name: flag.value.toLowerCase(), source: `${flag.file}:${flag.line}` };
  const name = await files.hostName();
  if (files.root === "/" || name === "") return { name: hostname().toLowerCase(), source: "host name" };
  return { name: name.toLowerCase(), source: "/etc/hostname" };
}

async function readDaemonConfig(
  files: NodeFiles,
  docker: ServiceFacts | undefined,
): Promise<DaemonConfig | undefined> {
  const path = lastFlag(docker?.flags ?? [], "config-file")?.value ?? daemonConfigPath;
  const reading = await files.read(path);
  if (reading.kind === "absent") return undefined;
  if (reading.kind === "unreadable") return { path, values: undefined, problem: reading.reason };
  try {
    const value: unknown = JSON.parse(reading.text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return { path: reading.path, values: value as Record<string, unknown>, problem: undefined };
    return { path, values: undefined, problem: "is not a JSON object" };
  } catch (error) {
    return { path, values: undefined, problem: messageOf(error) };
  }
}

/** Nothing is connected: that could start the service. */
async function problemOfSocket(files: NodeFiles, endpoint: string): Promise<string | undefined> {
  const path = socketPath(endpoint);
  if (!path.startsWith("/")) return undefined;
  const kind = await files.kindOf(await files.resolve(path).catch(() => path));
  // Nothing runs below another root directory.
  if (kind === "absent") return files.root === "/" ? "there is no such socket" : undefined;
  if (kind !== "other") return "it is not a socket";
  return (await listenerOf(files, path)) === "none" ? "no process listens on it" : undefined;
}
