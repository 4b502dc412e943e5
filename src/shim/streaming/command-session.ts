/** One exec or attach from the first byte to the status, whatever the client speaks. */
import { withDeadline } from "../lib/abort.js";
import { ShimError } from "../lib/errors.js";
import type { CommandSession, CommandStreams } from "../ports/streaming.js";
import type { ClientConnection } from "./client-connection.js";
import {
  exitStatus,
  failureStatus,
  formatStatus,
  type CommandStatus,
  type StatusForm,
} from "./command-status.js";

/** The streams of a command as the client opened them. */
export interface CommandClient {
  readonly connection: ClientConnection;
  readonly statusForm: StatusForm;
  readonly streams: CommandStreams;
  /**
   * Writes `status` to the error stream, and only then ends the others; resolves when the client has been sent all.
   * Rejects when `signal` aborts.
   */
  finish(status: string, signal: AbortSignal): Promise<void>;
}

/** How long a client may take to hear why its session was ended. */
const closeGraceMs = 5_000;

/** Runs the command. The error, if it failed in another way than by its exit code. */
export async function runCommand(
  session: CommandSession,
  client: CommandClient,
  signal: AbortSignal,
): Promise<ShimError | undefined> {
  const { status, failure } = await outcomeOf(session, client.streams, signal);
  const text = formatStatus(status, client.statusForm);
  try {
    // An idle client, and every client when the shim stops, is still there and is told. One that left is not.
    if (!signal.aborted) await client.finish(text, signal);
    else if (!isGone(signal))
      await withDeadline(undefined, closeGraceMs, "end the session", (own) => client.finish(text, own));
  } catch (error) {
    // The client left before it had heard all: of that there is nobody to tell.
    return failure ?? ShimError.from(error, "unavailable");
  }
  return failure;
}

async function outcomeOf(
  session: CommandSession,
  streams: CommandStreams,
  signal: AbortSignal,
): Promise<{ readonly status: CommandStatus; readonly failure?: ShimError }> {
  try {
    return { status: exitStatus(await session.run(streams, signal)) };
  } catch (thrown) {
    const failure = signal.aborted ? ShimError.from(signal.reason) : ShimError.from(thrown);
    return { status: failureStatus(session.kind, failure), failure };
  }
}

function isGone({ reason }: AbortSignal): boolean {
  return reason instanceof ShimError && reason.kind === "cancelled";
}
