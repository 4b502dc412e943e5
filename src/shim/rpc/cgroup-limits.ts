import type { Call } from "../base/call.js";
import { isKind, messageOf } from "../base/errors.js";
import type { Snapshot } from "../domain/snapshot.js";
import { needsCgroup } from "../plan/cgroup-settings.js";
import type { CgroupSettings } from "../ports/host.js";
import type { Services } from "./services.js";

/**
 * Writes limits that Docker cannot express into the cgroup of a running container. A container that has ended in the
 * meantime needs none, and where no cgroup is in reach those that kubelets send for every container are done without.
 */
export async function applyCgroupLimits(
  container: Snapshot,
  settings: CgroupSettings,
  { host, sync }: Pick<Services, "host" | "sync">,
  call: Pick<Call, "signal" | "log">,
): Promise<void> {
  try {
    await host().applyCgroup(container, settings, call.signal);
  } catch (error) {
    if (isKind(error, "unsupported") && !needsCgroup(settings)) {
      call.log.debug({ containerId: container.id, err: messageOf(error) }, "cgroup limits not applied");
      return;
    }
    const now = await sync.refresh(container.id).catch(() => container);
    if (now?.state.running === true) throw error;
  }
}
