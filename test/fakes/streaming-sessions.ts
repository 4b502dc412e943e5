/** Sessions that do what containers and pods do, without any. */
import { once } from "node:events";
import { Duplex, PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import type {
  CommandSession,
  CommandStreams,
  PortForwardSession,
  TerminalSize,
} from "../../src/shim/ports/streaming.js";

export interface FakeCommand extends CommandSession {
  /** Clients that are being served. */
  running: number;
  /** Why the last one was ended from outside. */
  abortedBy: unknown;
  /** Sizes of the terminal, in order. */
  readonly sizes: TerminalSize[];
}

export function fakeCommand(
  run: (streams: CommandStreams, signal: AbortSignal) => Promise<number>,
  options: Partial<Pick<CommandSession, "kind" | "stdin" | "stdout" | "stderr" | "tty">> = {},
): FakeCommand {
  const sizes: TerminalSize[] = [];
  return {
    ...{ kind: "exec", containerId: "c1", stdin: true, stdout: true, stderr: true, tty: false, ...options },
    ...{ running: 0, abortedBy: undefined, sizes },
    async run(streams, signal) {
      this.running += 1;
      signal.addEventListener("abort", () => {
        this.abortedBy = signal.reason;
      });
      const resizing = (async () => {
        for await (const size of streams.resizes) sizes.push(size);
      })();
      try {
        return await run(streams, signal);
      } finally {
        this.running -= 1;
        void resizing;
      }
    },
  };
}

/** `cat`, then exit with `exitCode`. */
export const cat =
  (exitCode = 0) =>
  async ({ stdin, stdout }: CommandStreams, signal: AbortSignal): Promise<number> => {
    await pipeline(stdin!, stdout!, { signal });
    return exitCode;
  };

/** Ends only when it is ended. */
export async function sleepForever(_streams: CommandStreams, signal: AbortSignal): Promise<number> {
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}

export interface FakePod extends PortForwardSession {
  /** The pod's ends of the connections, in order. */
  readonly accepted: Duplex[];
  /** Connections that have not ended. */
  readonly open: Set<Duplex>;
}

/** Two ends of a connection, each half-closable. */
export function connectedPair(): [Duplex, Duplex] {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const end = (readable: PassThrough, writable: PassThrough): Duplex => {
    const duplex = Duplex.from({ readable, writable });
    duplex.on("error", () => undefined);
    return duplex;
  };
  return [end(back, there), end(there, back)];
}

export function fakePod(
  connect: (port: number, signal: AbortSignal) => Promise<Duplex>,
  ports: readonly number[] = [],
): FakePod {
  const accepted: Duplex[] = [];
  const open = new Set<Duplex>();
  return {
    ...{ kind: "portForward", sandboxId: "s1", ports, accepted, open },
    async connect(port, signal) {
      const connection = await connect(port, signal);
      accepted.push(connection);
      open.add(connection);
      connection.once("close", () => open.delete(connection));
      return connection;
    },
  };
}
