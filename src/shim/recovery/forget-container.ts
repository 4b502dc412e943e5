import { messageOf } from "../lib/errors.js";
import type { ContainerRecords } from "../state/container-records.js";
import type { ReadModel } from "../state/read-model.js";
import type { HostAccess } from "../ports/host.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { Logger } from "../lib/log.js";

interface Deps {
  readonly containerRecords: ContainerRecords;
  readonly model: ReadModel;
  readonly host: () => HostAccess;
  readonly logs: ContainerLogs;
  readonly log: Logger;
}

/**
 * Ends the log writer of a container that the engine does not have any more, and removes its log link and its
 * record. Called before the read model forgets the container. Never throws: failures are logged, and repaired
 * after the next start.
 */
export async function forgetContainer(id: string, deps: Deps): Promise<void> {
  const { containerRecords, model, host, logs, log } = deps;
  const logPath = model.container(id)?.logPath ?? "";
  const isLink = logPath !== "" && !logs.owns(id);
  await logs.remove(id);
  if (isLink) {
    await host()
      .unlinkLog(logPath, id)
      .catch((error: unknown) => {
        log.warn({ containerId: id, err: messageOf(error) }, "cannot remove the log link of a container");
      });
  }
  if (containerRecords.get(id) === undefined) return;
  try {
    await containerRecords.remove(id);
  } catch (error) {
    log.warn({ containerId: id, err: messageOf(error) }, "cannot remove the record of a container");
  }
}
