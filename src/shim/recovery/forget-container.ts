import { messageOf } from "../../lib/errors.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";
import type { HostSource } from "../ports/host.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { Logger } from "../../lib/log.js";

interface Deps {
  readonly state: Pick<EngineState, "model">;
  readonly records: Pick<Records, "containers">;
  readonly node: HostSource;
  readonly logs: ContainerLogs;
  readonly log: Logger;
}

/**
 * Ends the log writer of a container that the engine does not have any more, and removes its log link and its
 * record. Called before the read model forgets the container. Never throws: failures are logged, and repaired
 * after the next start.
 */
export async function forgetContainer(id: string, deps: Deps): Promise<void> {
  const { state, records, node, logs, log } = deps;
  const logPath = state.model.container(id)?.logPath ?? "";
  const isLink = logPath !== "" && !logs.owns(id);
  await logs.remove(id);
  if (isLink) {
    await node
      .host()
      .unlinkLog(logPath, id)
      .catch((error: unknown) => {
        log.warn({ containerId: id, err: messageOf(error) }, "cannot remove the log link of a container");
      });
  }
  if (records.containers.get(id) === undefined) return;
  try {
    await records.containers.remove(id);
  } catch (error) {
    log.warn({ containerId: id, err: messageOf(error) }, "cannot remove the record of a container");
  }
}
