import { runInCall, type Call } from "../../../lib/call.js";
import type { AttachRequest } from "../../../domain/cri.js";
import type { CommandStreams } from "../../ports/streaming.js";
import { requireRunningContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";
import { carryStreams } from "./session-streams.js";
import { followTerminalSize } from "./terminal-size.js";

/** Offers a session with the streams of the container's first process. */
export const attach: Handler<"Attach"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireRunningContainer(request.container_id, services, call.signal);
  const { tty, stdin, stdout, stderr } = request;
  const url = services.streaming.server.offer({
    kind: "attach",
    containerId: id,
    tty,
    stdin,
    stdout,
    stderr,
    run: async (streams, signal) => {
      const session = { ...call, signal };
      await runInCall(session, () =>
        runAttachSession({ ...request, container_id: id }, services, session, streams),
      );
      return 0;
    },
  });
  return { url };
};

/**
 * Runs until the container ends or the client leaves. The container's terminal, not the request, decides how
 * the output is framed and whether there are sizes. A client that asks for a terminal in vain gets both
 * output streams as stdout.
 */
async function runAttachSession(
  request: AttachRequest,
  services: Services,
  session: Call,
  client: CommandStreams,
): Promise<void> {
  const { engine } = services;
  const { log, signal } = session;
  // The container may have ended since the offer.
  const { id, snapshot } = await requireRunningContainer(request.container_id, services, signal);
  const { tty } = snapshot;
  const merged = request.tty && !tty;
  const options = { tty, stdin: request.stdin, stdout: request.stdout, stderr: request.stderr || merged };
  const streams = await engine.attachContainer(id, options, signal);
  const ended = new AbortController();
  try {
    const apply = (size: { readonly columns: number; readonly rows: number }, until: AbortSignal) =>
      engine.resizeContainer(id, size, until);
    if (tty) void followTerminalSize({ sizes: client.resizes, apply, log }, ended.signal);
    await carryStreams(streams, client, { merged }, signal);
    signal.throwIfAborted();
  } finally {
    ended.abort();
    streams.close();
  }
  log.debug({ containerId: id }, "attach ended");
}
