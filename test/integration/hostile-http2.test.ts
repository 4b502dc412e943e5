/** Clients that use HTTP/2 as a weapon, against the whole program: memory stays bounded, no file stays open, others are served. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { before, describe, test } from "node:test";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { residentBytes } from "../support/processes.js";
import { until } from "../support/wait.js";
import {
  cancel,
  clientPreface,
  frame,
  headers,
  literal,
  message,
  requestFields,
  settings,
  settingsAck,
  types,
  versionFields,
  versionRequest,
} from "../unit/grpc/http2-writer.js";

/** What an attack may cost at its peak; a multiple of that is what each sends or asks for. */
const bearableBytes = 256 * 1024 * 1024;

/** Odd numbers, as clients have them; the first request is number 1. */
const streamIds = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => 3 + 2 * index);
const claimed = Buffer.from([0, 1, 0, 0, 0]); // A message of 16 MiB follows.

const listFields = requestFields("ListContainers", literal(1, "localhost"));
/** A filter, so that no two answers share their bytes: containers that were never started. */
const neverStarted = Buffer.of(0x0a, 2, 0x12, 0);

interface Attack {
  readonly name: string;
  /** Connections, one after the other. */
  readonly connections: number;
  /** Whether each of them makes a proper request first. */
  readonly opened: boolean;
  /** Whether it takes what it is answered. */
  readonly reads?: boolean;
  /** What each sends. */
  readonly chunks: () => Iterable<Buffer>;
}

const attacks: readonly Attack[] = [
  { name: "connections that say nothing", connections: 700, opened: false, chunks: () => [] },
  { name: "idle connections", connections: 300, opened: true, chunks: () => [] },
  { name: "half a preface", connections: 300, opened: false, chunks: () => [clientPreface.subarray(0, 10)] },
  { name: "no HTTP/2", connections: 50, opened: false, chunks: () => [Buffer.alloc(1 << 20, "GET / ")] },
  {
    name: "a flood of SETTINGS before the first request",
    ...{ connections: 10, opened: false },
    chunks: function* () {
      yield clientPreface;
      yield* repeat(20_000, () => settings);
    },
  },
  {
    name: "a flood of SETTINGS",
    ...{ connections: 10, opened: true, reads: true },
    chunks: () => repeat(200_000, () => settings),
  },
  {
    name: "a flood of PINGs",
    ...{ connections: 10, opened: true, reads: true },
    chunks: () => repeat(200_000, () => frame(types.ping, 0, 0, Buffer.alloc(8))),
  },
  {
    name: "requests that are reset at once",
    ...{ connections: 10, opened: true, reads: true },
    chunks: function* () {
      for (const id of streamIds(20_000)) {
        yield Buffer.concat([versionRequest(id), message(id), cancel(id)]);
      }
    },
  },
  {
    name: "requests whose answers nobody reads",
    ...{ connections: 10, opened: true },
    chunks: function* () {
      for (const id of streamIds(50_000)) yield Buffer.concat([versionRequest(id), message(id)]);
    },
  },
  {
    name: "long answers that nobody reads",
    ...{ connections: 10, opened: true },
    chunks: function* () {
      for (const id of streamIds(900))
        yield Buffer.concat([headers(id, listFields), message(id, neverStarted)]);
    },
  },
  {
    name: "a header list without end, in the first request",
    ...{ connections: 10, opened: false },
    chunks: function* () {
      yield Buffer.concat([clientPreface, settings, frame(types.headers, 0, 1, versionFields())]);
      yield* repeat(4000, (index) =>
        frame(types.continuation, 0, 1, literal(`x-${String(index)}`, "v".repeat(1000))),
      );
    },
  },
  {
    name: "a header list without end",
    ...{ connections: 10, opened: true },
    chunks: function* () {
      yield frame(types.headers, 0, 3, versionFields());
      yield* repeat(4000, (index) =>
        frame(types.continuation, 0, 3, literal(`x-${String(index)}`, "v".repeat(1000))),
      );
    },
  },
  {
    name: "headers without a message",
    ...{ connections: 40, opened: true },
    chunks: function* () {
      for (const id of streamIds(5000)) yield versionRequest(id);
    },
  },
  {
    name: "messages of which only the beginning comes",
    ...{ connections: 60, opened: true, reads: true },
    chunks: function* () {
      for (const id of streamIds(500)) {
        yield Buffer.concat([versionRequest(id), frame(types.data, 0, id, claimed)]);
        yield* repeat(8, () => frame(types.data, 0, id, Buffer.alloc(8000)));
      }
    },
  },
];

describe("hostile HTTP/2", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: { nodeFlags: ["--max-old-space-size=1024"] } });
  before(async () => {
    await bed.shim.cri.Version();
    const pod = await bed.runPod(bed.shim.cri);
    await pod.create({ annotations: { long: "x".repeat(60_000) } });
  });

  for (const { name, connections, opened, reads = false, chunks } of attacks) {
    test(`${name}: bounded memory, no file left, others are served`, async () => {
      const memoryBefore = await residentBytes(bed.shim.pid);
      let peak = 0;
      const sockets: Socket[] = [];
      try {
        for (let count = 0; count < connections; count += 1) {
          const socket = await attack(chunks, { opened, reads });
          if (socket !== undefined) sockets.push(socket);
          peak = Math.max(peak, await residentBytes(bed.shim.pid));
        }
        await bed.shim.cri.Version({}, { timeoutMs: 10_000 }).catch((error: unknown) => {
          // A node that all its connections are taken of serves those that are there.
          if (connections <= 500) throw error;
        });
        peak = Math.max(peak, await residentBytes(bed.shim.pid));
      } finally {
        for (const socket of sockets) socket.destroy();
      }
      await bed.shim.cri.Version();
      assert.ok(peak - memoryBefore < bearableBytes, `${String(Math.round((peak - memoryBefore) / 1e6))} MB`);
      await until("the connections to be closed", async () => (await openConnections()) <= 1);
      assert.doesNotMatch(bed.shim.log, /failed by a bug|unhandled|MaxListeners/i);
    });
  }

  /** Sends as long as the server takes it; undefined when it has closed the connection. */
  async function attack(
    chunks: () => Iterable<Buffer>,
    { opened, reads }: { readonly opened: boolean; readonly reads: boolean },
  ): Promise<Socket | undefined> {
    const socket = connect(bed.shim.socket);
    socket.on("error", () => undefined);
    await Promise.race([once(socket, "connect"), once(socket, "close")]);
    if (opened) {
      const answered = once(socket, "data");
      socket.write(Buffer.concat([clientPreface, settings, settingsAck, versionRequest(1), message(1)]));
      await Promise.race([answered, once(socket, "close")]);
      if (reads) socket.resume();
      else socket.pause();
    }
    let batch: Buffer[] = [];
    const flush = async (): Promise<void> => {
      const bytes = Buffer.concat(batch);
      batch = [];
      if (bytes.length === 0 || socket.destroyed || socket.write(bytes)) return;
      const patience = AbortSignal.timeout(20);
      await Promise.race([
        once(socket, "drain", { signal: patience }),
        once(socket, "close", { signal: patience }),
      ]).catch(() => undefined);
    };
    for (const chunk of chunks()) {
      batch.push(chunk);
      if (batch.length < 500) continue;
      await flush();
      // The server reads no more, or is done with it.
      if (socket.destroyed || socket.writableLength > 1 << 18) break;
    }
    await flush();
    return socket.destroyed ? undefined : socket;
  }

  /** Those that clients have with the shim; its own ones to the engine come and go with the engine's events. */
  async function openConnections(): Promise<number> {
    const established = / 03 +\d+ /;
    const lines = (await readFile("/proc/net/unix", "utf8")).split("\n");
    return lines.filter((line) => line.endsWith(` ${bed.shim.socket}`) && established.test(line)).length;
  }
});

function* repeat(count: number, make: (index: number) => Buffer): Generator<Buffer> {
  for (let index = 0; index < count; index += 1) yield make(index);
}
