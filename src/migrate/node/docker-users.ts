/** Containers, units and static pods that name Docker's socket, that of the runtime, Docker's files or the logs of pods. */
import { basename, join } from "node:path/posix";
import { messageOf } from "../../lib/errors.js";
import { podNameLabel, podNamespaceLabel } from "../../domain/labels.js";
import type { ContainerFact, DockerUser, EngineFacts } from "../facts/facts.js";
import { socketPath } from "../kubelet/target.js";
import { unitDirectories } from "../systemd/load-unit.js";
import { parseUnitText, type Problem } from "../systemd/unit-file.js";
import type { NodeFiles } from "../files/node-files.js";
import { shownName } from "./read-engine.js";

type Use = Exclude<DockerUser["use"], "name">;

/** Agents whose images or programs have these words in their names. */
const agentNames = [
  "fluent-bit",
  "fluentbit",
  "fluentd",
  "filebeat",
  "datadog",
  "cadvisor",
  "promtail",
  "vector",
  "logstash",
  "logspout",
  "newrelic",
  "sysdig",
  "falco",
  "splunk",
  "telegraf",
  "dynatrace",
  "watchtower",
  "portainer",
  "traefik",
] as const;

/** Units of the runtime itself, which name the socket by nature. */
const ownUnits: readonly string[] = [
  ...["docker.service", "docker.socket", "cri-docker.service", "cri-dockerd.service"],
  ...["dockershim.service", "kubelet.service", "containerd.service"],
];

/** What is looked for. */
export interface SoughtPaths {
  readonly dockerRoot: string;
  /** That of the kubelet's runtime, as `socketPath()` writes it; empty: none. */
  readonly runtimeSocket: string;
}

/** What a mounted or named path reaches. */
export function usesOf(path: string, { dockerRoot, runtimeSocket }: SoughtPaths): readonly Use[] {
  // `unix:///run/x.sock` leaves three slashes.
  const clean = path.replace(/\/+$/, "").replace(/^\/+/, "/");
  if (runtimeSocket !== "" && socketPath(clean) === runtimeSocket) return ["runtime"];
  if (/^\/(var\/)?run(\/docker\.sock)?$/.test(clean)) return ["socket"];
  const isFile = [dockerRoot, "/var/lib/docker"].some((root) => clean === root || isBelow(clean, root));
  if (clean === "/var/lib" || isFile) return ["files"];
  return /^\/var\/log(\/(pods|containers)(\/.*)?)?$/.test(clean) ? ["logs"] : [];
}

function isBelow(path: string, directory: string): boolean {
  return path.startsWith(`${directory}/`) && !/\/volumes\//.test(path);
}

export function agentOf(...texts: readonly string[]): string {
  const text = texts.join(" ").toLowerCase();
  return agentNames.find((name) => text.includes(name)) ?? "";
}

/** Mounts of containers, in pods and outside of them. */
export function usersAmongContainers(engine: EngineFacts, sought: SoughtPaths): readonly DockerUser[] {
  const containers = [...engine.pods.flatMap((pod) => pod.containers), ...engine.outside];
  return containers.flatMap((container): readonly DockerUser[] => {
    const used = container.mounts.flatMap((source) => usesOf(source, sought).map((use) => ({ use, source })));
    const agent = agentOf(container.image, container.name);
    return [...new Set(used.map(({ use }) => use))].map((use) => {
      const sources = used.filter((one) => one.use === use).map(({ source }) => source);
      const place = `mount of ${sources.join(", ")}`;
      return { what: "container", name: nameOf(container), place, use, agent };
    });
  });
}

function nameOf(container: ContainerFact): string {
  const { labels } = container;
  const [namespace, pod] = [labels[podNamespaceLabel], labels[podNameLabel]];
  return pod === undefined ? container.name : `${namespace ?? ""}/${pod}/${shownName(container)}`;
}

/** Units that name the socket or Docker's files, or whose program is a known agent. */
export async function usersAmongUnits(files: NodeFiles, sought: SoughtPaths): Promise<readonly DockerUser[]> {
  const users: DockerUser[] = [];
  const seen = new Set<string>();
  for (const directory of unitDirectories) {
    for (const name of await files.names(directory)) {
      if (!name.endsWith(".service") || seen.has(name) || ownUnits.includes(name)) continue;
      seen.add(name);
      const reading = await files.read(join(directory, name));
      if (reading.kind !== "read") continue;
      users.push(...usersOfUnit(name, parseUnitText(reading.path, reading.text).entries, sought));
    }
  }
  return users;
}

/** The first line of the unit that proves it. */
function usersOfUnit(
  name: string,
  entries: ReturnType<typeof parseUnitText>["entries"],
  sought: SoughtPaths,
): readonly DockerUser[] {
  for (const { section, key, value, file, line } of entries) {
    if (section !== "Service" || !/^(Exec|Environment)/.test(key)) continue;
    const paths = value.match(/\/[\w./-]+/g) ?? [];
    const uses = new Set<Use>(paths.flatMap((path) => usesOf(path, sought)).filter((use) => use !== "logs"));
    const program = basename(paths[0] ?? "");
    if (key.startsWith("Exec") && program === "docker") uses.add("socket");
    const agent = agentOf(name, program);
    const place = `${file}:${line}`;
    if (uses.size > 0) return [...uses].map((use) => ({ what: "unit", name, place, use, agent }));
    if (agent !== "") return [{ what: "unit", name, place, use: "name", agent }];
  }
  return [];
}

interface ManifestShape {
  readonly metadata?: { readonly name?: unknown } | null;
  readonly spec?: { readonly volumes?: unknown } | null;
}

/** hostPath volumes of static pods. A manifest that is not YAML is a problem. */
export async function usersAmongManifests(
  files: NodeFiles,
  directory: string,
  sought: SoughtPaths,
): Promise<{ readonly users: readonly DockerUser[]; readonly problems: readonly Problem[] }> {
  const users: DockerUser[] = [];
  const problems: Problem[] = [];
  for (const name of await files.names(directory)) {
    if (!/\.(ya?ml|json)$/.test(name) || name.startsWith(".")) continue;
    const path = join(directory, name);
    const reading = await files.read(path);
    if (reading.kind !== "read") continue;
    const { parseDocument } = await import("../../lib/yaml.js");
    const document = parseDocument(reading.text);
    let manifest: ManifestShape | null;
    try {
      const [error] = document.errors;
      if (error !== undefined) throw error;
      manifest = document.toJS({ maxAliasCount: 100 }) as ManifestShape | null;
    } catch (error) {
      problems.push({ place: path, text: messageOf(error).split("\n")[0] ?? "" });
      continue;
    }
    const paths = hostPaths(manifest?.spec?.volumes);
    const uses = [...new Set(paths.flatMap((one) => usesOf(one, sought)))];
    const pod = typeof manifest?.metadata?.name === "string" ? manifest.metadata.name : name;
    const agent = agentOf(pod);
    users.push(...uses.map((use) => ({ what: "manifest" as const, name: pod, place: path, use, agent })));
  }
  return { users, problems };
}

function hostPaths(volumes: unknown): readonly string[] {
  if (!Array.isArray(volumes)) return [];
  return (volumes as readonly unknown[]).flatMap((volume) => {
    const path = (volume as { hostPath?: { path?: unknown } | null } | null)?.hostPath?.path;
    return typeof path === "string" ? [path] : [];
  });
}
