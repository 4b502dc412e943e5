/** The files of the state directory. */
import { CheckpointDirectory } from "../../../checkpoints/directory-store.js";
import { Flusher } from "../../lib/files/flusher.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import { LogRecords } from "../logs/log-record.js";
import { ContainerRecords } from "../state/container-records.js";
import { PodRecords } from "../state/pod-records.js";
import type { Records } from "../state/records.js";
import { claimStateDirectory, criDockerdCheckpoints, openStateDirectory } from "../state/state-directory.js";

export interface Stores {
  /** Flushes files in the background, for all stores. */
  readonly flusher: Flusher;
  readonly records: Records;
  /** Count of checkpoints that could not be parsed so far. */
  readonly corruptCheckpoints: () => number;
  readonly logRecords: LogRecords;
  /** The directory for `programPath`. */
  readonly programs: string;
}

export type StoresConfig = Pick<Config, "stateDir" | "programName">;

/**
 * Opens the state directory for this process alone; `conflict` when another instance has it. Checkpoints are
 * also read from `alsoRead`.
 */
export async function openStores(
  { stateDir: root, programName }: StoresConfig,
  log: Logger,
  lifetime: Lifetime,
  alsoRead: readonly string[] = [],
): Promise<Stores> {
  const { pods, containers, logs, ...directories } = await openStateDirectory(root);
  const claim = await claimStateDirectory(root);
  // An abandoned task may still write: then the claim is kept until the process ends.
  lifetime.onClose("state directory", (abandoned) =>
    abandoned.length === 0 ? claim.release() : Promise.resolve(),
  );
  const flusher = new Flusher(log);
  lifetime.onClose("flush of files", () => flusher.close());
  const quarantineDirectory = directories.quarantine;
  const checkpoints = await CheckpointDirectory.open({
    directory: directories.checkpoints,
    quarantineDirectory,
    alsoRead: [...alsoRead, criDockerdCheckpoints],
    // cri-dockerd releases the host ports of these pods when it gets its place back.
    flavour: programName === "cri-dockerd" ? "criDockerd" : "dockershim",
    flusher,
    log,
  });
  return {
    flusher,
    records: {
      pods: await PodRecords.open(pods, log, { quarantineDirectory, flusher }),
      // They mean nothing after a power cut, which ends the containers.
      containers: await ContainerRecords.open(containers, log, { quarantineDirectory }),
      checkpoints,
    },
    programs: directories.programs,
    logRecords: await LogRecords.open(logs, log, quarantineDirectory),
    corruptCheckpoints: () => checkpoints.corruptCount,
  };
}
