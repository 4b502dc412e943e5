/** How an exec or attach ended, as clients expect it on the error stream: a metav1.Status of Kubernetes. */
import { messageOf } from "../lib/errors.js";
import type { CommandSession } from "../ports/streaming.js";

/** The fields of metav1.Status that are used, in the order in which Go writes them. */
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

/** `json` since v4; the versions before say nothing on success and the message alone otherwise. */
export type StatusForm = "json" | "text";

/** What goes to the error stream; may be empty. */
export function formatStatus(status: CommandStatus, form: StatusForm): string {
  return form === "json" ? JSON.stringify(status) : (status.message ?? "");
}
