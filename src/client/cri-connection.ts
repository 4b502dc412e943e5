/**
 * A client of any CRI server on a unix socket. It knows every RPC by its name.
 *
 * Every method of v1alpha2 is one of v1, too, and its messages are the same bytes. So requests and answers
 * have the types of v1 (`domain/cri.ts`) for both versions.
 */
import { statSync } from "node:fs";
import { Client, type ClientUnaryCall, credentials, status, type ServiceError } from "@grpc/grpc-js";
import { criMethods } from "./cri-messages.js";
import { formatDuration, linkAbort } from "../lib/abort.js";
import { type ErrorKind, isKind, ShimError } from "../lib/errors.js";
import type { Answer, CriRpcs } from "../domain/cri.js";

export type CriVersion = "v1" | "v1alpha2";
export type UnaryRpc = {
  [Name in keyof CriRpcs]: CriRpcs[Name]["stream"] extends false ? Name : never;
}[keyof CriRpcs];

export type StreamRpc = Exclude<keyof CriRpcs, UnaryRpc>;

export interface CallOptions {
  readonly signal: AbortSignal;
  /** The kubelet's two minutes unless given; `Infinity` for none. */
  readonly timeoutMs?: number;
}

export interface CriConnection {
  /** Path of the socket. */
  readonly socket: string;
  readonly version: CriVersion;
  /**
   * Rejects with a ShimError. Its `cause` is the ServiceError of grpc-js when the server answered with an
   * error.
   */
  call<Name extends UnaryRpc>(
    name: Name,
    request: Answer<CriRpcs[Name]["request"]>,
    options: CallOptions,
  ): Promise<CriRpcs[Name]["response"]>;
  /** The answers of a streaming RPC, which has no deadline. Ends with `signal`; rejects as `call` does. */
  stream<Name extends StreamRpc>(
    name: Name,
    request: Answer<CriRpcs[Name]["request"]>,
    signal: AbortSignal,
  ): AsyncIterable<CriRpcs[Name]["response"]>;
  /** Cancels calls that are running. */
  close(): void;
}

const defaultTimeoutMs = 120_000;
const largestMessageBytes = 16 * 1024 * 1024;

/**
 * Nothing is sent before the first call. `endpoint`: `unix:///path` or an absolute path. Throws `invalid` for
 * another endpoint.
 */
export function connectCri(endpoint: string, version: CriVersion = "v1"): CriConnection {
  const socket = socketPath(endpoint);
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": largestMessageBytes,
    "grpc.max_send_message_length": largestMessageBytes,
    "grpc.default_authority": "localhost",
    // A second connection to the same socket is one of its own.
    "grpc.use_local_subchannel_pool": 1,
  });
  const methods = criMethods();
  const calls = new Set<ClientUnaryCall>();
  return {
    socket,
    version,
    close: () => {
      for (const call of calls) call.cancel();
      client.close();
    },
    call: <Name extends UnaryRpc>(
      name: Name,
      request: Answer<CriRpcs[Name]["request"]>,
      { signal, timeoutMs = defaultTimeoutMs }: CallOptions,
    ): Promise<CriRpcs[Name]["response"]> =>
      new Promise((resolve, reject) => {
        const method = methods.get(name);
        if (method === undefined) throw new ShimError("internal", `no RPC named "${name}"`);
        if (signal.aborted) {
          reject(ShimError.from(signal.reason));
          return;
        }
        const running = client.makeUnaryRequest(
          method.path.replace("/runtime.v1.", `/runtime.${version}.`),
          method.requestSerialize,
          method.responseDeserialize,
          request,
          { deadline: Date.now() + timeoutMs },
          (error, answer) => {
            link[Symbol.dispose]();
            calls.delete(running);
            if (error === null && answer !== undefined) {
              // This method's deserializer made the answer.
              resolve(answer);
              return;
            }
            reject(signal.aborted ? ShimError.from(signal.reason) : toShimError(error, name, socket));
          },
        );
        calls.add(running);
        const link = linkAbort(signal, () => {
          running.cancel();
        });
      }),
    stream: async function* <Name extends StreamRpc>(
      name: Name,
      request: Answer<CriRpcs[Name]["request"]>,
      signal: AbortSignal,
    ): AsyncGenerator<CriRpcs[Name]["response"]> {
      const method = methods.get(name);
      if (method === undefined) throw new ShimError("internal", `no RPC named "${name}"`);
      signal.throwIfAborted();
      const running = client.makeServerStreamRequest(
        method.path.replace("/runtime.v1.", `/runtime.${version}.`),
        method.requestSerialize,
        method.responseDeserialize,
        request,
      );
      using _ = linkAbort(signal, () => {
        running.cancel();
      });
      try {
        // This method's deserializer makes the answers.
        yield* running as AsyncIterable<CriRpcs[Name]["response"]>;
      } catch (error) {
        throw signal.aborted
          ? ShimError.from(signal.reason)
          : toShimError(error as ServiceError, name, socket);
      } finally {
        running.cancel();
      }
    },
  };
}

/**
 * A connection in the version that the server has: v1, else v1alpha2 (dockershim in the tree, kubelets until
 * 1.22). Throws `unavailable`, naming the socket and the next step, when nobody serves it. `timeoutMs` is for
 * each version.
 */
export async function connectToServer(
  endpoint: string,
  signal: AbortSignal,
  { timeoutMs = 10_000 }: { readonly timeoutMs?: number } = {},
): Promise<CriConnection> {
  for (const version of ["v1", "v1alpha2"] as const) {
    const connection = connectCri(endpoint, version);
    try {
      await connection.call("Version", { version }, { signal, timeoutMs });
      return connection;
    } catch (error) {
      connection.close();
      if (version === "v1" && isKind(error, "unsupported")) continue;
      throw isKind(error, "invalid", "cancelled") ? error : notServed(endpoint, error, timeoutMs);
    }
  }
  throw new ShimError("internal", "no version left");
}

/** The error for `error`, after which nothing more is asked: names the socket and the next step. */
export function notServed(endpoint: string, error: unknown, limitMs: number): ShimError {
  const known = ShimError.from(error);
  const reason = known.kind === "timeout" ? `no answer within ${formatDuration(limitMs)}` : known.message;
  // That nobody serves it names the socket already.
  const message = reason.startsWith("connect to ") ? reason : `ask "${endpoint}": ${reason}`;
  const next =
    known.kind === "denied"
      ? "run as root"
      : "name the socket of a CRI server that runs (crictl -r SOCKET version tells)";
  return new ShimError("unavailable", `${message}; ${next}`, {}, { cause: error });
}

/** The socket of `unix:///run/x.sock` or `/run/x.sock`. */
export function socketPath(endpoint: string): string {
  const path = endpoint.startsWith("unix://") ? endpoint.slice("unix://".length) : endpoint;
  if (path.startsWith("/")) return path;
  throw new ShimError("invalid", `use endpoint "${endpoint}": must be unix:///ABSOLUTE/PATH`);
}

/** The code and message that a server answered with; undefined for an error of another origin. */
export function answeredError(
  error: unknown,
): { readonly code: number; readonly message: string } | undefined {
  const cause: unknown = error instanceof ShimError ? error.cause : undefined;
  if (!(cause instanceof Error) || !("code" in cause) || !("details" in cause)) return undefined;
  return { code: Number(cause.code), message: String(cause.details) };
}

/** `NOT_FOUND` for 5. */
export function codeName(code: number): string {
  return status[code] ?? String(code);
}

const kinds: Partial<Record<status, ErrorKind>> = {
  [status.INVALID_ARGUMENT]: "invalid",
  [status.NOT_FOUND]: "notFound",
  [status.ALREADY_EXISTS]: "conflict",
  [status.FAILED_PRECONDITION]: "precondition",
  [status.UNIMPLEMENTED]: "unsupported",
  [status.UNAVAILABLE]: "unavailable",
  [status.DEADLINE_EXCEEDED]: "timeout",
  [status.CANCELLED]: "cancelled",
  [status.RESOURCE_EXHAUSTED]: "exhausted",
  [status.PERMISSION_DENIED]: "denied",
  [status.INTERNAL]: "internal",
};

/** Of a socket in a directory that cannot be searched: root, as of any server of the CRI. */
function ownerOf(socket: string): string {
  let uid = 0;
  try {
    ({ uid } = statSync(socket));
  } catch {
    // The directory keeps it hidden, too.
  }
  return uid === 0 ? "root" : `user ${uid}`;
}

function toShimError(error: ServiceError | null, rpc: string, socket: string): ShimError {
  if (error === null) return new ShimError("unknown", `${rpc}: no answer`);
  if (
    error.code === status.UNAVAILABLE &&
    /\b(ENOENT|ECONNREFUSED|EACCES|No connection established)\b/.test(error.details)
  ) {
    const isDenied = /\bEACCES\b/.test(error.details);
    return isDenied
      ? new ShimError(
          "denied",
          `connect to "${socket}": permission denied: the socket belongs to ${ownerOf(socket)}`,
        )
      : new ShimError("unavailable", `connect to "${socket}": no CRI server answers there`);
  }
  return new ShimError(kinds[error.code] ?? "unknown", `${rpc}: ${error.details}`, {}, { cause: error });
}
