import type { Call } from "../lib/call.js";
import { isKind, messageOf } from "../lib/errors.js";
import type { Snapshot } from "../domain/snapshot.js";
import { needsCgroup } from "../plan/cgroups.js";
import type { CgroupSettings } from "../ports/host.js";
import type { HostAccess } from "../ports/host.js";
import type { StateSync } from "../state/state-sync.js";

/**
 * Writes limits that Docker cannot express into the cgroup of a running container. A container that has ended in the
 * meantime needs none, and where no cgroup is in reach those that kubelets send for every container are done without.
 */
export async function applyCgroupLimits(
  container: Snapshot,
  settings: CgroupSettings,
  { host, sync }: { readonly host: () => HostAccess; readonly sync: Pick<StateSync, "refresh"> },
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
