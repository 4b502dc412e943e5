/** A CRI server that is asked read-only questions. */
import { isKind } from "../../lib/errors.js";
import { formatDuration } from "../../lib/abort.js";
import {
  answeredError,
  type CriConnection,
  type CriVersion,
  codeName,
  connectToServer,
  notServed,
  type UnaryRpc,
} from "../../client/cri-connection.js";
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
  /** The response or error of the server. Throws, with the next step, when it answers nothing any more. */
  ask(rpc: UnaryRpc, request: object, signal: AbortSignal): Promise<object>;
  close(): void;
}

export interface AskLimits {
  /** Deadline of the first call. */
  readonly connectMs: number;
  /** Deadline of each call. */
  readonly callMs: number;
  /** Deadline of the call that decides whether a server that did not answer still serves. */
  readonly probeMs: number;
}

/** Statistics of dockershim take a second for each container, one after the other. */
const usualLimits: AskLimits = { connectMs: 10_000, callMs: 30_000, probeMs: 5_000 };

/** The codes of a server that may be gone. */
const codesOfLostServers = ["UNAVAILABLE", "DEADLINE_EXCEEDED"];

/** Throws `unavailable`, naming the socket and the next step, when no CRI server answers there. */
export async function connectAsked(
  endpoint: string,
  signal: AbortSignal,
  given: Partial<AskLimits> = {},
): Promise<AskedServer> {
  const limits = { ...usualLimits, ...given };
  const connection = await connectToServer(endpoint, signal, { timeoutMs: limits.connectMs });
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
      close: () => connection.close(),
    };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** As `docker 28.5.2 (cri-dockerd)`. */
export function serverName({ runtimeName, runtimeVersion, kind }: AskedServer): string {
  return `${runtimeName} ${runtimeVersion} (${kind})`;
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
      // No caller has cancelled it: the server ended.
      if (name === "CANCELLED") throw notServed(socket, error, callMs);
      if (codesOfLostServers.includes(name)) await probe(signal);
      const late = name === "DEADLINE_EXCEEDED";
      const message = late ? `no answer within ${formatDuration(callMs)}` : answered.message;
      return { error: { code: answered.code, message } } satisfies ErrorAnswer;
    }
  };
}
