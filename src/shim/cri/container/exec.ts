import { runInCall, type Call } from "../../../lib/call.js";
import { execEnvironment } from "../../plan/fields-in-flight.js";
import type { ExecOptions } from "../../ports/engine.js";
import type { CommandStreams } from "../../ports/streaming.js";
import { runExec } from "./exec-process.js";
import { requireRunningContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";
import { carryStreams } from "./session-streams.js";
import { followTerminalSize } from "./terminal-size.js";

/** Offers a session that runs a command. The command starts when a client opens the session. */
export const exec: Handler<"Exec"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireRunningContainer(request.container_id, services, call.signal);
  const { cmd: command, tty, stdin, stdout, stderr } = request;
  const options: ExecOptions = { command, ...execEnvironment(request), tty, stdin, stdout, stderr };
  const url = services.streaming.server.offer({
    kind: "exec",
    containerId: id,
    tty,
    stdin,
    stdout,
    stderr,
    run: (streams, signal) => {
      const session = { ...call, signal };
      return runInCall(session, () => runExecSession(id, options, services, session, streams));
    },
  });
  return { url };
};

/** Returns the exit code. Ends, like `docker exec`, when the engine ends the output. */
async function runExecSession(
  containerId: string,
  options: ExecOptions,
  services: Services,
  session: Call,
  client: CommandStreams,
): Promise<number> {
  const { engine } = services;
  const { log, signal } = session;
  const ended = new AbortController();
  const { exitCode } = await runExec(containerId, options, services, session, async ({ execId, streams }) => {
    try {
      const apply = (size: { readonly columns: number; readonly rows: number }, until: AbortSignal) =>
        engine.resizeExec(execId, size, until);
      if (options.tty) void followTerminalSize({ sizes: client.resizes, apply, log }, ended.signal);
      await carryStreams(streams, client, { merged: options.tty }, signal);
    } finally {
      ended.abort();
    }
  });
  log.debug({ containerId, exitCode }, "exec ended");
  return exitCode;
}
