import { messageOf } from "../base/errors.js";
import type { Services } from "./services.js";

type Deps = Pick<Services, "containerRecords" | "logs" | "log">;

/**
 * Of a container that the engine does not have any more, whoever removed it: its log is not written any longer, and its
 * record goes. Before the read model forgets the container. Never throws: what fails is logged, and repaired after the
 * next start.
 */
export async function forgetContainer(id: string, { containerRecords, logs, log }: Deps): Promise<void> {
  await logs.remove(id);
  if (containerRecords.get(id) === undefined) return;
  try {
    await containerRecords.remove(id);
  } catch (error) {
    log.warn({ containerId: id, err: messageOf(error) }, "cannot remove the record of a container");
  }
}
