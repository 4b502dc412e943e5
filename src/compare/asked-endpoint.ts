/** A CRI server that the observer asks. */
import { connectToServer, type UnaryRpc } from "../client/cri-connection.js";
import { isKind, ShimError } from "../shim/lib/errors.js";
import { serverKind, type ServerKind } from "./server-kind.js";

export interface AskedEndpoint {
  readonly kind: ServerKind;
  /** As `docker 28.5.2 (cri-dockerd)`. */
  readonly name: string;
  readonly version: object;
  /** The answer, or the error that the server gives (`ErrorAnswer`). Throws when the server does not answer. */
  ask(rpc: UnaryRpc, request: object, signal: AbortSignal): Promise<object>;
  close(): void;
}

const questionMs = 30_000;

/** Throws `unavailable` when no CRI server answers at `endpoint`. */
export async function connectAsked(endpoint: string, signal: AbortSignal): Promise<AskedEndpoint> {
  const connection = await connectToServer(endpoint, signal);
  const ask = async (rpc: UnaryRpc, request: object, of: AbortSignal): Promise<object> => {
    try {
      // The request was decoded as the RPC's message.
      return await connection.call(rpc, request, { signal: of, timeoutMs: questionMs });
    } catch (error) {
      const answered = isKind(error, "unavailable", "timeout", "cancelled") ? undefined : answerOf(error);
      if (answered === undefined) throw error;
      return { error: answered };
    }
  };
  try {
    const [version, status] = [await ask("Version", {}, signal), await ask("Status", {}, signal)];
    const kind = serverKind(version, status);
    const { runtime_name: name, runtime_version: number } = version as Record<string, unknown>;
    return {
      kind,
      name: `${String(name)} ${String(number)} (${kind})`,
      version,
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

/** What the server said, of an error of a call. */
function answerOf(error: unknown): { readonly code: number; readonly message: string } | undefined {
  const cause: unknown = error instanceof ShimError ? error.cause : undefined;
  if (!(cause instanceof Error) || !("code" in cause) || !("details" in cause)) return undefined;
  const { code, details } = cause;
  return typeof code === "number" && typeof details === "string" ? { code, message: details } : undefined;
}
