import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { defaultLimits } from "../../../../src/shim/grpc/guards/incoming-requests.js";
import { until } from "../../../support/wait.js";
import { Http2Client } from "../http2-client.js";
import {
  clientPreface,
  flags,
  frame,
  literal,
  message,
  settings,
  settingsAck,
  types,
  versionRequest,
} from "../http2-writer.js";
import { connectClient, startTestServer, type TestServer } from "../test-server.js";

/** The beginning of a message of 1000 bytes. */
const part = (streamId: number, bytes: number): Buffer =>
  frame(types.data, 0, streamId, Buffer.concat([Buffer.from([0, 0, 0, 3, 232]), Buffer.alloc(bytes)]));

const patient = { ...defaultLimits, patienceMs: 60_000 };

async function serve(limits: Partial<typeof patient>): Promise<TestServer> {
  return startTestServer(
    { Version: () => Promise.resolve({ version: "x" }) },
    { incoming: { ...patient, ...limits } },
  );
}

async function statusOf(client: Http2Client, streamId: number): Promise<readonly (string | undefined)[]> {
  const { fields } = await client.answer(streamId);
  return [fields["grpc-status"], decodeURI(fields["grpc-message"] ?? "")];
}

describe("guardRequests()", () => {
  test("refuses a request that is not complete in time with DEADLINE_EXCEEDED", async () => {
    await using server = await serve({ patienceMs: 50, quietMs: 50 });
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(versionRequest(1), versionRequest(3), part(3, 10));
    for (const id of [1, 3]) assert.equal((await statusOf(client, id))[0], "4");
    client.write(versionRequest(5), message(5));
    assert.equal((await statusOf(client, 5))[0], "0");
  });

  test("answers all calls of clients that make many at once", async () => {
    await using server = await startTestServer({ Version: () => Promise.resolve({ version: "x" }) });
    using one = connectClient(server.path);
    using other = connectClient(server.path);
    const version = "a".repeat(2000);
    const calls = [one, other].flatMap((client) =>
      Array.from({ length: 600 }, () => client.call("Version", { version })),
    );
    assert.equal((await Promise.all(calls)).length, 1200);
  });

  test("answers all calls of clients whose messages together are more than there is memory for", async () => {
    await using server = await serve({ totalBytes: 100_000, freeBytes: 20_000, connectionBytes: 1_500_000 });
    const clients = Array.from({ length: 4 }, () => connectClient(server.path));
    try {
      const version = "a".repeat(100_000);
      const calls = clients.flatMap((client) =>
        Array.from({ length: 10 }, () => client.call("Version", { version })),
      );
      assert.equal((await Promise.all(calls)).length, 40);
    } finally {
      for (const client of clients) client[Symbol.dispose]();
    }
  });

  test("refuses with RESOURCE_EXHAUSTED what makes others wait and does not go on", async () => {
    const limits = { totalBytes: 50_000, freeBytes: 20_000, quietMs: 50 };
    await using server = await serve(limits);
    using silent = await Http2Client.connect(server.path);
    await silent.open();
    silent.write(versionRequest(1), versionRequest(3), part(3, 100));
    using other = await Http2Client.connect(server.path);
    await other.open();
    // Small ones do not wait.
    other.write(versionRequest(1), message(1));
    assert.equal((await statusOf(other, 1))[0], "0");
    other.write(versionRequest(3), versionRequest(5));
    for (const id of [1, 3]) assert.equal((await statusOf(silent, id))[0], "8");
    other.write(message(3), message(5));
    for (const id of [3, 5]) assert.equal((await statusOf(other, id))[0], "0");
  });

  test("refuses the oldest one with RESOURCE_EXHAUSTED when one connection has too many bytes", async () => {
    await using server = await serve({ connectionBytes: 2 * 16 * 1024 + 1500 });
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(versionRequest(1), part(1, 900), versionRequest(3), part(3, 900));
    assert.equal((await statusOf(client, 1))[0], "8");
    client.write(frame(types.data, flags.endStream, 3, Buffer.alloc(100)));
    assert.deepEqual(await statusOf(client, 3), [
      "3",
      "decode request: the message: has a field with the number 0",
    ]);
  });

  const malformed: Readonly<Record<string, readonly [fields: Buffer, code: string]>> = {
    "a timeout that is none": [literal("grpc-timeout", "soon"), "3"],
    "a timeout of too many digits": [literal("grpc-timeout", "123456789S"), "3"],
    "a compressed message": [literal("grpc-encoding", "gzip"), "12"],
  };
  for (const [name, [field, code]] of Object.entries(malformed)) {
    test(`refuses ${name}`, async () => {
      await using server = await serve({});
      using client = await Http2Client.connect(server.path);
      await client.open();
      client.write(versionRequest(1, field), message(1));
      assert.equal((await statusOf(client, 1))[0], code);
      client.write(
        versionRequest(3, literal("grpc-timeout", "10S"), literal("grpc-encoding", "identity")),
        message(3),
      );
      assert.equal((await statusOf(client, 3))[0], "0");
    });
  }

  test("a call with two messages is INVALID_ARGUMENT", async () => {
    await using server = await serve({});
    using client = await Http2Client.connect(server.path);
    await client.open();
    const empty = Buffer.alloc(5);
    client.write(versionRequest(1), frame(types.data, flags.endStream, 1, Buffer.concat([empty, empty])));
    assert.deepEqual(await statusOf(client, 1), ["3", "the call contains more than one request message"]);
  });
});

test("a client that does not read, sends on and leaves, leaves no file open", async () => {
  await using server = await startTestServer(
    { Version: () => Promise.resolve({ version: "x" }) },
    { keepaliveMs: 100 },
  );
  const files = (): number => readdirSync("/proc/self/fd").length;
  const before = files();
  const socket = connect(server.path);
  // The server may have had enough of it first.
  socket.on("error", () => undefined);
  const answered = once(socket, "data");
  socket.write(Buffer.concat([clientPreface, settings, settingsAck, versionRequest(1), message(1)]));
  await answered;
  socket.pause();
  const empty = Buffer.concat(Array<Buffer>(500).fill(frame(types.data, 0, 1)));
  for (let count = 0; count < 300; count += 1) {
    if (!socket.write(empty)) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  socket.destroy();
  await until("the connection to be closed", () => files() <= before);
});
