/** `dockershim wipe`: pods of this engine's kubelets, and what they and this program left on the node. */
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ProcessIo } from "../../cli/process-io.js";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError, succeeds } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import { HostIptables } from "../../network/iptables/host-iptables.js";
import { runCommand } from "../../network/iptables/run-command.js";
import { hostFileCalls } from "../../play/node/file-calls.js";
import { removeMountedTree } from "../../play/node/mounted-files.js";
import { createEngine, engineEndpoint } from "../../shim/app/open-engine.js";
import { type Config, type GivenFlag, resolveConfig } from "../../shim/config/resolve.js";
import type { ProgramName } from "../../shim/config/option.js";
import { options as table } from "../../shim/config/options.js";
import type { Engine } from "../../shim/ports/engine.js";
import { servingProgram } from "../../shim/serve/serving-programs.js";
import {
  criDockerdCheckpoints,
  isStateDirectoryClaimed,
  stateDirectoryId,
} from "../../shim/state/state-directory.js";
import { alone, installSocket, type Step } from "../steps.js";
import { findSystemd, type Systemd } from "../systemd.js";
import { configurationPath, unitNames } from "../wanted-files.js";
import { fileSteps, type FilesToWipe } from "../wipe-files.js";
import { networkSteps } from "../wipe-network.js";
import { removePods } from "./remove-pods.js";
import { findPods, type FoundPods } from "./wipe-pods.js";
import { imageVolumeLabel } from "../../shim/images/image-volume-store.js";
import { scratchContainersOf } from "../../shim/images/scratch-containers.js";
import { builtinPauseReference } from "../../shim/pause/pause-image.js";
import { playFilesReference } from "../../shim/pause/play-files-image.js";

export interface WipeOptions {
  /** cri-dockerd has another state directory. */
  readonly programName: ProgramName;
  readonly flags: readonly GivenFlag[];
  readonly dryRun: boolean;
  /** Also while pods run. */
  readonly force: boolean;
  /** Also the data of claims. */
  readonly claims: boolean;
}

type WipeIo = Pick<ProcessIo, "environment" | "version" | "writeOut" | "readFile" | "isSocket" | "signal">;

const engineTimeoutMs = 60_000;
/** Of `play` and of the set-up, whatever `--state-dir` is. */
const usualStateDirectory = table.stateDir.default;
const ownDirectory = "/run/dockershim";

export async function runWipe(options: WipeOptions, io: WipeIo): Promise<number> {
  if (process.geteuid?.() !== 0)
    throw new ShimError("precondition", "wipe the node: run it as root, as by sudo (nothing is changed)");
  const config = await wipeConfig(options, io);
  const lifetime = new Lifetime(silentLogger());
  try {
    const engine = createEngine(
      await engineEndpoint(config, io.environment),
      config,
      silentLogger(),
      lifetime,
    );
    const work = (): Promise<number> => wipe(options, io, { config, engine });
    return await (options.dryRun ? work() : alone(installSocket, work));
  } finally {
    await lifetime.close();
  }
}

/** As the unit has it, unless flags or variables say other. */
async function wipeConfig(
  { flags, programName }: Pick<WipeOptions, "flags" | "programName">,
  io: WipeIo,
): Promise<Config> {
  const isNamed =
    programName !== "dockershim" ||
    flags.some(({ name }) => name === "config") ||
    io.environment["DOCKERSHIM_CONFIG"] !== undefined;
  const hasFile = await succeeds(io.readFile(configurationPath));
  const file = isNamed || !hasFile ? [] : [{ name: "config", text: configurationPath }];
  const { config } = await resolveConfig(
    [...file, ...flags],
    io.environment,
    (path) => io.readFile(path),
    (path) => io.isSocket(path),
    programName,
  );
  return config;
}

interface Node {
  readonly config: Config;
  readonly engine: Engine;
}

async function wipe({ dryRun, force, claims }: WipeOptions, io: WipeIo, node: Node): Promise<number> {
  const { config, engine } = node;
  const { signal, writeOut } = io;
  const { stateDir } = config;
  const { engineId } = await withDeadline(signal, engineTimeoutMs, "connect to the engine", (own) =>
    engine.connect(own),
  );
  const look = (): Promise<FoundPods> =>
    withDeadline(signal, engineTimeoutMs, "ask the engine for its pods", (own) =>
      findPods(engine, { stateDir, engineId }, own),
    );
  const found = await look();
  const systemd = await findSystemd("/");
  const units = await activeUnits(systemd);
  const filesToWipe: FilesToWipe = {
    stateDirectories: [stateDir, usualStateDirectory],
    playIn: usualStateDirectory,
    sockets: socketsOf(config),
    directories: [ownDirectory, join(config.cniCacheDir, "dockershim-running")],
    keepClaims: !claims,
    removeTree: (path) => removeMountedTree(path, hostFileCalls),
  };
  const files = await fileSteps(filesToWipe);
  const iptables = new HostIptables({ mode: config.iptablesMode, log: silentLogger() });
  const network = await networkSteps({ run: runCommand, iptables, cniConfDir: config.cniConfDir }, signal);
  const stop = await stopSteps(systemd, units);
  const lines = [
    ...stop.map(({ text }) => text),
    ...[...found.pods, ...found.orphans].map(({ text }) => text),
    ...(await presentImages(engine, config, signal)).map((reference) => `remove  image ${reference}`),
    ...[...network, ...files.steps].map(({ text }) => text),
    ...[...files.kept, ...keptOfOthers(found)],
  ];
  writeOut(`Wipe this node:\n${lines.map((line) => `  ${line}\n`).join("")}`);
  const { running } = found;
  if (dryRun) {
    writeOut(
      running === 0
        ? "Nothing is changed (--dry-run).\n"
        : `Nothing is changed (--dry-run). ${running} pods run: it needs --force.\n`,
    );
    return 0;
  }
  if (running > 0 && !force)
    throw new ShimError(
      "precondition",
      `wipe the node: ${running} pods run; drain the node first, or use --force (nothing is changed)`,
    );
  await refuseOthers(filesToWipe.stateDirectories, units);
  const failures: string[] = [];
  const attempt = async ({ text, run }: Step): Promise<void> => {
    signal.throwIfAborted();
    await run().catch((error: unknown) => {
      failures.push(`${text}: ${messageOf(error)}`);
    });
  };
  for (const step of stop) await step.run();
  const again =
    units.length === 0 ? "" : ` The units are stopped; to start again: systemctl start ${units.join(" ")}`;
  // A kubelet can make pods until the server stops.
  const left = await look();
  if (left.running > 0 && !force)
    throw new ShimError(
      "precondition",
      `wipe the node: ${left.running} pods were started meanwhile; stop the kubelet first, or use --force.${again}`,
    );
  if (left.pods.length + left.orphans.length > 0) await removePods(left, io, config, attempt);
  if (failures.length === 0) {
    const images = await imageSteps(engine, config, signal, (line) => {
      writeOut(`  ${line}\n`);
    });
    // The records of pods that are left are needed for the next try.
    // Once more: the server that removed the pods may have made the state directory.
    const present = await fileSteps(filesToWipe);
    for (const step of [...images, ...network, ...present.steps]) await attempt(step);
  }
  for (const failure of failures) writeOut(`not removed: ${failure}\n`);
  if (failures.length > 0) {
    writeOut(`Not all could be removed. Repair it, then: dockershim wipe.${again}\n`);
    return 2;
  }
  writeOut(`Done. It cannot be undone.${again}\n`);
  return 0;
}

async function activeUnits(systemd: Systemd): Promise<readonly string[]> {
  if (systemd.kind !== "running") return [];
  const active: string[] = [];
  for (const unit of unitNames) {
    const isActive = await succeeds(systemd.run("is-active", "--quiet", unit));
    if (isActive) active.push(unit);
  }
  return active;
}

/** The plays first: their supervisors end while the server still serves, and leave the pods. */
async function stopSteps(systemd: Systemd, units: readonly string[]): Promise<readonly Step[]> {
  const directory = join(usualStateDirectory, "play", "plays.d");
  const plays: string[] = [];
  for (const server of await namesIn(directory)) {
    const names = (await namesIn(join(directory, server))).filter((name) =>
      /^play-[0-9a-f-]{36}\.json$/.test(name),
    );
    plays.push(...names.map((name) => join(directory, server, name)));
  }
  const steps: Step[] = plays.map((path) => ({
    text: `remove  ${path}`,
    run: () => rm(path, { force: true }),
  }));
  if (systemd.kind !== "running") return steps;
  for (const names of [...(plays.length === 0 ? [] : [["dockershim-play@*.service"]]), units]) {
    if (names.length > 0)
      steps.push({
        text: `run     systemctl stop ${names.join(" ")}`,
        run: () => systemd.run("stop", ...names),
      });
  }
  return steps;
}

/** Throws `conflict` for a server that no unit of this program runs: it would go on making pods. */
export async function refuseOthers(
  stateDirectories: readonly string[],
  units: readonly string[],
): Promise<void> {
  const refuse = (program: string): ShimError =>
    new ShimError(
      "conflict",
      `wipe the node: ${program} serves pods of this engine; stop it first (nothing is changed)`,
    );
  const criDockerd = await servingProgram(criDockerdCheckpoints);
  if (criDockerd !== undefined) throw refuse(criDockerd);
  if (units.length > 0) return;
  for (const directory of stateDirectories)
    if (await isStateDirectoryClaimed(directory)) throw refuse(`another dockershim, on "${directory}",`);
}

function socketsOf({ containerRuntimeEndpoint: endpoint, cadvisorSocket }: Config): readonly string[] {
  return [endpoint, cadvisorSocket].flatMap((one) =>
    one?.kind !== "unix" || dirname(one.path) === ownDirectory ? [] : [one.path],
  );
}

function keptOfOthers({ others }: FoundPods): readonly string[] {
  return [
    ...(others.length === 0
      ? []
      : [
          `keep    ${others.length} containers of other programs: ${others.slice(0, 5).join(", ")}${others.length > 5 ? ", …" : ""}`,
        ]),
    "keep    images of pods (docker image prune --all), /var/lib/docker, /var/lib/kubelet, /var/lib/cni, chains of CNI plugins",
  ];
}

type WipedEngine = Pick<
  Engine,
  "listContainers" | "removeContainer" | "listVolumes" | "removeVolume" | "inspectImage" | "removeImage"
>;

/** Of the first screen of `npm start`. */
const demoImage = "dockershim.local/busybox:1";

function ownImages({ pauseImage }: Pick<Config, "pauseImage">): readonly string[] {
  return [...new Set([builtinPauseReference, demoImage, playFilesReference, pauseImage])];
}

/** The images of this program, and what is left of its image volumes. */
async function presentImages(
  engine: Pick<Engine, "inspectImage">,
  config: Pick<Config, "pauseImage">,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const present: string[] = [];
  for (const reference of ownImages(config))
    if ((await engine.inspectImage(reference, signal)) !== undefined) present.push(reference);
  return present;
}

/**
 * What is left of image volumes and of reading images, then the images. One that a container of another program has is kept,
 * and named.
 */
export async function imageSteps(
  engine: WipedEngine,
  config: Pick<Config, "stateDir" | "pauseImage">,
  signal: AbortSignal,
  report: (line: string) => void,
): Promise<readonly Step[]> {
  const owner = stateDirectoryId(config.stateDir);
  const label = { key: imageVolumeLabel, value: owner };
  const filter = { labelKey: label.key, labelValue: label.value };
  const pins = await engine.listContainers(filter, signal);
  const scratch = await scratchContainersOf(owner, engine, signal);
  const volumes = await engine.listVolumes(label, signal);
  const images = await presentImages(engine, config, signal);
  return [
    ...[...pins, ...scratch].map(({ id }) => ({
      text: `remove  container ${id}`,
      run: () => engine.removeContainer(id, { force: true }, signal),
    })),
    ...volumes.map((name) => ({
      text: `remove  volume ${name}`,
      run: () => engine.removeVolume(name, signal),
    })),
    ...images.map((reference) => ({
      text: `remove  image ${reference}`,
      run: async () => {
        await engine.removeImage(reference, signal).catch((error: unknown) => {
          report(`keep    image ${reference}: ${messageOf(error)}`);
        });
      },
    })),
  ];
}
