import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../../../src/lib/errors.js";
import { cat, fakeCommand, sleepForever, type FakeCommand } from "../../../fakes/streaming-sessions.js";
import { until } from "../../../fakes/turns.js";
import type { ClientStream } from "../../../support/spdy-client.js";
import { startStreamingBed, type StreamingBed } from "../../../support/streaming-bed.js";
import { openSpdy } from "../../../support/streaming-client.js";

type StreamType = "error" | "stdin" | "stdout" | "stderr" | "resize";

const usual = "v4.channel.k8s.io";
const exiting = (code: number, options: Parameters<typeof fakeCommand>[1] = {}): FakeCommand =>
  fakeCommand(async () => code, options);

/** The streams that client-go opens for the session, in its order. */
async function open(bed: StreamingBed, session: FakeCommand, protocol = usual) {
  const client = await openSpdy(bed.server.offer(session), [protocol]);
  const sizes = session.tty && /^v[34]/.test(protocol);
  const { stdin, stdout, stderr } = session;
  const wanted = Object.entries({ error: true, stdin, stdout, stderr, resize: sizes }).filter(([, is]) => is);
  const streams = wanted.map(([streamType]) => [streamType, client.open({ streamType })] as const);
  return { client, streams: Object.fromEntries(streams) as Record<StreamType, ClientStream> };
}

describe("a command over SPDY", () => {
  test("receives its input and its end, and sends both outputs and its exit code", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(async ({ stdin, stdout, stderr }) => {
      for await (const chunk of stdin!) stdout!.write(chunk);
      stderr!.write("done");
      return 3;
    });
    const { client, streams } = await open(bed, session);
    streams.stdin.write("hel");
    streams.stdin.end("lo");
    const texts = [streams.error, streams.stdout, streams.stderr].map((stream) => stream.text());
    const [error = "", stdout, stderr] = await Promise.all(texts);
    assert.deepEqual([stdout, stderr], ["hello", "done"]);
    assert.deepEqual((JSON.parse(error) as { details: unknown }).details, {
      causes: [{ reason: "ExitCode", message: "3" }],
    });
    await client.closed;
    assert.equal(client.goAway, 0);
    await bed.empty();
  });

  for (const protocol of ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"]) {
    test(`sends a client of ${protocol} failures as text, and nothing on success`, async () => {
      await using bed = await startStreamingBed();
      const good = await open(bed, exiting(0), protocol);
      assert.equal(await good.streams.error.text(), "");
      const bad = await open(bed, exiting(2), protocol);
      assert.match(await bad.streams.error.text(), /^command terminated with non-zero exit code: .*2$/);
    });
  }

  test("sends its status before its outputs end", async () => {
    await using bed = await startStreamingBed();
    const { streams } = await open(bed, exiting(0, { stdin: false, stderr: false }));
    let statusAtEnd = 0;
    streams.stdout.received.once("end", () => {
      statusAtEnd = streams.error.received.readableLength;
    });
    await streams.stdout.text();
    assert.ok(statusAtEnd > 0);
  });

  test("starts when the last of its streams is open, in any order", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(cat(), { stderr: false });
    const client = await openSpdy(bed.server.offer(session));
    const stdout = client.open({ streamType: "stdout" });
    const stdin = client.open({ streamType: "stdin" });
    stdin.end("early");
    await until("the stream is open", () => stdin.replied);
    assert.equal(session.running, 0);
    client.open({ streamType: "error" });
    assert.equal(await stdout.text(), "early");
  });

  for (const [name, headers] of [
    ["that was not requested", { streamType: "stderr" }],
    ["that is open already", { streamType: "error" }],
    ["of an unknown type", { streamType: "toString" }],
    ["without a type", {}],
  ] as const) {
    test(`refuses a stream ${name} and continues`, async () => {
      await using bed = await startStreamingBed();
      const client = await openSpdy(bed.server.offer(fakeCommand(cat(), { stderr: false })));
      client.open({ streamType: "error" });
      const refused = client.open(headers);
      await until("the stream is refused", () => refused.resetStatus !== undefined);
      assert.equal(refused.resetStatus, 3);
      const stdin = client.open({ streamType: "stdin" });
      const stdout = client.open({ streamType: "stdout" });
      stdin.end("x");
      assert.equal(await stdout.text(), "x");
    });
  }

  test("receives the sizes of its terminal", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(cat(), { stderr: false, tty: true });
    const { client, streams } = await open(bed, session);
    streams.resize.write('{"Width":80,"Height":24}\n');
    await until("the size has arrived", () => session.sizes.length > 0);
    assert.deepEqual(session.sizes, [{ columns: 80, rows: 24 }]);
    streams.stdin.end();
    await client.closed;
  });

  test("is never started for a client that does not open its streams in time", async () => {
    await using bed = await startStreamingBed({ streamCreationTimeoutMs: 30 });
    const session = fakeCommand(cat());
    const client = await openSpdy(bed.server.offer(session));
    client.open({ streamType: "error" });
    await client.closed;
    await bed.empty();
    assert.match(String(bed.lines.at(-1)?.fields["err"]), /wait for the client to open its streams/);
  });

  test("may destroy its streams without an error at the client", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(async ({ stdin, stdout }) => {
      stdin!.destroy();
      stdout!.destroy(new Error("broken pipe"));
      return 0;
    });
    const { client, streams } = await open(bed, session);
    streams.stdin.write("dropped");
    assert.match(await streams.error.text(), /Success/);
    await client.closed;
    assert.deepEqual([streams.stdin.resetStatus, streams.stdout.resetStatus], [undefined, undefined]);
  });

  test("fails alone when the client sends invalid SPDY", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(sleepForever);
    const { client } = await open(bed, session);
    await until("it runs", () => session.running === 1);
    client.socket.write(Buffer.from("8003000100ffffff", "hex"));
    await bed.empty();
    assert.ok(isKind(session.abortedBy, "invalid"));
  });
});
