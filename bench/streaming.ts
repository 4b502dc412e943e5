/**
 * Exec and port-forward through the whole program, as a client that speaks SPDY sees them, against the engine's own exec
 * stream and a direct connection to the pod's address. The client does as little as it can with the bytes, so that it
 * is not what is measured.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { dockerJson } from "../test/support/docker.js";
import { serveIn } from "../test/support/serve-in.js";
import type { TestBed } from "../test/support/test-bed.js";
import { race, say, type Contender } from "./measure.js";
import { cpuSecondsOf } from "./process-usage.js";
import type { Comparison } from "./report.js";
import type { CriContender } from "./starts.js";
import {
  chunkBytes,
  dataFrame,
  openExec,
  openForward,
  openInputByWebSocket,
  openPort,
  openTunnel,
  rawExec,
  stdinMessage,
  tunnelledFrame,
} from "./streaming-client.js";

const rounds = { bulk: 5, call: 40, connection: 200 };
const warmUpRounds = 1;

const ports = { echo: 7001, source: 7002, sink: 7003 } as const;
const serversOf = (totalBytes: number): string => `const net = require("node:net");
const chunk = Buffer.alloc(65536);
const serve = (port, use) => new Promise((resolve) => net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
  socket.on("error", () => undefined);
  use(socket);
}).listen(port, "0.0.0.0", resolve));
Promise.all([
  serve(${String(ports.echo)}, (socket) => socket.pipe(socket)),
  serve(${String(ports.source)}, (socket) => {
    let left = ${String(totalBytes)};
    const write = () => {
      while (left > 0) { left -= chunk.length; if (!socket.write(chunk)) return socket.once("drain", write); }
      socket.end();
    };
    socket.once("data", write);
  }),
  serve(${String(ports.sink)}, (socket) => {
    let left = ${String(totalBytes)};
    socket.on("data", (data) => { left -= data.length; if (left <= 0) socket.end("done"); });
  }),
]).then(() => console.log("ready"));`;

export interface StreamingContender extends CriContender {
  /** Of the server; undefined where it is not known. */
  readonly pid: number | undefined;
}

export async function compareStreaming(
  bed: TestBed,
  totalBytes: number,
  contenders: readonly StreamingContender[],
): Promise<readonly Comparison[]> {
  const [first] = contenders;
  if (first === undefined) throw new Error("no contender");
  await using pod = await bed.runPod(first.cri);
  const containerId = await pod.start({ command: ["sleep", "100000"] });
  const { State } = (await dockerJson("GET", `/containers/${pod.id}/json`)) as { State: { Pid: number } };
  await using _ = await serveIn(State.Pid, serversOf(totalBytes));
  const address = await pod.ip();
  const size = `${String(totalBytes / 1024 / 1024)} MiB`;
  const target = { sandboxId: pod.id, address, totalBytes };
  const comparisons: Comparison[] = [];
  const measured: readonly (() => Promise<Comparison>)[] = [
    () => compare(contenders, execs(containerId), rounds.call),
    () => compare(contenders, bulk(`exec, ${size} of output`, containerId, totalBytes, "out")),
    () => compare(contenders, bulk(`exec, ${size} of input`, containerId, totalBytes, "in")),
    () =>
      compare(contenders, inputByWebSocket(`exec, ${size} of input by WebSocket`, containerId, totalBytes)),
    () => compare(contenders, forwardedBulk(`port-forward, ${size} from the pod`, ports.source, target)),
    () => compare(contenders, forwardedBulk(`port-forward, ${size} to the pod`, ports.sink, target)),
    // cri-dockerd has no tunnel.
    () =>
      compare(contenders.slice(0, 1), tunnelledBulk(`port-forward, ${size} to the pod by WebSocket`, target)),
    () => compareEchoes(contenders, pod.id, address),
    () => compareConnections(contenders, pod.id, address),
  ];
  for (const measure of measured) {
    const comparison = await measure();
    say(comparison.title);
    comparisons.push(comparison);
  }
  return comparisons;
}

/** `own` through a CRI server, `raw` without one. */
interface Ways {
  readonly title: string;
  /** What one of them carries; undefined where it is next to nothing. */
  readonly totalBytes?: number;
  readonly rawCalls: string;
  readonly own: (cri: CriContender["cri"]) => Promise<void>;
  readonly raw: () => Promise<void>;
}

async function compare(
  contenders: readonly StreamingContender[],
  { title, rawCalls, own, raw, totalBytes }: Ways,
  count = rounds.bulk,
): Promise<Comparison> {
  const all: readonly (Contender & { readonly pid: number | undefined })[] = [
    ...contenders.map(({ name, cri, pid }) => ({ name, pid, run: () => own(cri) })),
    { name: "raw", pid: undefined, run: raw },
  ];
  const metered = all.map((contender) => ({ ...contender, ...withCpuTime(contender) }));
  const timings = await race(metered, count, warmUpRounds);
  if (totalBytes === undefined) return { title, rawCalls, timings };
  const megabytes = totalBytes / 1e6;
  const transfers = metered.map(({ mean }) => ({ megabytes, ...mean() }));
  const of = (index: number) => ({ ...(transfers[index] && { transfer: transfers[index] }) });
  return { title, rawCalls, timings: timings.map((timing, index) => ({ ...timing, ...of(index) })) };
}

/** Runs `contender`, and adds up the CPU time that the server and this process take meanwhile. */
function withCpuTime({ run, pid }: Contender & { readonly pid: number | undefined }) {
  let [server, client, runs] = [0, 0, 0];
  const clientSeconds = (): number => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  };
  return {
    run: async () => {
      const before = { server: cpuSecondsOf(pid), client: clientSeconds() };
      await run();
      server += cpuSecondsOf(pid) - before.server;
      client += clientSeconds() - before.client;
      runs += 1;
    },
    mean: () => ({
      serverSeconds: pid === undefined ? undefined : server / runs,
      clientSeconds: client / runs,
    }),
  };
}

function execs(id: string): Ways {
  return {
    title: "exec, true",
    rawCalls: "create, start, inspect until it has ended",
    own: async (cri) => untilEnd((await openExec(cri, id, ["true"], "out")).socket),
    raw: async () => {
      const { execId, socket } = await rawExec(id, ["true"], "out");
      await untilEnd(socket);
      // The engine knows of the exit a moment after the end of the output, and nobody has an exit code before.
      while (((await dockerJson("GET", `/exec/${execId}/json`)) as { Running: boolean }).Running)
        await sleep(1);
    },
  };
}

function bulk(title: string, id: string, totalBytes: number, way: "in" | "out"): Ways {
  const command =
    way === "out"
      ? ["head", "-c", String(totalBytes), "/dev/zero"]
      : ["sh", "-c", `head -c ${String(totalBytes)} > /dev/null`];
  return {
    ...{ title, rawCalls: "the engine's exec stream", totalBytes },
    own: async (cri) => {
      const { socket, stdin } = await openExec(cri, id, command, way);
      const end = untilEnd(socket);
      if (stdin !== undefined) await writeAll(socket, dataFrame(stdin), totalBytes);
      await end;
    },
    raw: async () => {
      const { socket } = await rawExec(id, command, way);
      const end = untilEnd(socket);
      if (way === "in") await writeAll(socket, Buffer.alloc(chunkBytes), totalBytes);
      await end;
    },
  };
}

function inputByWebSocket(title: string, id: string, totalBytes: number): Ways {
  return {
    ...bulk(title, id, totalBytes, "in"),
    own: async (cri) => {
      const socket = await openInputByWebSocket(cri, id, [
        "sh",
        "-c",
        `head -c ${String(totalBytes)} > /dev/null`,
      ]);
      const end = untilEnd(socket);
      await writeAll(socket, stdinMessage(), totalBytes);
      await end;
    },
  };
}

interface Target {
  readonly sandboxId: string;
  readonly address: string;
  readonly totalBytes: number;
}

function forwardedBulk(title: string, port: number, { sandboxId, address, totalBytes }: Target): Ways {
  const isSource = port === ports.source;
  return {
    ...{ title, rawCalls: "a connection to the pod's address", totalBytes },
    own: async (cri) => {
      const client = await openForward(cri, sandboxId);
      const stream = openPort(client, port, 1);
      const { socket } = client;
      if (isSource) await transfer(socket, () => stream.write("x"), totalBytes);
      else await transfer(socket, () => writeAll(socket, dataFrame(stream.id), totalBytes), 1);
      socket.destroy();
    },
    raw: async () => {
      const socket = connect({ host: address, port, noDelay: true });
      if (isSource) await transfer(socket, () => socket.write("x"), totalBytes);
      else await transfer(socket, () => writeAll(socket, Buffer.alloc(chunkBytes), totalBytes), 1);
      socket.destroy();
    },
  };
}

function tunnelledBulk(title: string, target: Target): Ways {
  return {
    ...forwardedBulk(title, ports.sink, target),
    own: async (cri) => {
      const { socket, streamId } = await openTunnel(cri, target.sandboxId, ports.sink);
      await transfer(socket, () => writeAll(socket, tunnelledFrame(streamId), target.totalBytes), 1);
      socket.destroy();
    },
  };
}

/** One byte and back in an open connection. */
async function compareEchoes(
  contenders: readonly CriContender[],
  sandboxId: string,
  address: string,
): Promise<Comparison> {
  const direct = connect({ host: address, port: ports.echo, noDelay: true });
  const clients = await Promise.all(
    contenders.map(async ({ name, cri }) => {
      const client = await openForward(cri, sandboxId);
      const stream = openPort(client, ports.echo, 1);
      return { name, client, stream };
    }),
  );
  try {
    const timings = await race(
      [
        ...clients.map(({ name, stream }): Contender => ({
          name,
          run: async () => {
            stream.write("x");
            await once(stream.received, "data");
          },
        })),
        {
          name: "raw",
          run: async () => {
            direct.write("x");
            await once(direct, "data");
          },
        },
      ],
      rounds.connection * 5,
      rounds.connection,
    );
    return { title: "port-forward, echo of a byte", rawCalls: "a connection to the pod's address", timings };
  } finally {
    direct.destroy();
    for (const { client } of clients) client.socket.destroy();
  }
}

/** A new connection in an open session, until the first byte is back. */
async function compareConnections(
  contenders: readonly CriContender[],
  sandboxId: string,
  address: string,
): Promise<Comparison> {
  const clients = await Promise.all(
    contenders.map(async ({ name, cri }) => ({ name, client: await openForward(cri, sandboxId), count: 0 })),
  );
  try {
    const timings = await race(
      [
        ...clients.map((entry): Contender => ({
          name: entry.name,
          run: async () => {
            const stream = openPort(entry.client, ports.echo, (entry.count += 1));
            stream.write("x");
            await once(stream.received, "data");
            return stream;
          },
          after: async (stream) => {
            (stream as ReturnType<typeof openPort>).end();
            await Promise.resolve();
          },
        })),
        {
          name: "raw",
          run: async () => {
            const socket = connect({ host: address, port: ports.echo, noDelay: true });
            socket.write("x");
            await once(socket, "data");
            return socket;
          },
          after: async (socket) => {
            (socket as Socket).destroy();
            await Promise.resolve();
          },
        },
      ],
      rounds.connection,
      20,
    );
    return { title: "port-forward, new connection", rawCalls: "a connection to the pod's address", timings };
  } finally {
    for (const { client } of clients) client.socket.destroy();
  }
}

async function writeAll(socket: Duplex, chunk: Buffer, totalBytes: number): Promise<void> {
  for (let written = 0; written < totalBytes; written += chunkBytes)
    if (!socket.write(chunk)) await once(socket, "drain");
}

async function untilEnd(socket: Duplex): Promise<void> {
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.resume();
  await closed;
}

/** How long a contender may send nothing before the bench gives up: a refused port says so in frames that nobody reads. */
const stallMs = 20_000;

/** Until more than `bytes` have come; frames have more than their data. */
async function transfer(socket: Duplex, begin: () => unknown, bytes: number): Promise<void> {
  socket.removeAllListeners("data");
  // The replies that open the streams are no data.
  const replies = 200;
  let left = bytes;
  const done = new Promise<void>((resolve, reject) => {
    const stalled = setTimeout(() => {
      reject(
        new Error(
          `no end after ${String(stallMs / 1000)} s without a byte, ${String(left)} bytes were missing`,
        ),
      );
    }, stallMs);
    socket.once("close", () => {
      clearTimeout(stalled);
      reject(new Error(`the connection ended, ${String(left)} bytes were missing`));
    });
    socket.on("data", (chunk: Buffer) => {
      stalled.refresh();
      if (bytes === 1 && chunk.length < replies && !chunk.includes("done")) return;
      left -= chunk.length;
      if (left > 0) return;
      clearTimeout(stalled);
      resolve();
    });
  });
  await begin();
  await done;
}
