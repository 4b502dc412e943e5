/** The whole judgement of a node, as a plain value. Pure. */
import type { EngineFacts, MigrationFacts } from "../facts/facts.js";
import { type Finding, type Level, levels, needsAttention } from "./finding.js";
import { judgeEngine } from "./judge-engine.js";
import { judgeKubelet } from "./judge-kubelet.js";
import { countMakers, judgeNetwork, judgeSurroundings } from "./judge-node.js";
import { judgeForeign, judgeHalfMigrated, judgePods, type PodVerdict } from "./judge-pods.js";
import { configuredRuntime, socketPath, type Target } from "../kubelet/target.js";

/** The value of `--output json`: keys are added, never renamed, within one version. */
export interface CheckReport {
  readonly format: "dockershim-migrate-check";
  readonly version: 1;
  readonly program: string;
  /** RFC 3339. */
  readonly at: string;
  readonly node: string;
  readonly root: string;
  readonly target: Target;
  readonly engine: {
    readonly endpoint: string;
    /** Empty when it does not answer, as all that follows. */
    readonly version: string;
    readonly apiVersion: string;
    readonly cgroups: string;
    readonly storage: string;
    readonly logDriver: string;
    readonly liveRestore: boolean;
    readonly runtimes: readonly string[];
  };
  readonly kubelet: {
    readonly version: string;
    readonly runtime: string;
    readonly endpoint: string;
    readonly unit: string;
    readonly config: string;
    readonly flags: readonly { readonly name: string; readonly value: string; readonly source: string }[];
  };
  readonly network: {
    readonly configurationDirectory: string;
    readonly networks: readonly string[];
    readonly binDirectories: readonly string[];
    readonly cachedPods: number;
    readonly checkpoints: Readonly<Record<string, number>>;
  };
  readonly makers: Readonly<Record<string, number>>;
  readonly summary: { readonly exitCode: 0 | 2; readonly counts: Readonly<Record<Level, number>> };
  /** The worst first. */
  readonly findings: readonly Finding[];
  readonly pods: readonly PodVerdict[];
}

/** Flags of the kubelet that are shown: no other flag concerns the runtime, and some name secrets. */
const shownFlags =
  /^(container-runtime|container-runtime-endpoint|image-service-endpoint|network-plugin|network-plugin-mtu|cni-.*|docker-endpoint|pod-infra-container-image|config|containerd|cgroup-driver|hairpin-mode|non-masquerade-cidr|pod-cidr|pod-manifest-path|hostname-override|runtime-cgroups|experimental-dockershim-root-directory)$/;

export function judge(
  facts: MigrationFacts,
  target: Target,
  { program, at }: { readonly program: string; readonly at: string },
): CheckReport {
  const engine = "facts" in facts.engine ? facts.engine : undefined;
  const judged = engine === undefined ? undefined : judgePods(facts, engine, target);
  const findings: Finding[] = [
    ...("problem" in facts.engine ? [noEngine(facts.engine)] : []),
    ...(facts.isRoot ? [] : [notRoot()]),
    ...otherEngine(facts),
    ...judgeKubelet(facts, target),
    ...(engine === undefined ? [] : judgeEngine(facts, engine, target)),
    ...judgeNetwork(facts, target),
    ...(judged?.findings ?? []),
    ...(engine === undefined ? [] : [...judgeForeign(engine), ...judgeHalfMigrated(facts, engine)]),
    ...judgeSurroundings(facts, engine, target),
  ];
  const order = (level: Level): number => -levels.indexOf(level);
  findings.sort((a, b) => order(a.level) - order(b.level));
  const counts = Object.fromEntries(
    levels.map((level) => [level, findings.filter((finding) => finding.level === level).length]),
  ) as Record<Level, number>;
  const configured = configuredRuntime(facts);
  return {
    format: "dockershim-migrate-check",
    version: 1,
    program,
    at,
    target,
    node: facts.node.name,
    root: facts.root,
    engine: engineSummary(facts.engine.endpoint, engine),
    kubelet: {
      version: facts.kubelet.version?.text ?? "",
      runtime: configured.runtime,
      endpoint: configured.endpoint,
      unit: facts.kubelet.service?.unit.path ?? "",
      config: facts.kubelet.config?.path ?? "",
      flags: (facts.kubelet.service?.flags ?? [])
        .filter(({ name }) => shownFlags.test(name))
        .map(({ name, value, file, line }) => ({ name, value, source: `${file}:${line}` })),
    },
    network: networkSummary(facts),
    makers: engine === undefined ? {} : Object.fromEntries(countMakers(engine)),
    summary: { exitCode: findings.some(({ level }) => needsAttention(level)) ? 2 : 0, counts },
    findings,
    pods: judged?.pods ?? [],
  };
}

/** An engine without the kubelet's pods would prove nothing. */
function otherEngine({ root, engine, runtimeEngine }: MigrationFacts): readonly Finding[] {
  if (runtimeEngine === undefined) return [];
  const asked = socketPath(engine.endpoint);
  const path = root !== "/" && asked.startsWith(`${root}/`) ? socketPath(asked.slice(root.length)) : asked;
  if (path === socketPath(runtimeEngine.endpoint)) return [];
  return [
    {
      id: "engine-other",
      level: "change",
      subject: "node",
      source: runtimeEngine.source,
      text: `the kubelet's runtime uses the engine at ${runtimeEngine.endpoint}, and ${engine.endpoint} was asked`,
      reason: "pods, containers and images here may be those of another engine",
      next: `give --docker-endpoint=${runtimeEngine.endpoint}`,
    },
  ];
}

function notRoot(): Finding {
  return {
    id: "not-root",
    level: "change",
    subject: "node",
    source: "/proc/self/status",
    text: "only root can read all files of the node, and the processes that serve its sockets",
    reason: "what is not read is not judged",
    next: "run it as root",
  };
}

function noEngine({ endpoint, problem }: { readonly endpoint: string; readonly problem: string }): Finding {
  return {
    id: "engine-unreachable",
    level: "blocked",
    subject: "node",
    source: endpoint,
    text: `the engine at ${endpoint} does not answer: ${problem}`,
    reason: "pods, containers and images cannot be judged without it",
    next: /EACCES|EPERM|permission denied/i.test(problem)
      ? "run it as root"
      : "systemctl status docker.service, start it, or give --docker-endpoint",
  };
}

function engineSummary(endpoint: string, engine: EngineFacts | undefined): CheckReport["engine"] {
  const facts = engine?.facts;
  return {
    endpoint,
    version: facts?.engineVersion ?? "",
    apiVersion: facts?.engineApiVersion ?? "",
    cgroups: facts === undefined ? "" : `driver ${facts.cgroupDriver}, version ${facts.cgroupVersion}`,
    storage: facts === undefined ? "" : `${facts.storageDriver} (${facts.imageStore} image store)`,
    logDriver: facts?.loggingDriver ?? "",
    liveRestore: facts?.liveRestore ?? false,
    runtimes: (facts?.runtimes ?? []).map(({ name }) => name),
  };
}

function networkSummary({ network, checkpoints }: MigrationFacts): CheckReport["network"] {
  const flavours: Record<string, number> = {};
  for (const { flavour = "corrupt" } of checkpoints) flavours[flavour] = (flavours[flavour] ?? 0) + 1;
  return {
    configurationDirectory: network.configurationDirectory,
    networks: network.configurations.flatMap(({ network: name }) => name ?? []),
    binDirectories: network.binDirectories.map(({ path, programs }) => `${path} (${programs})`),
    cachedPods: network.cached.size,
    checkpoints: flavours,
  };
}
