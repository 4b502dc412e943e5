/**
 * `dockershim forward`: leads a socket of this host to the CRI server in a container, over `docker exec`: no port is
 * opened, and who may use the engine needs no other key.
 */
import { createServer, type Server, type Socket } from "node:net";
import { streamsSocketSuffix } from "../play/cri/dial.js";
import { createEngine, engineEndpoint } from "../shim/app/open-engine.js";
import { resolveConfig } from "../shim/config/resolve.js";
import { formatEndpoint } from "../shim/engine/http/endpoint.js";
import { linkAbort } from "../lib/abort.js";
import { messageOf, ShimError } from "../lib/errors.js";
import { Lifetime } from "../lib/lifetime.js";
import { silentLogger } from "../lib/log.js";
import { shownText } from "../lib/shown-text.js";
import { bindUnixSocket } from "../lib/unix-socket.js";
import type { Engine, ExecCalls } from "../shim/ports/engine.js";
import type { ProcessIo } from "../cli/process-io.js";

export interface ForwardOptions {
  /** Name or id. */
  readonly container: string;
  /** Path of the socket. */
  readonly listen: string;
  /** The engine's, as `--docker-endpoint` of the server; else as the server finds it. */
  readonly dockerEndpoint?: string;
  /** Listens on this port of 127.0.0.1, too, and leads to the same one there. */
  readonly streamingPort?: number;
}

type ForwardIo = Pick<ProcessIo, "environment" | "readFile" | "isSocket" | "writeError" | "signal">;

/** In the container: where the recipe has it. */
const served = "unix:///var/run/dockershim.sock";
/** The line of an address. */
const longestLineBytes = 300;
/** What is kept of the standard error of a process in the container. */
const longestTextBytes = 2048;

/** Until `signal` aborts; the exit code is 0 then. */
export async function runForward(options: ForwardOptions, io: ForwardIo): Promise<number> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  try {
    const given =
      options.dockerEndpoint === undefined ? [] : [{ name: "docker-endpoint", text: options.dockerEndpoint }];
    const { config } = await resolveConfig(given, io.environment, (path) => io.readFile(path), io.isSocket);
    const endpoint = await engineEndpoint(config, io.environment);
    const engine = createEngine(endpoint, config, log, lifetime);
    await engine.connect(io.signal);
    await requireRunning(engine, options.container, formatEndpoint(endpoint), io.signal);
    await forward(engine, options, io, lifetime);
    return 0;
  } finally {
    await lifetime.close();
  }
}

async function requireRunning(
  engine: Engine,
  container: string,
  endpoint: string,
  signal: AbortSignal,
): Promise<void> {
  const found = await engine.inspectContainer(container, signal);
  if (found?.state.status === "running") return;
  const state = found === undefined ? "does not exist" : "does not run";
  const next = "docs/run/docker-desktop.md has the command that starts it; --container names another one";
  throw new ShimError("precondition", `container "${container}" of ${endpoint} ${state}; ${next}`);
}

async function forward(
  engine: Engine,
  { container, listen, streamingPort }: ForwardOptions,
  { writeError, signal }: ForwardIo,
  lifetime: Lifetime,
): Promise<void> {
  const open = new Set<Socket>();
  const serve = (addressOf: (socket: Socket) => Promise<string>): Server =>
    createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) => {
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      socket.on("error", () => socket.destroy());
      addressOf(socket)
        .then((address) => bridge(engine, container, ["dockershim", "dial", address], socket, signal))
        .catch((error: unknown) => {
          const hasLeft = socket.destroyed || signal.aborted;
          socket.destroy();
          if (!hasLeft) writeError(`dockershim forward: ${shownText(messageOf(error))}\n`);
        });
    });
  const close = (server: Server): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => {
        resolve();
      });
    });
  lifetime.onClose("connections", () => {
    for (const socket of open) socket.destroy();
    return Promise.resolve();
  });
  const listenOn = async (path: string, addressOf: (socket: Socket) => Promise<string>): Promise<void> => {
    const server = serve(addressOf);
    const bound = await bindUnixSocket(server, path);
    lifetime.onClose(path, async () => {
      await bound.unlink();
      void close(server);
    });
  };
  await listenOn(listen, () => Promise.resolve(served));
  await listenOn(listen + streamsSocketSuffix, readAddress);
  if (streamingPort !== undefined) {
    const server = serve(() => Promise.resolve(`127.0.0.1:${streamingPort}`));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(streamingPort, "127.0.0.1", resolve);
    });
    lifetime.onClose("streaming port", () => Promise.resolve(void close(server)));
  }
  writeError(`unix://${listen} leads to container ${container}; Ctrl-C ends it\n`);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** The first line that the client writes. The rest stays in the socket. */
async function readAddress(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) {
      if (socket.readableEnded || socket.destroyed)
        throw new ShimError("invalid", "read an address: the client left");
      await new Promise<void>((resolve) => {
        socket.once("readable", resolve);
        socket.once("close", resolve);
      });
      continue;
    }
    const end = chunk.indexOf(10);
    bytes += chunk.length;
    if (end === -1 && bytes > longestLineBytes) throw new ShimError("invalid", "read an address: no line");
    chunks.push(end === -1 ? chunk : chunk.subarray(0, end));
    if (end === -1) continue;
    if (end + 1 < chunk.length) socket.unshift(chunk.subarray(end + 1));
    return Buffer.concat(chunks).toString();
  }
}

/**
 * Joins a socket to a process in the container, until the process has ended, or the socket is closed. The end of the socket's input is passed on alone, and who reads
 * slowly makes the other side wait. Rejects with what the process has said when it failed.
 */
export async function bridge(
  engine: Pick<ExecCalls, "createExec" | "startExec" | "inspectExec">,
  container: string,
  command: readonly string[],
  socket: Socket,
  signal: AbortSignal,
): Promise<void> {
  const options = { command, tty: false, stdin: true, stdout: true, stderr: true };
  const id = await engine.createExec(container, options, signal);
  const streams = await engine.startExec(id, options, signal);
  using _ = linkAbort(signal, () => socket.destroy());
  const onClose = (): void => {
    streams.close();
  };
  socket.once("close", onClose);
  if (socket.destroyed) onClose();
  let said = "";
  try {
    socket.pipe(streams.input);
    await streams.readOutput((stream, data) => {
      if (stream === "stderr") {
        said = (said + data.toString()).slice(0, longestTextBytes);
        return undefined;
      }
      return socket.write(data) ? undefined : drainOf(socket);
    });
  } catch (error) {
    // The client has left, and needs no more.
    if (socket.destroyed) return;
    throw error;
  } finally {
    socket.off("close", onClose);
    streams.close();
    socket.end();
  }
  if (said !== "") {
    throw new ShimError(
      "unavailable",
      `in container "${container}": ${said.trim().replaceAll(/\s*\n\s*/g, " ")}`,
    );
  }
}

function drainOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off("drain", done);
      socket.off("close", done);
      resolve();
    };
    socket.once("drain", done);
    socket.once("close", done);
  });
}
