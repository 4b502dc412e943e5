/** Pod networks that outlived their pods: compared when the engine is live, and by `dockershim doctor network`. */
import type { KnownSandboxes, NetworkCleanUp } from "../ports/network-plugin.js";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { namesIn } from "../../lib/files/directories.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { unlessMissing } from "../../lib/files/file-errors.js";
import type { Logger } from "../../lib/log.js";
import { checkpointsOf } from "../../domain/docker-root.js";
import type { Engine } from "../ports/engine.js";
import { criDockerdCheckpoints } from "../state/state-directory.js";

/**
 * Everything that a network may belong to: asked of the engine after the node was read. Records and
 * checkpoints count by the names of their files, because opening the stores would clean them up.
 */
export async function knownSandboxes(
  stateDir: string,
  engine: Pick<Engine, "listContainers">,
  signal: AbortSignal,
): Promise<KnownSandboxes> {
  const containers = await engine.listContainers({}, signal);
  const records = (await namesIn(join(stateDir, "pods"))).map((name) => name.replace(/\.json$/, ""));
  const checkpoints = [
    ...(await namesIn(checkpointsOf(stateDir))),
    ...(await namesIn(criDockerdCheckpoints)),
  ];
  return {
    livingIds: new Set(containers.map(({ id }) => id)),
    ownIds: new Set([...records, ...checkpoints].filter((name) => !name.startsWith("."))),
  };
}

/**
 * The same, on the engine that the state directory has always been used with; undefined on another one. Which
 * engine it is is asked before and after the list: that of one that came or went in between must not be taken
 * for the first one's.
 */
export async function sandboxesOfKnownEngine(
  stateDir: string,
  engine: Pick<Engine, "connect" | "listContainers">,
  signal: AbortSignal,
): Promise<KnownSandboxes | undefined> {
  const before = await engine.connect(signal);
  if (!(await isKnownEngine(stateDir, before.engineId))) return undefined;
  const known = await knownSandboxes(stateDir, engine, signal);
  const after = await engine.connect(signal);
  return after.engineId === before.engineId ? known : undefined;
}

/**
 * Whether the engine is the one that this state directory has always been used with. On another engine every
 * pod of the first one looks dead, although it may well be alive there. The first engine's id is kept in
 * `engine-id`.
 */
export async function isKnownEngine(stateDir: string, engineId: string): Promise<boolean> {
  const known = await knownEngineId(stateDir);
  if (known !== undefined) return known === engineId;
  const options = { mode: 0o600, temporaryPrefix: ".dockershim-" };
  await writeFileAtomically(engineIdPath(stateDir), `${engineId}\n`, options);
  return true;
}

/** Undefined for a state directory that no engine was used with. */
export async function knownEngineId(stateDir: string): Promise<string | undefined> {
  return (await readFile(engineIdPath(stateDir), "utf8").catch(unlessMissing))?.trim();
}

function engineIdPath(stateDir: string): string {
  return join(stateDir, "engine-id");
}

/**
 * Removes what is certainly ours, and logs what was done and what was left. `precondition` when the engine is
 * not the known one: it may have been exchanged since the caller looked.
 */
export async function removeOrphanedNetworks(
  orphaned: NetworkCleanUp,
  stateDir: string,
  engine: Pick<Engine, "connect" | "listContainers">,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const known = async (): Promise<KnownSandboxes> => {
    const sandboxes = await sandboxesOfKnownEngine(stateDir, engine, signal);
    if (sandboxes !== undefined) return sandboxes;
    throw new ShimError("precondition", "engine has changed, pod networks are not cleaned up");
  };
  const { cleaned, failed, left } = await orphaned.clean(known, signal);
  for (const { what } of cleaned) log.info({ what }, "removed orphaned network resource");
  for (const { finding, reason } of failed)
    log.warn({ what: finding.what, err: reason }, "cannot remove orphaned network resource");
  for (const { what } of left) log.info({ what }, "orphaned network resource of unknown owner, skipped");
  try {
    await orphaned.collectGarbage(known, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ err: messageOf(error) }, "CNI plugins cannot collect garbage");
  }
}
