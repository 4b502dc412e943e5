import { dirname } from "node:path";
import { ShimError } from "../../../lib/errors.js";
import { ContainerState } from "../../../domain/cri.js";
import { isMadeHere } from "../../../domain/labels.js";
import { requireReadContainer } from "../find-by-id.js";
import type { Handler } from "../services.js";

/**
 * Continues the log in a new file at the log path, after the kubelet has renamed the present one. For a
 * container that has ended this is an error, as with containerd: the new file would stay empty. The first
 * request for a container of dockershim or cri-dockerd makes its log a file, with `--adopted-logs=convert`.
 */
export const reopenContainerLog: Handler<"ReopenContainerLog"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  // Locked against a removal, after which the new file would stay.
  await services.locks.containers.run(id, call.signal, async () => {
    const { state, logPath } = services.state.model.requireContainer(id);
    const fields = { containerId: id };
    if (logPath === "") throw new ShimError("precondition", `container "${id}" has no log`, fields);
    if (state !== ContainerState.CONTAINER_RUNNING)
      throw new ShimError("precondition", `container "${id}" is not running`, fields);
    const snapshot = services.state.model.snapshot(id);
    // A container with the labels of this program but without a record belongs to another state directory.
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
};
