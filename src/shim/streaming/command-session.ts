/** One exec or attach from the first byte to its status, over any protocol. */
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { CommandSession, CommandStreams } from "../ports/streaming.js";
import type { ClientConnection } from "./client-connection.js";

/** The streams of a command as the client opened them. */
export interface CommandClient {
  readonly connection: ClientConnection;
  readonly statusForm: StatusForm;
  readonly streams: CommandStreams;
  /** `status` first, then the ends; resolves when all was sent, rejects when `signal` aborts. */
  finish(status: string, signal: AbortSignal): Promise<void>;
}

/** How long a client may take to receive the reason for the end of its session. */
const closeGraceMs = 5_000;

/** Runs the command. Returns the error, if it failed other than by its exit code. */
export async function runCommand(
  session: CommandSession,
  client: CommandClient,
  signal: AbortSignal,
): Promise<ShimError | undefined> {
  const { status, failure } = await outcomeOf(session, client.streams, signal);
  const text = formatStatus(status, client.statusForm);
  try {
    // Idle clients, and all clients when the shim stops, are still connected and receive the status.
    if (!signal.aborted) await client.finish(text, signal);
    else if (!hasDisconnected(signal))
      await withDeadline(undefined, closeGraceMs, "end the session", (own) => client.finish(text, own));
  } catch (error) {
    // The client disconnected before it had received all data.
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

function hasDisconnected({ reason }: AbortSignal): boolean {
  return reason instanceof ShimError && reason.kind === "cancelled";
}

/** metav1.Status of Kubernetes, as clients expect it on the error stream, in the order of Go's encoder. */
export interface CommandStatus {
  readonly metadata: Readonly<Record<string, never>>;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: "NonZeroExitCode" | "InternalError";
  readonly details?: { readonly causes: readonly { readonly reason?: string; readonly message: string }[] };
  readonly code?: number;
}

export function exitStatus(exitCode: number): CommandStatus {
  if (exitCode === 0) return { metadata: {}, status: "Success" };
  const code = String(exitCode);
  return {
    metadata: {},
    status: "Failure",
    // dockershim's words: clients of the versions before v4 have nothing else.
    message: `command terminated with non-zero exit code: Error executing in Docker Container: ${code}`,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: code }] },
  };
}

export function failureStatus(kind: CommandSession["kind"], error: unknown): CommandStatus {
  const action = kind === "exec" ? "executing command in" : "attaching to";
  const cause = `error ${action} container: ${messageOf(error)}`;
  return {
    metadata: {},
    status: "Failure",
    message: `Internal error occurred: ${cause}`,
    reason: "InternalError",
    details: { causes: [{ message: cause }] },
    code: 500,
  };
}

/** `json` since v4; `text` before that: empty on success, otherwise the message. */
export type StatusForm = "json" | "text";

/** The content of the error stream; may be empty. */
export function formatStatus(status: CommandStatus, form: StatusForm): string {
  return form === "json" ? JSON.stringify(status) : (status.message ?? "");
}
