/** Everything that the checks look at, read side by side, each within a time of its own. Changes nothing. */
import { join } from "node:path";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import { ShimError } from "../../lib/errors.js";
import { askVersion } from "../../migrate/kubelet/ask-version.js";
import { gatherFacts as gatherNode } from "../../migrate/node/gather.js";
import type { MigrationFacts } from "../../migrate/facts/facts.js";
import { createEngine, engineEndpoint } from "../../shim/app/open-engine.js";
import type { Config, ResolvedConfig } from "../../shim/config/resolve.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { DoctorFacts, EngineState, Observed, OrphanFacts, PlaceFacts } from "../facts.js";
import type { Part } from "../finding.js";
import { readLastWords } from "./last-words.js";
import { observe } from "./observe.js";
import { readEngineState } from "./read-engine.js";
import { isBelowHung, isHung, readCertificates, readHost, readPlaces } from "./read-host.js";
import { NetworkReader } from "./read-network.js";
import { readServer } from "./read-server.js";
import { type GivenSettings, readSettings } from "./read-settings.js";

const nodeMs = 20_000;
const networkMs = 20_000;
const orphansMs = 40_000;

const dataHolds = "images and containers";

/** Read before the settings are known. */
const usualPlaces = [
  ["/var/lib/dockershim", "records of this program"],
  ["/var/lib/kubelet", "volumes of pods"],
  ["/var/log/pods", "logs of pods"],
  ["/var/lib/containerd", "images of containerd"],
  ["/run", "sockets and state of containers"],
] as const;

export interface GatherOptions extends GivenSettings {
  /** None: all. */
  readonly parts: readonly Part[];
  /** Also call CHECK of the plugins for running pods. */
  readonly check: boolean;
}

export type GatherIo = Pick<ProcessIo, "environment" | "readFile" | "isSocket">;

export interface Gathered {
  readonly facts: DoctorFacts;
  readonly resolved: ResolvedConfig;
}

export async function gatherFacts(options: GatherOptions, io: GatherIo): Promise<Gathered> {
  const node = {
    root: "/",
    endpoint: "",
    engine: undefined,
    kubeletVersion: undefined,
    askProgram: askVersion,
  };
  // First, because a read of a mount that hangs does not end, and keeps this process from ending.
  const usual = await readPlaces(usualPlaces);
  const migration: Observed<MigrationFacts> = usual.some(isHung)
    ? { problem: "a file system does not answer", timedOut: true }
    : await observe("read the units", nodeMs, (signal) => gatherNode(node, signal));
  const { resolved, settings } = await readSettings(options, migration.seen, io);
  const { config } = resolved;
  const { stateDir } = settings;
  const named = [
    [stateDir, "records of this program"],
    [dockerRootOf(migration.seen), dataHolds],
  ] as const;
  const others = await readPlaces(named.filter(([path]) => !usualPlaces.some(([one]) => one === path)));
  const guessed = [...others, ...usual];
  const hangs = isBelowHung(guessed, stateDir);
  const network = new NetworkReader(config, silentLogger());
  /** Reads the state directory, which may hang. */
  const inState = <T>(action: string, look: (signal: AbortSignal) => Promise<T>): Promise<Observed<T>> =>
    hangs
      ? Promise.resolve({ problem: `${action}: ${stateDir} does not answer`, timedOut: true })
      : observe(action, nodeMs, look);
  const [{ engine, orphans }, server, host, networks, firewall, certificates] = await Promise.all([
    askEngine(options, { config, network, hangs }, io),
    inState("read the server", () => readServer(config, settings.source)),
    inState("read the kernel", () => readHost(stateDir, migration.seen?.kubelet)),
    observe("read the networks", networkMs, (signal) => network.network(signal)),
    observe("read iptables", networkMs, (signal) => network.firewall(signal)),
    readCertificates(
      certificateFiles(config, migration.seen, io.environment).filter(
        ([path]) => !isBelowHung(guessed, path),
      ),
    ),
  ]);
  const places = await withEngineRoot(guessed, engine, config);
  const facts: DoctorFacts = {
    ...{ atMs: Date.now(), settings, engine, server, host, places, certificates },
    ...{ network: networks, firewall, orphans, migration },
  };
  return { facts, resolved };
}

/** The directory of its data by the engine's own word: a flag of dockerd may say it. */
async function withEngineRoot(
  places: readonly PlaceFacts[],
  engine: EngineState,
  { dockerEndpoint }: Config,
): Promise<readonly PlaceFacts[]> {
  if (engine.state !== "answers" || dockerEndpoint.kind !== "unix") return places;
  const { dockerRootDir: root } = engine.facts.info;
  if (root === "" || places.some(({ path }) => path === root)) return places;
  return [...places.filter(({ holds }) => holds !== dataHolds), ...(await readPlaces([[root, dataHolds]]))];
}

interface EngineParts {
  readonly config: Config;
  readonly network: NetworkReader;
  /** The state directory does not answer. */
  readonly hangs: boolean;
}

async function askEngine(
  { parts, check }: GatherOptions,
  { config, network, hangs }: EngineParts,
  { environment }: GatherIo,
): Promise<{ readonly engine: EngineState; readonly orphans: Observed<OrphanFacts> }> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  const nothing: Observed<OrphanFacts> = { seen: { resources: [], complaints: undefined } };
  try {
    const port = createEngine(await engineEndpoint(config, environment), config, log, lifetime);
    const engine = await readEngineState({
      config,
      engine: port,
      provesReach: parts.includes("reach"),
      hangs,
      log,
    });
    if (engine.state === "fails" && config.dockerEndpoint.kind === "unix")
      return { engine: { ...engine, lastWords: await readLastWords("docker.service") }, orphans: nothing };
    if (engine.state !== "answers" || hangs) return { engine, orphans: nothing };
    const orphans = await observe("compare the node with the engine", orphansMs, (signal) =>
      network.orphans(port, { check }, signal),
    );
    return { engine, orphans };
  } catch (error) {
    const { kind, message } = ShimError.from(error);
    return { engine: { state: "fails", kind, problem: message }, orphans: nothing };
  } finally {
    await lifetime.close();
  }
}

function dockerRootOf(migration: MigrationFacts | undefined): string {
  const { [rootSetting]: root } = migration?.daemonConfig?.values ?? {};
  return typeof root === "string" ? root : "/var/lib/docker";
}

const rootSetting = "data-root";

function certificateFiles(
  { streamingTlsCertFile, dockerEndpoint, dockerContext }: Config,
  migration: MigrationFacts | undefined,
  environment: GatherIo["environment"],
): readonly (readonly [string, string])[] {
  const directory = dockerContext?.tlsDirectory ?? environment["DOCKER_CERT_PATH"] ?? "";
  const usesTls = dockerEndpoint.kind === "tcp" && directory !== "";
  const serving = migration?.kubelet.settings.get("tlsCertFile")?.value;
  return [
    ...(streamingTlsCertFile === undefined
      ? []
      : [[streamingTlsCertFile, "exec and logs (streaming)"] as const]),
    ...(usesTls ? [[join(directory, "cert.pem"), "this program at the engine"] as const] : []),
    ...(usesTls ? [[join(directory, "ca.pem"), "the engine's authority"] as const] : []),
    ["/var/lib/kubelet/pki/kubelet-client-current.pem", "the kubelet at the API server"],
    ...(serving === undefined ? [] : [[serving, "the kubelet's own server"] as const]),
  ];
}
