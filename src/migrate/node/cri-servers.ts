/** The units of a node that serve the CRI or start a kubelet: found by their programs and sockets, not by their names. */
import { basename, join } from "node:path/posix";
import type { CriServer, KubeletFacts, MigrationFacts, ServiceFacts } from "../facts/facts.js";
import type { NodeFiles } from "../files/node-files.js";
import { lastFlag } from "../kubelet/flags.js";
import { isOtherProgram, readService, runningKubelets } from "../kubelet/read-kubelet.js";
import { defaultSockets, socketPath } from "../kubelet/target.js";
import { listValues, loadUnit, type LoadedUnit, unitDirectories } from "../systemd/load-unit.js";
import { listeningUnit, unitOfProcess } from "./listeners.js";

/** What a unit that matters here has in its name or text. */
const candidate = /cri-?docker|dockershim|containerd|crio|cri-o|kubelet|hyperkube|k3s|rke2|k0s/;
/** The kubelet, and programs with one inside. */
const kubelets: readonly string[] = ["kubelet", "k3s", "rke2", "k0s", "kubelite"];

const programs: Readonly<Record<string, CriServer["runtime"]>> = {
  "cri-dockerd": "cri-dockerd",
  dockershim: "dockershim",
  containerd: "containerd",
  crio: "cri-o",
};
const unitNames: Readonly<Record<string, CriServer["runtime"]>> = {
  "cri-docker.service": "cri-dockerd",
  "cri-dockerd.service": "cri-dockerd",
  "dockershim.service": "dockershim",
  "containerd.service": "containerd",
  "crio.service": "cri-o",
};

export async function readServices(
  files: NodeFiles,
  { service, running, settings }: KubeletFacts,
): Promise<MigrationFacts["services"]> {
  const units = await readCandidates(files);
  const servers: CriServer[] = [];
  for (const unit of units) {
    const server = await serverOf(files, unit);
    if (server !== undefined) servers.push(server);
  }
  const endpoints = [
    lastFlag(service?.flags ?? [], "container-runtime-endpoint")?.value,
    lastFlag(running?.flags ?? [], "container-runtime-endpoint")?.value,
    settings.get("containerRuntimeEndpoint")?.value,
  ].filter((endpoint) => endpoint !== undefined);
  const images = [
    lastFlag(service?.flags ?? [], "image-service-endpoint")?.value,
    settings.get("imageServiceEndpoint")?.value,
  ].filter((endpoint) => endpoint !== undefined);
  const links = new Map<string, string>();
  const listeners = new Map<string, string>();
  const used = new Set<string>();
  for (const endpoint of [...endpoints, ...images]) {
    const path = socketPath(endpoint);
    if (!path.startsWith("/")) continue;
    const target = socketPath(await files.resolve(path).catch(() => path));
    links.set(path, target);
    if (endpoints.includes(endpoint)) used.add(target);
  }
  for (const path of used) {
    const unit = await listeningUnit(files, path);
    if (unit !== undefined) listeners.set(path, unit);
  }
  const listening = new Set(listeners.values());
  // Of several units that which serves the kubelet now, then that at its socket, else one that is enabled.
  const rank = ({ endpoint, service: { unit } }: CriServer): number =>
    (listening.has(unit.name) ? 8 : 0) +
    (used.has(socketPath(endpoint)) ? 4 : 0) +
    (unit.isEnabled ? 2 : 0) +
    (unit.isMasked ? 0 : 1);
  const ranked = servers.toSorted((a, b) => rank(b) - rank(a));
  const isTheirs = ({ runtime, service: { unit } }: CriServer): boolean =>
    runtime === "cri-dockerd" || unitNames[unit.name] === "cri-dockerd";
  const criDocker = ranked.find(isTheirs);
  const own = ranked.find((server) => server.runtime === "dockershim" && !isTheirs(server));
  return {
    docker: await readService(files, "docker.service"),
    criDocker: criDocker?.service,
    criDockerSocket: criDocker?.socket ?? (await loadUnit(files, "cri-docker.socket")),
    dockershim: own?.service,
    units,
    servers,
    links,
    listeners,
  };
}

async function readCandidates(files: NodeFiles): Promise<readonly ServiceFacts[]> {
  const names = new Set<string>();
  for (const directory of unitDirectories) {
    for (const name of await files.names(directory)) {
      if (!name.endsWith(".service") || names.has(name)) continue;
      const reading = await files.read(join(directory, name));
      if (candidate.test(name) || (reading.kind === "read" && candidate.test(reading.text))) names.add(name);
    }
  }
  for (const directory of unitDirectories)
    for (const folder of (await files.names(directory)).filter((name) => name.endsWith(".service.d"))) {
      const name = folder.replace(/\.d$/, "");
      if (!names.has(name) && (await hasCandidate(files, join(directory, folder)))) names.add(name);
    }
  const services = [];
  for (const name of names) services.push(await readService(files, name));
  return services.filter((service) => service !== undefined);
}

/** Whether a drop-in has what the text of the unit has not. */
async function hasCandidate(files: NodeFiles, folder: string): Promise<boolean> {
  for (const name of await files.names(folder)) {
    const reading = name.endsWith(".conf") ? await files.read(join(folder, name)) : undefined;
    if (reading?.kind === "read" && candidate.test(reading.text)) return true;
  }
  return false;
}

async function serverOf(files: NodeFiles, service: ServiceFacts): Promise<CriServer | undefined> {
  const { unit, command, flags } = service;
  const program = command.words[0]?.text;
  const known = programs[basename(program ?? "")];
  const started = startedPrograms(command.words).map((name) => programs[name]);
  const runtime = known ?? started.find((one) => one !== undefined) ?? unitNames[unit.name];
  if (runtime === undefined) return undefined;
  const isItself = known !== undefined && program !== undefined && (await isServer(files, program));
  const wrapper = isItself ? undefined : program;
  const socket = await socketOf(files, unit);
  if (runtime === "containerd" || runtime === "cri-o")
    return { runtime, service, wrapper, socket, endpoint: await endpointOfOther(files, service, runtime) };
  const given = lastFlag(flags, "container-runtime-endpoint")?.value ?? "";
  const listens = socket === undefined ? undefined : listValues(socket, "Socket", "ListenStream").at(0);
  const path = listens?.value.replace(/^%t/, "/run");
  const passed = path?.startsWith("/") === true ? `unix://${path}` : defaultSockets[runtime];
  return { runtime, service, wrapper, socket, endpoint: /^(unix:\/\/)?\//.test(given) ? given : passed };
}

/** This program is started by a script of its own when it is installed by hand. */
async function isServer(files: NodeFiles, program: string): Promise<boolean> {
  if (!(await isOtherProgram(files, program))) return true;
  const target = await files.resolve(program).catch(() => program);
  return (await files.kindOf(join(target, "../../dist/launch.cjs"))) === "file";
}

/** The socket unit of its own name, or the one that it names. */
async function socketOf(files: NodeFiles, unit: LoadedUnit): Promise<LoadedUnit | undefined> {
  const named = listValues(unit, "Service", "Sockets").at(-1)?.value.split(/\s+/)[0];
  return loadUnit(files, named ?? unit.name.replace(/service$/, "socket"));
}

async function endpointOfOther(
  files: NodeFiles,
  { flags }: ServiceFacts,
  runtime: "containerd" | "cri-o",
): Promise<string> {
  const flag = (...names: readonly string[]): string | undefined =>
    flags.findLast(({ name }) => names.includes(name))?.value;
  const isContainerd = runtime === "containerd";
  const given = isContainerd ? flag("address", "a") : flag("listen");
  if (given !== undefined) return given;
  const paths = isContainerd
    ? [flag("config", "c") ?? "/etc/containerd/config.toml"]
    : [
        flag("config", "c") ?? "/etc/crio/crio.conf",
        ...(await files.names("/etc/crio/crio.conf.d")).map((name) => `/etc/crio/crio.conf.d/${name}`),
      ];
  let endpoint = isContainerd ? "/run/containerd/containerd.sock" : "/run/crio/crio.sock";
  for (const path of paths) {
    const reading = await files.read(path);
    const text = reading.kind === "read" ? reading.text : "";
    const [key, section] = isContainerd ? ["address", "grpc"] : ["listen", "crio.api"];
    const own = text.split(/^\s*(?=\[)/m).find((part) => part.startsWith(`[${section}]`)) ?? "";
    endpoint = new RegExp(`^\\s*${key}\\s*=\\s*["']([^"']+)["']`, "m").exec(own)?.[1] ?? endpoint;
  }
  return endpoint;
}

/** What starts a kubelet besides kubelet.service; undefined: nothing that is enabled or runs. */
export async function otherKubelet(
  files: NodeFiles,
  units: readonly ServiceFacts[],
): Promise<string | undefined> {
  for await (const { pid } of runningKubelets(files)) {
    const unit = await unitOfProcess(files, String(pid));
    if (unit === "") return `no service (process ${pid})`;
    if (unit !== undefined && unit !== "kubelet.service") return unit;
  }
  const wanted = await wantedNames(files);
  for (const { unit, command } of units) {
    if (unit.name === "kubelet.service") continue;
    if (!startedPrograms(command.words).some((name) => kubelets.includes(name))) continue;
    const [stem = "", instance] = unit.name.split("@");
    if (instance !== ".service" && unit.isEnabled && !unit.isMasked) return unit.name;
    const found = instance === ".service" ? wanted.find((name) => name.startsWith(`${stem}@`)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

async function wantedNames(files: NodeFiles): Promise<readonly string[]> {
  const names: string[] = [];
  for (const directory of unitDirectories)
    for (const folder of await files.names(directory))
      if (/\.(wants|requires)$/.test(folder)) names.push(...(await files.names(join(directory, folder))));
  return names;
}

/** Programs that start another one, which they get as arguments or in a text. */
const launcher =
  /^(?:(?:ba|da|a|z)?sh|busybox|env|nice|ionice|chrt|taskset|numactl|nsenter|chroot|timeout|sudo|unshare|flock|setsid|nohup|hyperkube|docker|podman|nerdctl|ctr)$/;
const keyword = /^(?:exec|start|run|then|do)$/;
/** What else is before the name of a program where it has no path. */
const before = /^$|^-a$|^-?[a-z]?\d+$|^\w+=|hyperkube/;

/** Names of programs; the first is the command's own. Of texts as a shell reads them only what stands there as it is. */
export function startedPrograms(words: readonly { readonly text: string }[]): readonly string[] {
  const [first = "", ...rest] = words.map(({ text }) => text);
  const own = basename(first);
  if (!launcher.test(own)) return [own];
  const names = [own];
  let previous = own === "hyperkube" ? own : "";
  for (const word of rest.flatMap((text) => text.replaceAll(/[;&|()"'`]+/g, " ; ").split(/\s+/))) {
    const isData = /^\/(?:etc|var|run|proc|sys)\//.test(word) && !word.includes("/bin");
    const isPath = word.startsWith("/") && !isData && !/[=:]/.test(word);
    const isFirst = before.test(previous) || keyword.test(previous);
    const isName = isFirst && /^\w[\w.-]*$/.test(word) && !keyword.test(word);
    if (isPath || isName) names.push(basename(word));
    previous = word === ";" || word === "-c" ? "" : word;
  }
  return names;
}
