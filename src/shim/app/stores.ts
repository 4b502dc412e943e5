/** Everything that is kept on disk. */
import { CheckpointDirectory } from "../../../checkpoints/directory-store.js";
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import { LogRecords } from "../logs/log-record.js";
import type { CheckpointStore } from "../ports/checkpoint-store.js";
import { ContainerRecords } from "../state/container-records.js";
import { PodRecords } from "../state/pod-records.js";
import { claimStateDirectory, openStateDirectory } from "../state/state-directory.js";

export interface Stores {
  readonly podRecords: PodRecords;
  readonly containerRecords: ContainerRecords;
  readonly checkpoints: CheckpointStore;
  /** How many could not be understood so far. */
  readonly corruptCheckpoints: () => number;
  readonly logRecords: LogRecords;
}

/** Where cri-dockerd keeps its checkpoints: pods that it made are released with them. */
export const criDockerdCheckpoints = "/var/lib/cri-dockerd/sandbox";

/** Opens the state directory for this process alone; `conflict` when another instance has it. */
export async function openStores(root: string, log: Logger, lifetime: Lifetime): Promise<Stores> {
  const { checkpoints: directory, pods, containers, logs, quarantine } = await openStateDirectory(root);
  const claim = await claimStateDirectory(root);
  // While something may still write, the claim is kept until the process has ended: no successor starts
  // before that.
  lifetime.onClose("state directory", (abandoned) =>
    abandoned.length === 0 ? claim.release() : Promise.resolve(),
  );
  const quarantineDirectory = quarantine;
  const checkpoints = await CheckpointDirectory.open({
    directory,
    quarantineDirectory,
    alsoRead: [criDockerdCheckpoints],
    log,
  });
  return {
    podRecords: await PodRecords.open(pods, log, { quarantineDirectory }),
    containerRecords: await ContainerRecords.open(containers, log, { quarantineDirectory }),
    logRecords: await LogRecords.open(logs, log, quarantineDirectory),
    checkpoints,
    corruptCheckpoints: () => checkpoints.corruptCount,
  };
}
