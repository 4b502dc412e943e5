import { dirname } from "node:path";
import type { Call } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import {
  type Answer,
  type ReopenContainerLogRequest,
  type ReopenContainerLogResponse,
  ContainerState,
} from "../../domain/cri.js";
import { isMadeHere } from "../../domain/labels.js";
import { requireReadContainer } from "../find-by-id.js";
import type { Services } from "../services.js";

/**
 * Goes on in a new file at the log path, after the kubelet has renamed the present one. A container that has
 * ended writes no more: its file would stay empty, so that is an error, as with containerd. The first such
 * request for a container of dockershim or cri-dockerd makes its log a file, if that is wanted.
 */
export async function reopenContainerLog(
  request: ReopenContainerLogRequest,
  services: Services,
  call: Call,
): Promise<Answer<ReopenContainerLogResponse>> {
  await services.state.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  // Not beside a removal: a file that it makes would be left behind.
  await services.locks.containers.run(id, call.signal, async () => {
    const { state, logPath } = services.state.model.requireContainer(id);
    const fields = { containerId: id };
    if (logPath === "") throw new ShimError("precondition", `container "${id}" has no log`, fields);
    if (state !== ContainerState.CONTAINER_RUNNING) {
      throw new ShimError("precondition", `container "${id}" is not running`, fields);
    }
    const snapshot = services.state.model.snapshot(id);
    // Of one that this program made nothing is known when another state directory has it: that one keeps its
    // log.
    const isLegacy = services.logs.ownerOf(id) === undefined && !isMadeHere(snapshot?.labels ?? {});
    try {
      if (isLegacy && snapshot !== undefined) {
        await services.logs.convert(snapshot, { directory: dirname(logPath), path: logPath });
      } else {
        await services.logs.reopen(id);
      }
    } catch (error) {
      throw ShimError.from(error).within(`reopen the log of container "${id}"`, fields);
    }
  });
  return {};
}
