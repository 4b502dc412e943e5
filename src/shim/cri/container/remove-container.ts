import type { Call } from "../../../lib/call.js";
import { aggregate } from "../../../lib/errors.js";
import { findContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

/** Removes a container, running or not; succeeds when there is none. */
export const removeContainer: Handler<"RemoveContainer"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const container = await findContainer(request.container_id, services, call.signal);
  if (container !== undefined) await removeContainerById(container.id, services, call);
  return {};
};

/**
 *     remove the container → remove its record → end or unlink its log → release its image volumes
 *
 * The log comes after the removal, so that a failed removal keeps it readable, and after the record, so that
 * a failed unlink leaves no record. Log files stay: they belong to the kubelet. No log file is made after
 * this.
 */
export async function removeContainerById(
  id: string,
  services: Services,
  call: Call,
  options: { readonly force: boolean } = { force: true },
): Promise<void> {
  const { logs } = services;
  const { sync } = services.state;
  const { containers: containerRecords } = services.records;
  const { containers: containerLocks } = services.locks;
  const { host } = services.node;
  const { volumes: imageVolumes } = services.images;
  await containerLocks.run(id, call.signal, async () => {
    const container = await findContainer(id, services, call.signal);
    if (container === undefined) return;
    const { logPath } = container;
    // A log that this program writes is no link.
    const isLink = logPath !== "" && !logs.owns(id);
    await sync.remove(id, options, call.signal);
    // The read model's removal has removed the record, too, unless that failed.
    const forgotten = await Promise.allSettled(
      containerRecords.get(id) === undefined ? [] : [containerRecords.remove(id)],
    );
    await logs.remove(id);
    const unlinked = await Promise.allSettled(isLink ? [host().unlinkLog(logPath, id)] : []);
    await imageVolumes.released(call.signal);
    const failed = aggregate(
      [...forgotten, ...unlinked].flatMap((one) =>
        one.status === "rejected" ? [one.reason as unknown] : [],
      ),
    );
    if (failed !== undefined) throw failed;
  });
}
