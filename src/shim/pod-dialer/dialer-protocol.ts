/** Requests to the pod dialer and its answers, as in native/pod-dialer.c. */
import { getSystemErrorName } from "node:util";
import { formatDuration } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";

const requestBytes = 16;
const withdrawal = 0xffff_ffff;

export interface DialRequest {
  readonly id: number;
  /** File descriptor of a network namespace in this process; open until the request is answered. */
  readonly namespace: number;
  readonly port: number;
  readonly timeoutMs: number;
}

export function encodeRequest({ id, namespace, port, timeoutMs }: DialRequest): Buffer {
  return fields(id, namespace, port, timeoutMs);
}

/** Answered as a failure of step `withdraw`, unless the request was answered before. */
export function encodeWithdrawal(id: number): Buffer {
  return fields(id, withdrawal, 0, 0);
}

// Little endian, as both supported architectures.
function fields(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(requestBytes);
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value, index * 4);
  return bytes;
}

export interface DialFailure {
  readonly step: string;
  readonly errno: number;
}

/** One message of the dialer. */
export interface DialAnswer {
  readonly id: number;
  /** `connection`: it arrived with this message. `sent`: it arrived before, or the kernel has dropped it. */
  readonly outcome: "connection" | "sent" | DialFailure;
}

/** Undefined for an invalid message. `withSocket`: a socket arrived with it. */
export function parseAnswer(message: unknown, withSocket: boolean): DialAnswer | undefined {
  if (typeof message !== "object" || message === null) return undefined;
  const { id, sent, step, errno } = message as Readonly<Record<string, unknown>>;
  if (!isCount(id)) return undefined;
  if (withSocket) return { id, outcome: "connection" };
  if (sent === true) return { id, outcome: "sent" };
  if (typeof step !== "string" || !isCount(errno)) return undefined;
  return { id, outcome: { step, errno } };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff;
}

/** Without CAP_SYS_ADMIN, or with /proc of another PID namespace: the fallback may work. */
const notPermitted = ["EPERM", "EACCES", "ENOENT", "ENOSYS"];

/** The error for an answer without a connection. `timeoutMs` is that of the request. */
export function dialFailure({ step, errno }: DialFailure, timeoutMs: number): ShimError {
  const name = errno === 0 ? "no reason" : systemErrorName(errno);
  if (step === "accept") return new ShimError("exhausted", "too many connections are being made at once");
  if (step === "enter") {
    const kind = notPermitted.includes(name) ? "unsupported" : "unavailable";
    return new ShimError(kind, `enter the network namespace: ${name}`);
  }
  return connectFailure(name, timeoutMs);
}

/** The error of a connect inside the pod. `name` is that of its error number. */
export function connectFailure(name: string, timeoutMs: number): ShimError {
  if (name === "ECONNREFUSED") return new ShimError("unavailable", "connection refused");
  if (name === "ETIMEDOUT") return new ShimError("timeout", `no answer after ${formatDuration(timeoutMs)}`);
  return new ShimError("unavailable", name);
}

export function systemErrorName(errno: number): string {
  try {
    return getSystemErrorName(-errno);
  } catch {
    return `error ${errno}`; // Not an error number.
  }
}
