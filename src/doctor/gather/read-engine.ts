/** The engine: whether it answers in time, and what it says. */
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { NodeFiles } from "../../migrate/files/node-files.js";
import { listenerOf } from "../../migrate/node/listeners.js";
import type { Config } from "../../shim/config/resolve.js";
import { EngineHost } from "../../shim/host/engine-host.js";
import { readOpenFileLimits } from "../../shim/limits/open-files-notice.js";
import type { Engine } from "../../shim/ports/engine.js";
import type { EngineFacts, EngineState } from "../facts.js";

/** An engine that is well answers within milliseconds. */
const connectMs = 5_000;
const readMs = 30_000;

export interface EngineReading {
  readonly config: Config;
  readonly engine: Engine;
  /** Makes and removes a directory, to prove what is in reach. */
  readonly provesReach: boolean;
  /** The state directory does not answer. */
  readonly hangs: boolean;
  readonly log: Logger;
}

export async function readEngineState({ config, ...reading }: EngineReading): Promise<EngineState> {
  const { dockerEndpoint: endpoint } = config;
  try {
    if (endpoint.kind === "unix" && (await listenerOf(new NodeFiles("/"), endpoint.path)) === "systemd")
      return { state: "asleep" };
    const facts = await withDeadline(undefined, readMs, "ask the engine", (signal) =>
      readFacts({ config, ...reading }, signal),
    );
    return { state: "answers", facts };
  } catch (error) {
    const { kind, message } = ShimError.from(error);
    return { state: "fails", kind, problem: message };
  }
}

async function readFacts(
  { config, engine, provesReach, hangs, log }: EngineReading,
  signal: AbortSignal,
): Promise<EngineFacts> {
  const { stateDir, engineReach: mode, readOnly, pauseImage: image } = config;
  const info = await withDeadline(signal, connectMs, "connect to the engine", (own) => engine.connect(own));
  const hasPauseImage = (await engine.inspectImage(image, signal)) !== undefined;
  // No server has run yet where its directory is missing.
  const isThere = !hangs && (await stat(stateDir).catch(() => undefined))?.isDirectory() === true;
  const directory = isThere ? stateDir : tmpdir();
  const onlyReads = readOnly || !(provesReach || mode === "host");
  const found = await EngineHost.connected(
    info,
    { engine, mode, directory, readOnly: onlyReads, log },
    signal,
  );
  await found.observeAny(signal);
  const openFiles = await readOpenFileLimits(engine, found.host, signal);
  return { info, hasPauseImage, reach: found.reach, openFiles };
}
