/** Where play is for an engine that sees no files of this host: loaded for such an engine alone. */
import { posix } from "node:path";
import type { CriClient } from "../cri/client.js";
import { type HostFiles, nodeFiles } from "../node/files.js";
import { remoteDirectories } from "../pod-config/pod-paths.js";
import { dialStreamsOf } from "../cri/dial.js";
import { EngineFiles } from "../remote-engine/engine-files.js";
import type { ServerReach } from "../remote-engine/reach.js";
import { dialPods } from "../streams/dial-pods.js";
import { createEngine, engineEndpoint } from "../../shim/app/open-engine.js";
import { resolveConfig } from "../../shim/config/resolve.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { formatEndpoint } from "../../shim/engine/http/endpoint.js";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import type { Engine } from "../../shim/ports/engine.js";
import { playFilesImage, playFilesReference } from "../../shim/pause/play-files-image.js";
import { readFile, stat } from "node:fs/promises";
import type { AccessPaths, EngineAccess } from "./engine-access.js";

export interface RemoteAccessInput extends AccessPaths {
  readonly reach: ServerReach;
  /** Whether the server sees this host's files, and only its engine does not. */
  readonly isBeside: boolean;
}

/** Opens the engine, and refuses one that is not the server's. */
export async function openRemoteEngineAccess(
  client: CriClient,
  { endpoint: serverEndpoint, directories, report, reach, isBeside, dockerEndpoint }: RemoteAccessInput,
  signal: AbortSignal,
): Promise<EngineAccess> {
  const lifetime = new Lifetime(silentLogger());
  const ended = new AbortController();
  try {
    const given = dockerEndpoint === undefined ? [] : [{ name: "docker-endpoint", text: dockerEndpoint }];
    const { config } = await resolveConfig(given, process.env, (path) => readFile(path, "utf8"), isSocket);
    const endpoint = await engineEndpoint(config, process.env);
    const engine = createEngine(endpoint, config, silentLogger(), lifetime);
    const facts = await engine.connect(signal);
    if (facts.engineId !== reach.engineId) throw otherEngine(formatEndpoint(endpoint), facts, reach.engineId);
    const volumesPath = posix.join(facts.dockerRootDir, "volumes");
    const files = new EngineFiles({
      ...{ engine, facts, volumesPath, report, endpoint: formatEndpoint(endpoint) },
      image: { reference: playFilesReference, archive: () => playFilesImage(facts.architecture) },
    });
    return {
      // Cgroups of this host are those of other pods.
      files: {
        ...(isBeside ? nodeFiles : withRemoteLogs(files, volumesPath)),
        removeCgroup: () => Promise.resolve(),
      },
      mounted: files,
      directories: {
        ...remoteDirectories(directories, facts.engineId),
        engineVolumes: volumesPath,
        ...(isBeside ? {} : { logs: undefined }),
      },
      dial: dialPods({ client, dial: dialStreamsOf(serverEndpoint), ended: ended.signal }),
      isPortBusy: () => Promise.resolve(false),
      engine: {
        ...{ facts, files, seesNamespaces: isBeside && reach.networkNamespaces, seesLogs: isBeside },
        answers: (limit) => answers(client, engine, limit),
        host: endpoint.kind === "unix" ? "localhost" : endpoint.host,
      },
      [Symbol.asyncDispose]: async () => {
        ended.abort();
        await files[Symbol.asyncDispose]();
        await lifetime.close();
      },
    };
  } catch (error) {
    await lifetime.close();
    if (signal.aborted) throw error;
    const { kind, fields } = ShimError.from(error, "unknown");
    const why =
      "the CRI server or its engine sees no files of this host, and play needs the engine to write them there";
    throw new ShimError(kind, `${why}: ${messageOf(error)}; ${remedy}`, fields, { cause: error });
  }
}

/** The server makes the directories of logs that are missing, and writes the files; here they are only removed. */
function withRemoteLogs(mounted: EngineFiles, volumesPath: string): HostFiles {
  const isThere = (path: string): boolean => path.startsWith(`${volumesPath}/`);
  return {
    ...nodeFiles,
    makeDirectory: (path) => (isThere(path) ? Promise.resolve() : nodeFiles.makeDirectory(path)),
    removeTree: (path) => (isThere(path) ? mounted : nodeFiles).removeTree(path),
    readTail: (path, bytes) => (isThere(path) ? mounted : nodeFiles).readTail(path, bytes),
  };
}

const answerMs = 3_000;

async function answers(
  client: Pick<CriClient, "version">,
  engine: Pick<Engine, "ping">,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await withDeadline(signal, answerMs, "ask the CRI server and its engine", (limit) =>
      Promise.all([client.version(limit), engine.ping({ timeoutMs: answerMs }, limit)]),
    );
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

const remedy =
  "set DOCKER_HOST or DOCKER_CONTEXT, or give play --docker-endpoint, to name the engine of the server";

function otherEngine(endpoint: string, { engineId }: NodeFacts, wanted: string): ShimError {
  const message = `the engine at ${endpoint} has id "${engineId}", that of the CRI server "${wanted}"`;
  return new ShimError("precondition", message);
}

async function isSocket(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isSocket();
  } catch {
    return false;
  }
}
