import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isKind } from "../../../../src/lib/errors.js";
import { cat, fakeCommand, sleepForever } from "../../../fakes/streaming-sessions.js";
import { until } from "../../../fakes/turns.js";
import { startStreamingBed } from "../../../support/streaming-bed.js";
import { openWebSocket, type WebSocketClient } from "../../../support/streaming-client.js";

const endOfStdin = Buffer.from([255, 0]);
const onStdin = (data: string): Buffer => Buffer.from(`\0${data}`);

const allProtocols = [
  ["v5.channel.k8s.io", "json", false],
  ["v4.channel.k8s.io", "json", false],
  ["v4.base64.channel.k8s.io", "json", true],
  ["v3.channel.k8s.io", "text", false],
  ["v2.channel.k8s.io", "text", false],
  ["channel.k8s.io", "text", false],
  ["base64.channel.k8s.io", "text", true],
  ["", "text", false],
] as const;

/** All messages, in text and binary protocols. */
function read(client: WebSocketClient, base64: boolean): { channel: number; data: string }[] {
  return client.messages.map((message) =>
    base64
      ? {
          channel: message.readUInt8(0) - 48,
          data: Buffer.from(message.toString("latin1", 1), "base64").toString(),
        }
      : { channel: message.readUInt8(0), data: message.toString("utf8", 1) },
  );
}

describe("a command over WebSocket", () => {
  for (const [protocol, form, base64] of allProtocols) {
    test(`speaks ${JSON.stringify(protocol)}`, async () => {
      await using bed = await startStreamingBed();
      const session = fakeCommand(async ({ stdin, stdout, stderr }) => {
        for await (const chunk of stdin!) {
          stdout!.write(chunk);
          break;
        }
        stderr!.write("done");
        return 3;
      });
      const client = await openWebSocket(bed.server.offer(session), protocol);
      client.ws.send(base64 ? `0${Buffer.from("hello").toString("base64")}` : onStdin("hello"));
      assert.equal(await client.closed, 1000);
      const messages = read(client, base64).map(({ channel, data }) => `${channel} ${data}`);
      assert.deepEqual([...messages.slice(0, 2), messages.at(-2)], ["1 ", "1 hello", "2 done"]);
      const status = messages.at(-1) ?? "";
      assert.equal(status.startsWith('3 {"metadata":{}'), form === "json");
      assert.match(status, /^3 .*command terminated with non-zero exit code/);
      assert.ok(client.texts.every((isText) => isText === base64));
      await bed.empty();
    });
  }

  for (const [name, options, channel] of [
    ["stdout", {}, 1],
    ["stderr without stdout", { stdout: false }, 2],
    ["the error channel without outputs", { stdout: false, stderr: false }, 3],
  ] as const) {
    test(`is announced by an empty message on ${name}`, async () => {
      await using bed = await startStreamingBed();
      const session = fakeCommand(sleepForever, options);
      const client = await openWebSocket(bed.server.offer(session), "v4.channel.k8s.io");
      await until("the message is there", () => client.messages.length > 0);
      assert.deepEqual(client.messages, [Buffer.from([channel])]);
    });
  }

  test("receives the end of its input from a client of v5", async () => {
    await using bed = await startStreamingBed();
    const client = await openWebSocket(bed.server.offer(fakeCommand(cat())), "v5.channel.k8s.io");
    client.ws.send(onStdin("hello"));
    client.ws.send(endOfStdin);
    client.ws.send(onStdin("too late"));
    await client.closed;
    assert.equal(client.channel(1), "hello");
    assert.match(client.channel(3), /Success/);
  });

  test("255 is an unknown channel before v5", async () => {
    await using bed = await startStreamingBed();
    const client = await openWebSocket(bed.server.offer(fakeCommand(cat())), "v4.channel.k8s.io");
    client.ws.send(endOfStdin);
    client.ws.send(onStdin("hello"));
    await until("the input comes back", () => client.channel(1) === "hello");
  });

  test("drops data on channels that were not requested", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(sleepForever, { stdin: false });
    const client = await openWebSocket(bed.server.offer(session), "v5.channel.k8s.io");
    for (const bytes of [[0, 7], [1, 2], [9, 9], [], [255, 7]]) client.ws.send(Buffer.from(bytes));
    await new Promise((resolve) => {
      client.ws.once("pong", resolve);
      client.ws.ping();
    });
    assert.equal(session.running, 1);
  });

  test("receives the sizes of its terminal", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(sleepForever, { tty: true, stderr: false });
    const client = await openWebSocket(bed.server.offer(session), "v5.channel.k8s.io");
    client.ws.send(Buffer.from('\x04{"Width":80,"Height":24}'));
    await until("the size has arrived", () => session.sizes.length > 0);
    assert.deepEqual(session.sizes, [{ columns: 80, rows: 24 }]);
  });

  for (const [name, protocol, message, code] of [
    ...["0a", "0aGk", "0aGk=x", "0====", "0aG k=", "/aGk=", "0aG-_"].map(
      (text) => [`${text}, which is no base64`, "v4.base64.channel.k8s.io", text, 1007] as const,
    ),
    ["the end of two channels at once", "v5.channel.k8s.io", Buffer.from([255, 0, 1]), 1002],
    ["a message above the limit", "v5.channel.k8s.io", Buffer.alloc(33 * 1024 * 1024), 1009],
  ] as const) {
    test(`is ended by ${name}`, async () => {
      await using bed = await startStreamingBed();
      const session = fakeCommand(sleepForever);
      const client = await openWebSocket(bed.server.offer(session), protocol);
      client.ws.send(message);
      // The frame with the code may be overtaken by the end of the connection.
      assert.ok([code, 1006].includes(await client.closed));
      await bed.empty();
      assert.ok(isKind(session.abortedBy, "invalid"));
    });
  }

  test("answers only the latest ping while an answer is being sent", async () => {
    await using bed = await startStreamingBed();
    const client = await openWebSocket(bed.server.offer(fakeCommand(sleepForever)), "v5.channel.k8s.io");
    const pongs: string[] = [];
    client.ws.on("pong", (data) => pongs.push(data.toString()));
    for (let ping = 0; ping < 5000; ping += 1) client.ws.ping(String(ping));
    await until("the last ping is answered", () => pongs.at(-1) === "4999");
  });

  test("survives any messages", async () => {
    await using bed = await startStreamingBed();
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...allProtocols.map(([protocol]) => protocol)),
        fc.array(fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.string({ maxLength: 40 })), { maxLength: 6 }),
        async (protocol, messages) => {
          const session = fakeCommand(cat(), { tty: true, stderr: false });
          const client = await openWebSocket(bed.server.offer(session), protocol);
          for (const message of messages) client.ws.send(message);
          client.ws.close();
          await client.closed;
          await bed.empty();
          assert.equal(session.running, 0);
        },
      ),
      { numRuns: 60 },
    );
  });
});
