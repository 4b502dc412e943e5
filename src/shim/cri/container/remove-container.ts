import type { Call } from "../../lib/call.js";
import { aggregate } from "../../lib/errors.js";
import type { Answer, RemoveContainerRequest, RemoveContainerResponse } from "../../domain/cri.js";
import { findContainer } from "../find-by-id.js";
import type { Services } from "../services.js";

/** Removes a container, running or not; succeeds when there is none. */
export async function removeContainer(
  request: RemoveContainerRequest,
  services: Services,
  call: Call,
): Promise<Answer<RemoveContainerResponse>> {
  await services.state.link.live(call.signal);
  const container = await findContainer(request.container_id, services, call.signal);
  if (container !== undefined) await removeContainerById(container.id, services, call);
  return {};
}

/**
 *     remove the container → forget its record, refresh → stop writing its log, or unlink it → wait for its image volumes
 *
 * The log goes last, so that a failed removal keeps it reachable, and a link that cannot be removed leaves nothing else
 * behind. Files stay: they are the kubelet's. After the answer none is made any more.
 */
export async function removeContainerById(
  id: string,
  services: Services,
  call: Call,
  options: { readonly force: boolean } = { force: true },
): Promise<void> {
  const { engine, logs } = services;
  const { sync } = services.state;
  const { containers: containerRecords } = services.records;
  const { containers: containerLocks } = services.locks;
  const { host } = services.node;
  const { volumes: imageVolumes } = services.images;
  await containerLocks.run(id, call.signal, async () => {
    const container = await findContainer(id, services, call.signal);
    if (container === undefined) return;
    await engine.removeContainer(id, options, call.signal);
    // Not ended by the caller: what is released hangs on the read model's hearing of it.
    const forgotten = await Promise.allSettled([containerRecords.remove(id), sync.refresh(id)]);
    const { logPath } = container;
    await logs.remove(id);
    const unlinked = await Promise.allSettled(logPath === "" ? [] : [host().unlinkLog(logPath, id)]);
    await imageVolumes.released(call.signal);
    const failed = aggregate(
      [...forgotten, ...unlinked].flatMap((one) =>
        one.status === "rejected" ? [one.reason as unknown] : [],
      ),
    );
    if (failed !== undefined) throw failed;
  });
}
