import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { GuardedConnection, ResetLimit } from "../../../../src/shim/grpc/guards/guarded-connection.js";
import { until } from "../../../support/wait.js";
import { Http2Client } from "../http2-client.js";
import {
  cancel,
  clientPreface,
  frame,
  message,
  settings,
  settingsAck,
  types,
  versionRequest,
} from "../http2-writer.js";
import { startTestServer } from "../test-server.js";

const call = (streamId: number): Buffer => Buffer.concat([versionRequest(streamId), message(streamId)]);
/** Calls that are cancelled at once. */
const cancelled = (first: number, count: number): Buffer =>
  Buffer.concat(
    Array.from({ length: count }, (_, index) => first + 2 * index).flatMap((id) => [call(id), cancel(id)]),
  );

const resets = (count: number): Buffer => Buffer.concat(Array<Buffer>(count).fill(cancel(1)));

interface Pair extends AsyncDisposable {
  readonly client: Socket;
  readonly accepted: Socket;
}

async function socketPair(): Promise<Pair> {
  const directory = await mkdtemp(join(tmpdir(), "guarded-test-"));
  const path = join(directory, "x.sock");
  const server = createServer();
  server.listen(path);
  await once(server, "listening");
  const client = connect(path);
  const [accepted] = (await once(server, "connection")) as [Socket];
  for (const socket of [client, accepted]) socket.on("error", () => undefined);
  return {
    client,
    accepted,
    async [Symbol.asyncDispose]() {
      for (const socket of [client, accepted]) socket.destroy();
      server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

describe("GuardedConnection", () => {
  test("is closed within a second when its client does not read what was written before", async () => {
    await using pair = await socketPair();
    const { client, accepted } = pair;
    client.pause();
    const connection = new GuardedConnection(accepted, Buffer.alloc(0));
    connection.write(Buffer.alloc(8 * 1024 * 1024));
    connection.destroy();
    await until("the socket to be closed", () => accepted.closed);
  });

  test("sends what was written before it is destroyed", async () => {
    await using pair = await socketPair();
    const { client, accepted } = pair;
    let received = 0;
    client.on("data", (chunk) => (received += chunk.length));
    const connection = new GuardedConnection(accepted, Buffer.alloc(0));
    connection.write(Buffer.alloc(100_000));
    connection.destroy();
    await once(client, "close");
    assert.equal(received, 100_000);
  });

  test("a flood in the opening is no uncaught error when the server stops", async () => {
    await using pair = await socketPair();
    const connection = new GuardedConnection(pair.accepted, Buffer.concat([clientPreface, resets(501)]));
    connection.destroy();
    await until("the connection to be closed", () => pair.accepted.closed);
    assert.ok(connection.destroyed);
  });
});

describe("ResetLimit", () => {
  for (const size of [1, 7, 9, 100, 10_000]) {
    test(`allows 500 RST_STREAM frames at once and 30 per second, in chunks of ${size} bytes`, () => {
      let now = 0;
      const limit = new ResetLimit(() => now);
      const check = (bytes: Buffer): void => {
        for (let at = 0; at < bytes.length; at += size) limit.check(bytes.subarray(at, at + size));
      };
      check(clientPreface);
      check(resets(500));
      now += 1_000;
      check(resets(30));
      // Frames of other types and payloads do not count.
      check(frame(types.data, 0, 1, resets(900)));
      assert.throws(() => check(cancel(1)), /a flood of RST_STREAM frames/);
    });
  }
});

test("a client that does not read is disconnected", async () => {
  await using server = await startTestServer(
    { Version: () => Promise.resolve({ version: "a".repeat(12 * 1024 * 1024) }) },
    { keepaliveMs: 100 },
  );
  const files = (): number => readdirSync("/proc/self/fd").length;
  const before = files();
  const socket = connect(server.path);
  socket.on("error", () => undefined).pause();
  const increment = Buffer.from([0x7f, 0, 0, 0]);
  const hugeWindows = frame(types.settings, 0, 0, Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]));
  socket.write(Buffer.concat([clientPreface, hugeWindows, settingsAck]));
  socket.write(Buffer.concat([frame(types.windowUpdate, 0, 0, increment), call(1)]));
  await once(socket, "connect");
  await until("its end of the connection", () => files() > before + 1);
  // The client's own end stays open: it does not notice.
  await until("the server's end to be closed", () => files() <= before + 1);
  socket.destroy();
});

describe("a client that cancels its calls", () => {
  const serve = () => startTestServer({ Version: () => Promise.resolve({ version: "x" }) });

  test("may cancel some hundred at once", async () => {
    await using server = await serve();
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(cancelled(1, 400));
    client.write(call(1001));
    assert.equal((await client.answer(1001)).fields["grpc-status"], "0");
  });

  test("is disconnected at once when it cancels without end", async () => {
    await using server = await serve();
    const socket = connect(server.path);
    socket.on("error", () => undefined).resume();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(Buffer.concat([clientPreface, settings, settingsAck, cancelled(1, 600)]));
    await closed;
  });
});
