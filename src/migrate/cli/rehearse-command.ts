/** `dockershim migrate rehearse RECORDING`: see src/migrate/rehearse/rehearse.ts. */
import { spawn } from "node:child_process";
import { lstat, mkdir, mkdtemp, readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connectToServer } from "../../client/cri-connection.js";
import { openRecording } from "../../compare/record/recording.js";
import type { LegacyProgram } from "../rehearse/legacy-bodies.js";
import type { NetworkPluginName } from "../rehearse/network-plugins.js";
import { PodNetworks, rehearsalPodCidr } from "../rehearse/pod-networks.js";
import { readRecordedPods } from "../rehearse/recorded-pods.js";
import { rehearse, type RunningServer } from "../rehearse/rehearse.js";
import { directoriesOfMade, directoryPrefix, removeDirectory, removeMade } from "../rehearse/scratch-pods.js";
import { verdictPage } from "../rehearse/verdict.js";
import { createEngine, engineEndpoint } from "../../shim/app/open-engine.js";
import { options as table } from "../../shim/config/options.js";
import { resolveConfig } from "../../shim/config/resolve.js";
import { ShimError } from "../../lib/errors.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import { bindUnixSocket, isServed } from "../../lib/unix-socket.js";
import { builtinPauseReference } from "../../shim/pause/pause-image.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import { criDockerdCheckpoints } from "../../shim/state/state-directory.js";
import type { ProcessIo } from "../../cli/process-io.js";
import {
  isOverNetwork,
  type NamespacesIo,
  networkInside,
  networkListDirectory,
  prepareInside,
  type RehearseOptions,
  runInside,
} from "./rehearse-namespaces.js";

type RehearseIo = NamespacesIo & Pick<ProcessIo, "writeOut">;

const startMs = 60_000;
const endMs = 20_000;

/** Exit code 0 without findings, else 2. */
export async function runRehearse(options: RehearseOptions, io: RehearseIo): Promise<number> {
  const { signal } = io;
  const plugin = networkInside(io.environment);
  if (plugin === undefined) return runInside(options, io);
  await prepareInside(plugin, signal);
  const recording = await openRecording(options.recording);
  const recorded = await readRecordedPods(recording.calls, recording.header.server).finally(() => {
    recording.close();
  });
  if (recorded.pods.length === 0)
    throw new ShimError(
      "invalid",
      `rehearse ${JSON.stringify(options.recording)}: no pod that was made during it runs at its end; record again while pods are made`,
    );
  const lifetime = new Lifetime(silentLogger());
  try {
    const text = options.dockerEndpoint ?? "unix:///var/run/docker.sock";
    const flags = [{ name: table.dockerEndpoint.name, text }];
    const { config } = await resolveConfig(flags, {}, () => Promise.reject(new Error("no file is named")));
    const engine = createEngine(
      await engineEndpoint(config, io.environment),
      config,
      silentLogger(),
      lifetime,
    );
    const facts = await engine.connect(signal);
    await removeEarlier(engine, signal);
    const hadImage = (await engine.inspectImage(builtinPauseReference, signal)) !== undefined;
    const directory = await mkdtemp(join(tmpdir(), directoryPrefix));
    const claim = createServer((socket) => socket.destroy());
    try {
      await bindUnixSocket(claim, join(directory, "rehearsal.sock"));
      const program = options.as ?? (recorded.server === "cri-dockerd" ? "cri-dockerd" : "dockershim");
      const network = await networkOf(options, plugin, directory, signal);
      const own = programWords(io.self, directory, text, network.ownFlags);
      const other = options.criDockerd === undefined ? undefined : criDockerdWords(options.criDockerd);
      const verdict = await rehearse(
        {
          recording: options.recording,
          recorded,
          engine,
          node: {
            program,
            cgroupDriver: facts.cgroupDriver,
            pauseImage: builtinPauseReference,
            networkMode: plugin === "no-op" ? "default" : "none",
          },
          directory,
          checkpoints:
            program === "cri-dockerd" ? criDockerdCheckpoints : join(directory, "state", "sandbox"),
          criDockerdCheckpoints,
          networks: await network.open(program),
          notes: network.notes,
          anyway: options.anyway,
          startProgram: (limit) => startServer(own, directory, "cri.sock", limit),
          ...(other === undefined
            ? {}
            : {
                startOther: (limit: AbortSignal) =>
                  startServer(other(directory, text, network.otherFlags), directory, "other.sock", limit),
              }),
        },
        signal,
      );
      io.writeOut(
        options.format === "json" ? `${JSON.stringify(verdict, undefined, 2)}\n` : verdictPage(verdict),
      );
      return verdict.findings.length === 0 ? 0 : 2;
    } finally {
      claim.close();
      await removeDirectory(directory);
      // Kept where another container uses it by now.
      if (!hadImage)
        await engine.removeImage(builtinPauseReference, AbortSignal.timeout(endMs)).catch(() => "kept");
    }
  } finally {
    await lifetime.close();
  }
}

interface Network {
  readonly ownFlags: readonly string[];
  /** Flags of cri-dockerd. */
  readonly otherFlags: readonly string[];
  readonly notes: readonly string[];
  open(program: LegacyProgram): Promise<PodNetworks | undefined>;
}

async function networkOf(
  options: RehearseOptions,
  plugin: NetworkPluginName,
  directory: string,
  signal: AbortSignal,
): Promise<Network> {
  const { cniBinDirs: binDirs, networkPlugin } = options;
  if (plugin === "no-op") {
    const why = isOverNetwork(options)
      ? "the engine is reached over TCP"
      : `its plugins are not in ${binDirs.join(" or ")}`;
    return {
      ownFlags: ["--network-plugin=no-op"],
      otherFlags: ["--network-plugin="],
      notes: networkPlugin === "auto" ? [`CNI was not rehearsed: ${why}.`] : [],
      open: () => Promise.resolve(undefined),
    };
  }
  const confDir = plugin === "cni" ? await networkListDirectory(options, directory, signal) : "";
  const ofPlugin = plugin === "cni" ? `--cni-conf-dir=${confDir}` : `--pod-cidr=${rehearsalPodCidr}`;
  const flags = [`--network-plugin=${plugin}`, `--cni-bin-dir=${binDirs.join(",")}`, ofPlugin];
  const given = options.cniConfDir === undefined ? "an example of a CNI configuration" : confDir;
  return {
    ownFlags: flags,
    otherFlags: flags,
    notes: plugin === "cni" ? [`The network is that of ${given}, not the one of the node.`] : [],
    open: (program) => PodNetworks.open({ plugin, program, confDir, binDirs }),
  };
}

function programWords(
  self: readonly string[],
  directory: string,
  dockerEndpoint: string,
  network: readonly string[],
): readonly string[] {
  return [
    ...self,
    "serve",
    ...network,
    `--state-dir=${join(directory, "state")}`,
    `--container-runtime-endpoint=unix://${join(directory, "cri.sock")}`,
    "--cadvisor-socket=",
    `--docker-endpoint=${dockerEndpoint}`,
    `--pod-infra-container-image=${builtinPauseReference}`,
  ];
}

function criDockerdWords(path: string) {
  return (directory: string, dockerEndpoint: string, network: readonly string[]): readonly string[] => [
    path,
    ...network,
    "--streaming-bind-addr=127.0.0.1:0",
    `--cri-dockerd-root-directory=${dirname(criDockerdCheckpoints)}`,
    `--container-runtime-endpoint=unix://${join(directory, "other.sock")}`,
    `--docker-endpoint=${dockerEndpoint}`,
    `--pod-infra-container-image=${builtinPauseReference}`,
  ];
}

/** Returns when it answers; throws with the end of its output when it ends instead. */
async function startServer(
  [program = "", ...words]: readonly string[],
  directory: string,
  socket: string,
  signal: AbortSignal,
): Promise<RunningServer> {
  await mkdir(join(directory, "state"), { recursive: true, mode: 0o700 });
  const child = spawn(program, words, { stdio: ["ignore", "ignore", "pipe"] });
  let output = "";
  child.stderr.on("data", (data: Buffer) => (output = (output + data.toString()).slice(-4096)));
  let failure: Error | undefined;
  const ended = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      failure = error;
      resolve();
    });
    child.once("close", () => {
      failure ??= new Error(output.trim().split("\n").at(-1) ?? "it ended");
      resolve();
    });
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), endMs);
    await ended;
    clearTimeout(timer);
  };
  const endpoint = `unix://${join(directory, socket)}`;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(startMs)]);
  try {
    for (;;) {
      if (failure !== undefined)
        throw new ShimError("precondition", `start ${JSON.stringify(program)}: ${failure.message}`);
      const cri = await connectToServer(endpoint, limit).catch(() => undefined);
      if (cri !== undefined) {
        cri.close();
        return { endpoint, stop };
      }
      await sleep(100, undefined, { signal: limit });
    }
  } catch (error) {
    await stop();
    throw ShimError.from(error);
  }
}

/** What an earlier rehearsal left that was killed: its servers, containers and directory. */
async function removeEarlier(engine: ContainerCalls, signal: AbortSignal): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(directoryPrefix));
  for (const directory of names.map((name) => join(tmpdir(), name))) {
    const status = await lstat(directory).catch(() => undefined);
    // Every user can make a name in this directory.
    if (status?.isDirectory() !== true || status.uid !== process.getuid?.()) continue;
    await refuseRunning(directory);
    await endServersOf(directory);
    await removeMade(engine, directory, signal);
    await removeDirectory(directory);
  }
  // Those whose directory is gone, or in another directory for temporary files.
  for (const directory of await directoriesOfMade(engine, signal)) {
    await refuseRunning(directory);
    await removeMade(engine, directory, signal);
  }
}

async function refuseRunning(directory: string): Promise<void> {
  if (!(await isServed(join(directory, "rehearsal.sock")))) return;
  throw new ShimError("conflict", `another rehearsal runs in ${JSON.stringify(directory)}; wait for its end`);
}

async function endServersOf(directory: string): Promise<void> {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    const isOurs = ["cri.sock", "other.sock"].some((socket) =>
      words.includes(`--container-runtime-endpoint=unix://${join(directory, socket)}`),
    );
    if (isOurs) process.kill(Number(pid), "SIGKILL");
  }
}
