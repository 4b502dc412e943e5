/** A CRI server that is asked read-only questions. */
import { ShimError, isKind } from "../shim/lib/errors.js";
import { formatDuration } from "../shim/lib/abort.js";
import {
  answeredError,
  type CriConnection,
  type CriVersion,
  codeName,
  connectToServer,
  type UnaryRpc,
} from "../client/cri-connection.js";
import { textAt } from "./answer-shape.js";
import type { ErrorAnswer } from "./compare-answers.js";
import { serverKind, type ServerKind } from "./server-kind.js";

export interface AskedServer {
  /** Path of the socket. */
  readonly socket: string;
  readonly kind: ServerKind;
  readonly criVersion: CriVersion;
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  /**
   * The response or the error that the server answers with. Throws when the server answers nothing any more,
   * naming the socket and the next step.
   */
  ask(rpc: UnaryRpc, request: object, signal: AbortSignal): Promise<object>;
  close(): void;
}

export interface AskLimits {
  /** Of the first call. */
  readonly connectMs: number;
  /** Of each call. */
  readonly callMs: number;
  /** Of the call that decides whether a server that did not answer still serves. */
  readonly probeMs: number;
}

/** Statistics of dockershim take a second for each container, one after the other. */
const usualLimits: AskLimits = { connectMs: 10_000, callMs: 30_000, probeMs: 5_000 };

/** The codes that tell of a server that may be gone. */
const codesOfLostServers = ["UNAVAILABLE", "DEADLINE_EXCEEDED"];

/** Throws `unavailable`, naming the socket and the next step, when no CRI server answers there. */
export async function connectAsked(
  endpoint: string,
  signal: AbortSignal,
  limits: AskLimits = usualLimits,
): Promise<AskedServer> {
  const connection = await connectToServer(endpoint, signal, { timeoutMs: limits.connectMs }).catch(
    (error: unknown) => {
      throw isKind(error, "invalid", "cancelled") ? error : notServed(endpoint, error, limits.connectMs);
    },
  );
  try {
    const ask = asker(connection, limits);
    const [version, status] = await Promise.all([ask("Version", {}, signal), ask("Status", {}, signal)]);
    return {
      socket: connection.socket,
      kind: serverKind(version, status),
      criVersion: connection.version,
      runtimeName: textAt(version, "runtime_name"),
      runtimeVersion: textAt(version, "runtime_version"),
      ask,
      close: () => {
        connection.close();
      },
    };
  } catch (error) {
    connection.close();
    throw error;
  }
}

function asker(connection: CriConnection, { callMs, probeMs }: AskLimits): AskedServer["ask"] {
  const { socket } = connection;
  const probe = async (signal: AbortSignal): Promise<void> => {
    try {
      await connection.call("Version", {}, { signal, timeoutMs: probeMs });
    } catch (error) {
      throw isKind(error, "cancelled") ? error : notServed(socket, error, probeMs);
    }
  };
  return async (rpc, request, signal): Promise<object> => {
    try {
      return await connection.call(rpc, request, { signal, timeoutMs: callMs });
    } catch (error) {
      signal.throwIfAborted();
      const answered = answeredError(error);
      if (answered === undefined) throw notServed(socket, error, callMs);
      const name = codeName(answered.code);
      if (codesOfLostServers.includes(name)) await probe(signal);
      const late = name === "DEADLINE_EXCEEDED";
      const message = late ? `no answer within ${formatDuration(callMs)}` : answered.message;
      return { error: { code: answered.code, message } } satisfies ErrorAnswer;
    }
  };
}

function notServed(endpoint: string, error: unknown, limitMs: number): ShimError {
  const known = ShimError.from(error);
  const reason = known.kind === "timeout" ? `no answer within ${formatDuration(limitMs)}` : known.message;
  // That nobody serves it names the socket already.
  const message = reason.startsWith("connect to ") ? reason : `ask "${endpoint}": ${reason}`;
  const next = "name the socket of a CRI server that runs (crictl -r SOCKET version tells)";
  return new ShimError("unavailable", `${message}; ${next}`, {}, { cause: error });
}
