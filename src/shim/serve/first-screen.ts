/** The first screen: the facts that a user needs after the start. Pure. */
import { dirname } from "node:path";
import type { NodeFacts } from "../../domain/node-facts.js";
import { type Reach, reachLine, type ReachJob } from "../../domain/reach.js";
import { options } from "../config/options.js";
import type { NetworkOffer } from "./example-network.js";

/** Report of the set-up script that ran before the shim, from the JSON in DOCKERSHIM_SETUP_REPORT. */
export interface SetupReport {
  /** Packages that the set-up installed on this host, now or earlier. */
  readonly installed: readonly string[];
  readonly engineStartedBy: string;
  /** Whether the engine keeps running after the shim. */
  readonly keepsRunning: boolean;
  /** Shell lines that undo the installation and stop the engine. */
  readonly undo: readonly string[];
  /** Words of the command that runs the pods of a file. */
  readonly playCommand: readonly string[];
  /** The file of a first pod; empty when there is no demo image. */
  readonly playManifest: string;
}

export interface FirstScreen {
  readonly version: string;
  /** Undefined when no engine answers yet. */
  readonly facts: NodeFacts | undefined;
  readonly engineEndpoint: string;
  readonly reach: Reach;
  /** Whether this program runs in a container of Docker. */
  readonly isInContainer: boolean;
  readonly network: {
    readonly name: string;
    readonly reason: string;
    /** The reason why pods get no network. */
    readonly problem: string | undefined;
  };
  /** Outcome of --write-example-cni-config; undefined without that flag. */
  readonly example: string | undefined;
  /** An example configuration for a node without any. */
  readonly offer: NetworkOffer | undefined;
  readonly pauseImage: string;
  readonly stateDirectory: string;
  readonly socket: string;
  /** Address of the server for exec, attach and port-forward. */
  readonly streaming: string;
  /** Socket for the kubelet's cAdvisor; empty when it is not served. */
  readonly cadvisor: string;
  /** Why the kubelet of this node does not use it; undefined when it does, or when there is no kubelet. */
  readonly cadvisorProblem: string | undefined;
  /** Address of the metrics; empty when they are not served. */
  readonly metrics: string;
  readonly setup: SetupReport | undefined;
}

export function renderFirstScreen(screen: FirstScreen): string {
  const { facts, network, example, offer, setup } = screen;
  const rows: (readonly [string, string])[] = [
    [
      "engine",
      facts === undefined
        ? `waiting for one at ${screen.engineEndpoint}`
        : engineLine(screen.engineEndpoint, facts),
    ],
    [
      "cgroups",
      facts === undefined ? "unknown yet" : `driver ${facts.cgroupDriver}, version ${facts.cgroupVersion}`,
    ],
    ...(facts === undefined
      ? []
      : [["reach", reachLine(screen.reach)] as const, ...missingFlags(screen, facts)]),
    ["network plugin", `${network.name} (${network.reason})`],
    ...(network.problem === undefined ? [] : [["", `not ready: ${network.problem}`] as const]),
    ...(example === undefined ? [] : [["CNI example", example] as const]),
    ["pause image", screen.pauseImage],
    ["state directory", screen.stateDirectory],
    ["socket", screen.socket],
    ["streaming", screen.streaming],
    ...(screen.cadvisor === "" ? [] : [["cAdvisor", screen.cadvisor] as const]),
    ...(screen.cadvisorProblem === undefined ? [] : [["", screen.cadvisorProblem] as const]),
    ...(screen.metrics === "" ? [] : [["metrics", screen.metrics] as const]),
    ...(setup === undefined ? [] : setupRows(setup)),
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const table = rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
  const play =
    setup === undefined || setup.playManifest === ""
      ? []
      : ["", "Run a first pod from a second terminal:", "", `  ${playLine(setup, screen.socket)}`];
  return [
    "",
    `dockershim ${screen.version} serves the Kubernetes CRI. Ctrl-C ends it; containers keep running.`,
    "",
    ...table,
    ...(offer === undefined ? [] : offerLines(offer)),
    ...play,
    "",
    "",
  ].join("\n");
}

/** What the command that made the container has to be given for the jobs that are out of reach. */
function missingFlags(
  { reach, isInContainer, stateDirectory }: FirstScreen,
  { dockerRootDir }: NodeFacts,
): readonly (readonly [string, string])[] {
  if (!isInContainer || reach.mode === "remote") return [];
  const flags: Readonly<Record<ReachJob, readonly string[]>> = {
    files: [`-v ${dockerRootDir}:${dockerRootDir}`],
    hostPaths: [`-v ${stateDirectory}:${stateDirectory}:rshared`],
    processes: ["--privileged", "--pid host"],
    networkNamespaces: ["--privileged", "--pid host"],
    cgroups: ["--cgroupns host", "-v /sys/fs/cgroup:/sys/fs/cgroup"],
  };
  const lacking = Object.entries(reach.jobs).flatMap(([job, found]) =>
    found.reached || found.pending === true ? [] : flags[job as ReachJob],
  );
  if (lacking.length === 0) return [];
  return [["", `"docker run" of this container lacks ${[...new Set(lacking)].join(" ")}`]];
}

/** Names the socket, because a second terminal has neither the flags nor the environment of this one. */
function playLine({ playCommand, playManifest }: SetupReport, socket: string): string {
  const endpoint = socket === options.containerRuntimeEndpoint.default ? [] : ["--endpoint", socket];
  return [...playCommand, "--wait", ...endpoint, playManifest].map(shellWord).join(" ");
}

/** The list as a here-document. Its lines and its end mark must not be indented. */
function offerLines({ path, list }: NetworkOffer): readonly string[] {
  if ("problem" in list) {
    return [
      "",
      "Pods get a network as soon as there is a CNI configuration. An example for a single node cannot be made:",
      list.problem,
      ...(list.problem.endsWith("not installed")
        ? ["Debian has the plugins in its package containernetworking-plugins."]
        : []),
    ];
  }
  return [
    "",
    "Pods get a network as soon as there is a CNI configuration. For a single node, start once more with",
    "--write-example-cni-config, or write it from a second terminal; it is used at once:",
    "",
    `mkdir -p ${shellWord(dirname(path))} && cat > ${shellWord(path)} <<'END'`,
    ...compact(list.text),
    "END",
  ];
}

/** The list with one line for each plugin. */
function compact(text: string): readonly string[] {
  const { plugins, ...members } = JSON.parse(text) as { plugins: readonly unknown[] };
  const head = Object.entries(members).map(([key, value]) => `"${key}": ${JSON.stringify(value)}, `);
  const lines = plugins.map((plugin) => `  ${JSON.stringify(plugin)}`);
  return [`{ ${head.join("")}"plugins": [`, ...lines.join(",\n").split("\n"), "] }"];
}

function shellWord(text: string): string {
  return /^[\w/.:=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function engineLine(endpoint: string, facts: NodeFacts): string {
  const { engineVersion, apiMinor, operatingSystem } = facts;
  return `Docker Engine ${engineVersion}, API 1.${apiMinor}, at ${endpoint} (${operatingSystem})`;
}

function setupRows(setup: SetupReport): (readonly [string, string])[] {
  const installed = setup.installed.length === 0 ? "nothing" : setup.installed.join(" ");
  const keeps = setup.keepsRunning ? "keeps running" : "ends too";
  return [
    ["installed", installed],
    ["after Ctrl-C", `the engine ${keeps}`],
    ...setup.undo.map((line, index) => [index === 0 ? "to undo" : "", line] as const),
  ];
}

/** Undefined for text that is not a report; the first screen then lacks that part. */
export function parseSetupReport(text: string | undefined): SetupReport | undefined {
  if (text === undefined || text === "") return undefined;
  try {
    const value = JSON.parse(text) as Partial<SetupReport> | null;
    if (value === null || typeof value !== "object") return undefined;
    const strings = (list: unknown): readonly string[] =>
      Array.isArray(list) ? list.filter((item): item is string => typeof item === "string") : [];
    return {
      installed: strings(value.installed),
      engineStartedBy: typeof value.engineStartedBy === "string" ? value.engineStartedBy : "other",
      keepsRunning: value.keepsRunning !== false,
      undo: strings(value.undo),
      playCommand: strings(value.playCommand),
      playManifest: typeof value.playManifest === "string" ? value.playManifest : "",
    };
  } catch {
    return undefined;
  }
}
