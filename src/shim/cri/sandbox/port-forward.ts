import type { Duplex } from "node:stream";
import { runInCall } from "../../../lib/call.js";
import { ShimError } from "../../../lib/errors.js";
import { requireRunningSandbox } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

/** Offers connections to ports of the pod's loopback. A connection is made when a client asks for it. */
export const portForward: Handler<"PortForward"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireRunningSandbox(request.pod_sandbox_id, services, call.signal);
  const url = services.streaming.server.offer({
    kind: "portForward",
    sandboxId: id,
    ports: request.port,
    connect: (port, signal) => {
      const session = { ...call, signal };
      return runInCall(session, () => connect(id, port, services, signal));
    },
  });
  return { url };
};

/** Looks the sandbox up again: a pod may end while its connections are forwarded. */
async function connect(
  sandboxId: string,
  port: number,
  services: Services,
  signal: AbortSignal,
): Promise<Duplex> {
  const action = `connect to port ${port} of pod sandbox "${sandboxId}"`;
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new ShimError("invalid", `${action}: must be from 1 to 65535`, { sandboxId });
  try {
    const { snapshot } = await requireRunningSandbox(sandboxId, services, signal);
    return await services.streaming.podDialer().connect(snapshot, port, signal);
  } catch (error) {
    throw ShimError.from(error).within(action, { sandboxId });
  }
}
