/**
 * What the SPDY layer of exec, attach and port-forward costs: one stream over a loopback connection against the same
 * bytes over the bare connection, in the same run. The other end is a process of its own that writes frames which were
 * made before, or reads and forgets.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { controlFrame, dataFrameHeader, frameType } from "../src/lib/spdy/frames.js";
import { EmptyHeaderBlocks } from "../src/shim/streaming/spdy/header-block.js";
import { SpdyConnection, type SpdyStream } from "../src/shim/streaming/spdy/spdy-connection.js";
import { race, type Contender } from "./measure.js";

export interface FrameSpeed {
  readonly direction: "to the shim" | "from the shim";
  readonly spdyMegabytesPerSecond: number;
  readonly bareMegabytesPerSecond: number;
  /** SPDY ÷ bare. */
  readonly share: number;
}

const totalBytes = 512 * 1024 * 1024;
/** What clients of Go write at once: the buffer of io.Copy. */
const frameBytes = 32 * 1024;
const rounds = 9;
const warmUpRounds = 2;
const peerArgument = "--streaming-peer";
const file = fileURLToPath(import.meta.url);

/** What the other end is to do; the first byte that it gets. */
const order = { sendFrames: 1, readFrames: 2, sendBytes: 3, readBytes: 4 } as const;

export async function benchFrames(): Promise<readonly FrameSpeed[]> {
  const peer = spawn(process.execPath, [...process.execArgv, file, peerArgument], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const [line] = (await once(createInterface(peer.stdout), "line")) as [string];
    const port = Number(line);
    const contenders: Contender[] = [
      { name: "spdy in", run: () => overSpdy(port, order.sendFrames, (stream) => stream.resume()) },
      { name: "bare in", run: () => overSocket(port, order.sendBytes, (socket) => socket.resume()) },
      { name: "spdy out", run: () => overSpdy(port, order.readFrames, writeAll) },
      { name: "bare out", run: () => overSocket(port, order.readBytes, writeAll) },
    ];
    const times = new Map(
      (await race(contenders, rounds, warmUpRounds)).map(({ name, medianMs }) => [name, medianMs]),
    );
    const speed = (name: string): number => totalBytes / 1e6 / ((times.get(name) ?? NaN) / 1000);
    return (["in", "out"] as const).map((way) => ({
      direction: way === "in" ? "to the shim" : "from the shim",
      spdyMegabytesPerSecond: Math.round(speed(`spdy ${way}`)),
      bareMegabytesPerSecond: Math.round(speed(`bare ${way}`)),
      share: Math.round((speed(`spdy ${way}`) / speed(`bare ${way}`)) * 100) / 100,
    }));
  } finally {
    peer.kill();
  }
}

export function formatFrames(speeds: readonly FrameSpeed[]): string {
  const rows = speeds.map(
    ({ direction, spdyMegabytesPerSecond, bareMegabytesPerSecond, share }) =>
      `| ${direction} | ${String(spdyMegabytesPerSecond)} | ${String(bareMegabytesPerSecond)} | ${String(share)} |\n`,
  );
  return `| bytes | SPDY, MB/s | bare connection, MB/s | SPDY / bare |\n| --- | --- | --- | --- |\n${rows.join("")}`;
}

/** From the connection to the end of it; `use` reads or writes to the end. */
async function overSpdy(port: number, what: number, use: (stream: SpdyStream) => unknown): Promise<void> {
  const socket = await dial(port, what);
  const connection: SpdyConnection = new SpdyConnection(socket, {
    onStream: (stream) => {
      use(stream);
      stream.once(what === order.sendFrames ? "end" : "finish", () => void connection.close());
    },
  });
  await connection.closed;
  if (connection.failure !== undefined) throw connection.failure;
}

async function overSocket(port: number, what: number, use: (socket: Socket) => unknown): Promise<void> {
  const socket = await dial(port, what);
  const closed = once(socket, "close");
  use(socket);
  await closed;
}

async function dial(port: number, what: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(Buffer.of(what));
  return socket;
}

/** In chunks as a read from a socket gives them. */
function writeAll(target: SpdyStream | Socket): void {
  const chunk = Buffer.alloc(64 * 1024, 0x61);
  let left = totalBytes;
  const write = (): void => {
    while (left > 0) {
      left -= chunk.length;
      if (!target.write(chunk)) {
        target.once("drain", write);
        return;
      }
    }
    target.end();
  };
  write();
}

/** The other end, in a process of its own. Says its port and ends with its standard input. */
function servePeer(): void {
  process.stdin.resume().once("end", () => process.exit());
  const synStream = controlFrame(
    frameType.synStream,
    0,
    [1, 0],
    Buffer.concat([Buffer.of(0, 0), new EmptyHeaderBlocks().next()]),
  );
  const frame = Buffer.concat([
    dataFrameHeader(1, frameBytes, { fin: false }),
    Buffer.alloc(frameBytes, 0x61),
  ]);
  const frames = Buffer.concat(Array.from({ length: 4 }, () => frame));
  const bytes = Buffer.alloc(frames.length, 0x61);
  const send = (socket: Socket, block: Buffer, blockBytes: number, last?: Buffer): void => {
    let left = totalBytes;
    const write = (): void => {
      while (left > 0) {
        left -= blockBytes;
        if (!socket.write(block)) {
          socket.once("drain", write);
          return;
        }
      }
      if (last === undefined) socket.end();
      else socket.write(last);
    };
    write();
  };
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (first: Buffer) => {
      const [what] = first;
      if (what === order.sendFrames || what === order.readFrames) socket.write(synStream);
      if (what === order.sendFrames)
        send(socket, frames, 4 * frameBytes, dataFrameHeader(1, 0, { fin: true }));
      if (what === order.sendBytes) send(socket, bytes, bytes.length);
      socket.resume();
    });
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    process.stdout.write(`${String(typeof address === "object" ? address?.port : address)}\n`);
  });
}

if (process.argv[2] === peerArgument) servePeer();
