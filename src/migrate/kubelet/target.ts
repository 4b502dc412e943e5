/** The runtimes that a node can have, and which one a kubelet uses. */
import { normalize } from "node:path/posix";
import type { CriServer, FlagFact, KubeletSetting, MigrationFacts, ServiceFacts } from "../facts/facts.js";
import type { LoadedUnit } from "../systemd/load-unit.js";
import { lastFlag } from "./flags.js";

/** `dockershim` is this program. `dockershim-in-tree` is the dockershim inside kubelets until 1.23. */
export const targets = ["dockershim", "dockershim-in-tree", "cri-dockerd", "containerd", "cri-o"] as const;
export type Target = (typeof targets)[number];

export const targetNames: Readonly<Record<Target, string>> = {
  dockershim: "this program (dockershim)",
  "dockershim-in-tree": "the dockershim inside the kubelet",
  "cri-dockerd": "cri-dockerd",
  containerd: "containerd",
  "cri-o": "CRI-O",
};

/** Targets that keep the containers of the engine. */
export function usesDocker(target: Target): boolean {
  return target !== "containerd" && target !== "cri-o";
}

/** The last kubelet with a dockershim inside. */
export const lastInTreeMinor = 23;

/** From here on the endpoints are fields of the configuration, too, and there is one kind of runtime. */
export const withoutRuntimeFlagMinor = 27;

export const defaultSockets = {
  dockershim: "unix:///var/run/dockershim.sock",
  "cri-dockerd": "unix:///run/cri-dockerd.sock",
} as const;

export interface KubeletRuntime {
  /** `unknown`: the endpoint is that of another program, or nothing names one. */
  readonly runtime: Target | "unknown";
  /** Empty for the dockershim inside the kubelet. */
  readonly endpoint: string;
  /** Where it is written. */
  readonly source: string;
}

/** Which runtime the kubelet uses by its files. */
export function configuredRuntime(
  facts: Pick<MigrationFacts, "kubelet" | "services" | "otherKubelet">,
): KubeletRuntime {
  const { service } = facts.kubelet;
  const start = unknownStart(facts);
  if (service === undefined || start !== undefined)
    return { runtime: "unknown", endpoint: "", source: start?.source ?? "" };
  return runtimeOf(facts, service.flags);
}

/** Why the flags of kubelet.service are not those of the kubelet. */
export interface UnknownStart {
  readonly id: "kubelet-elsewhere" | "kubelet-wrapped";
  readonly text: string;
  readonly source: string;
}

export function unknownStart({
  kubelet: { service, wrapper },
  otherKubelet,
}: Pick<MigrationFacts, "kubelet" | "otherKubelet">): UnknownStart | undefined {
  if (otherKubelet !== undefined) {
    const text = `the kubelet is in ${otherKubelet}, not in kubelet.service`;
    return { id: "kubelet-elsewhere", text, source: otherKubelet };
  }
  if (service === undefined) return undefined;
  const { unit, command } = service;
  const { entry } = command;
  if (entry === undefined) {
    const text = unit.isMasked ? "the unit is masked" : "the unit has no ExecStart";
    return { id: "kubelet-wrapped", text, source: unit.path };
  }
  if (wrapper === undefined) return undefined;
  const source = `${entry.file}:${entry.line}`;
  return { id: "kubelet-wrapped", text: `${JSON.stringify(wrapper)} is not the kubelet`, source };
}

/** The units of the runtimes on Docker whose flags are not those of the runtime. */
export function wrappedRuntimes({
  services: { servers, criDocker, dockershim },
}: Pick<MigrationFacts, "services">): readonly { readonly text: string; readonly source: string }[] {
  return servers.flatMap(({ service, wrapper, runtime }) => {
    if (wrapper === undefined || (service !== criDocker && service !== dockershim)) return [];
    const { entry } = service.command;
    const source = `${entry?.file ?? service.unit.path}:${entry?.line ?? 1}`;
    return [{ text: `${JSON.stringify(wrapper)} is not ${targetNames[runtime]}`, source }];
  });
}

/** The unit of the target, where systemd would not start it. */
export function maskedService(
  { services: { criDocker, dockershim } }: Pick<MigrationFacts, "services">,
  target: Target,
): LoadedUnit | undefined {
  const own = target === "dockershim" && !runsThisProgram(criDocker?.command) ? dockershim : undefined;
  const unit = (target === "cri-dockerd" ? criDocker : own)?.unit;
  return unit?.isMasked === true ? unit : undefined;
}

/** Which runtime the kubelet uses that runs; undefined without one. */
export function runningRuntime(
  facts: Pick<MigrationFacts, "kubelet" | "services">,
): KubeletRuntime | undefined {
  const { running } = facts.kubelet;
  return running === undefined ? undefined : runtimeOf(facts, running.flags);
}

function runtimeOf(
  facts: Pick<MigrationFacts, "kubelet" | "services">,
  flags: readonly FlagFact[],
): KubeletRuntime {
  const minor = facts.kubelet.version?.minor;
  const configured = settingOf(facts.kubelet, "containerRuntimeEndpoint");
  const kind = lastFlag(flags, "container-runtime");
  const endpoint = lastFlag(flags, "container-runtime-endpoint");
  const isOld = minor !== undefined && minor <= lastInTreeMinor;
  const inTree = (place: string): KubeletRuntime => ({
    runtime: "dockershim-in-tree",
    endpoint: "",
    source: place,
  });
  const placeOf = (flag: FlagFact): string => `${flag.file}:${flag.line}`;
  if (kind?.value === "docker") return inTree(placeOf(kind));
  if (isOld && kind === undefined) return inTree(`kubelet ${facts.kubelet.version?.text ?? ""}, no flag`);
  if (endpoint !== undefined && endpoint.value !== "")
    return atSocket(facts, endpoint.value, placeOf(endpoint));
  if (configured !== undefined && configured.value !== "")
    return atSocket(facts, configured.value, `${configured.path}:${configured.line}`);
  if (isOld) return atSocket(facts, defaultSockets.dockershim, "the kubelet's default");
  const plugin = lastFlag(flags, "network-plugin");
  // Kubelets from 1.24 on do not start with it: the one that runs is older.
  if (plugin !== undefined) return inTree(placeOf(plugin));
  if (minor === undefined) return { runtime: "unknown", endpoint: "", source: "" };
  return atSocket(facts, "unix:///run/containerd/containerd.sock", "the kubelet's default");
}

/** An older kubelet does not know the field. */
function settingOf(
  { settings, version }: MigrationFacts["kubelet"],
  name: string,
): KubeletSetting | undefined {
  return version !== undefined && version.minor < withoutRuntimeFlagMinor ? undefined : settings.get(name);
}

/** An endpoint for images that is another program's, as the image proxy of an installer; it stays as it is. */
export function foreignImageEndpoint(
  facts: Pick<MigrationFacts, "kubelet" | "services" | "otherKubelet">,
): { readonly value: string; readonly source: string } | undefined {
  const flag = lastFlag(facts.kubelet.service?.flags ?? [], "image-service-endpoint");
  const setting = settingOf(facts.kubelet, "imageServiceEndpoint");
  const { value, path, line } =
    flag === undefined || flag.value === ""
      ? (setting ?? { value: "", path: "", line: 0 })
      : { ...flag, path: flag.file };
  const pathOf = (endpoint: string): string =>
    facts.services.links.get(socketPath(endpoint)) ?? socketPath(endpoint);
  const { runtime, endpoint } = configuredRuntime(facts);
  const own = runtime === "dockershim-in-tree" ? defaultSockets.dockershim : endpoint;
  const isOwn = pathOf(value) === pathOf(own);
  return value === "" || isOwn ? undefined : { value, source: `${path}:${line}` };
}

/** One spelling of a socket: without a scheme, below /run. */
export function socketPath(endpoint: string): string {
  const path = endpoint.replace(/^unix:(?:\/\/)?/, "");
  return path.startsWith("/")
    ? normalize(path)
        .replace(/^\/var\/run\//, "/run/")
        .replace(/\/$/, "")
    : path;
}

/** A drop-in may run this program in the unit of cri-dockerd. */
export function runsThisProgram(command: ServiceFacts["command"] | undefined): boolean {
  return command?.words[0]?.text.endsWith("/dockershim") === true;
}

function atSocket(
  { services }: Pick<MigrationFacts, "services">,
  endpoint: string,
  source: string,
): KubeletRuntime {
  const named = socketPath(endpoint);
  const path = services.links.get(named) ?? named;
  const found = (runtime: KubeletRuntime["runtime"]): KubeletRuntime => ({ runtime, endpoint, source });
  const listener = services.listeners.get(path);
  if (listener !== undefined)
    return found(
      services.servers.find(({ service }) => service.unit.name === listener)?.runtime ?? "unknown",
    );
  const claimsOf = (one: string): readonly CriServer[] =>
    services.servers.filter((server) => socketPath(server.endpoint) === one && !server.service.unit.isMasked);
  const there = claimsOf(path);
  // Its unit may have the name of the link, too.
  const claims = there.length > 0 ? there : claimsOf(named);
  const enabled = claims.filter(
    ({ service, socket }) => service.unit.isEnabled || socket?.isEnabled === true,
  );
  const runtimes = [...new Set((enabled.length > 0 ? enabled : claims).map(({ runtime }) => runtime))];
  if (runtimes.length > 0) return found(runtimes.length === 1 ? (runtimes[0] ?? "unknown") : "unknown");
  // No plan leads from there, so that the name is proof enough.
  if (path.endsWith("/containerd.sock")) return found("containerd");
  return found(path.endsWith("/crio.sock") ? "cri-o" : "unknown");
}
