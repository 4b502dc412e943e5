import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import fc from "fast-check";
import { status, type Client } from "@grpc/grpc-js";
import { CallObserver, type ObservedCall } from "../../../../src/compare/relay/call-observer.js";
import { Budget } from "../../../../src/compare/relay/message-reader.js";
import { Relay, type Tap } from "../../../../src/compare/relay/relay.js";
import { silentLogger } from "../../../../src/lib/log.js";
import { clientPreface, flags, frame, integer, settings, types } from "../../grpc/http2-writer.js";
import { callStream, callUnary, connectClient, startEchoServer, temporaryDirectory } from "../grpc-peers.js";

type Observed = ReturnType<typeof observe>;

/** A call whose messages are copied: they may be used during `onCall` alone. */
const kept = (call: ObservedCall) => ({
  ...call,
  requestBytes: call.requests.map(({ bytes }) => Buffer.from(bytes)),
  responseBytes: call.responses.map(({ bytes }) => Buffer.from(bytes)),
});

function observe(budget = new Budget(64 * 1024 * 1024)) {
  const calls: ReturnType<typeof kept>[] = [];
  const givenUp: string[] = [];
  const observer = new CallObserver({
    budget,
    onCall: (call) => calls.push(kept(call)),
    onGivenUp: (reason) => givenUp.push(reason),
    now: () => performance.now(),
  });
  return { observer, calls, givenUp, budget };
}

/** A server behind a relay whose connections are observed, and a client of it. */
async function relayed(
  t: TestContext,
  tap?: (observed: Observed) => Tap,
): Promise<{ client: Client; observed: Observed; chunks: [from: string, chunk: Buffer][] }> {
  const directory = temporaryDirectory(t);
  const server = await startEchoServer(join(directory, "primary.sock"));
  t.after(() => server.stop());
  const observed = observe();
  const chunks: [string, Buffer][] = [];
  const { observer } = observed;
  const relay = new Relay({
    path: join(directory, "relay.sock"),
    primary: join(directory, "primary.sock"),
    log: silentLogger(),
    tap: () =>
      tap?.(observed) ?? {
        fromClient: (chunk) => {
          chunks.push(["client", Buffer.from(chunk)]);
          observer.fromClient(chunk);
        },
        fromServer: (chunk) => {
          chunks.push(["server", Buffer.from(chunk)]);
          observer.fromServer(chunk);
        },
        ended: () => observer.ended(),
      },
  });
  await relay.start();
  const client = connectClient(join(directory, "relay.sock"));
  t.after(async () => {
    client.close();
    await relay.stop(0);
  });
  return { client, observed, chunks };
}

test("CallObserver tells request and answer of a unary call, and passes metadata", async (t) => {
  const { client, observed } = await relayed(t);
  const { bytes, trailers } = await callUnary(client, "Echo", Buffer.from("hello"), { mark: "m1" });
  assert.equal(bytes?.toString(), "hello");
  assert.deepEqual(trailers?.get("seen"), ["m1"]);
  const [call] = observed.calls;
  assert.equal(call?.path, "/test.Service/Echo");
  assert.deepEqual(call.requestBytes.map(String), ["hello"]);
  assert.deepEqual(call.responseBytes.map(String), ["hello"]);
  assert.equal(call.status?.code, 0);
  assert.equal(call.end, "answered");
  assert.ok(call.endedMs >= call.startedMs);
});

test("CallObserver tells all messages of a stream, and an empty message", async (t) => {
  const { client, observed } = await relayed(t);
  assert.equal((await callStream(client, "Repeat", Buffer.from("x"))).length, 5);
  await callUnary(client, "Echo", Buffer.alloc(0));
  const [stream, empty] = observed.calls;
  const found = stream?.responseBytes.map((bytes) => bytes.toString("hex"));
  assert.deepEqual(found, ["0078", "0178", "0278", "0378", "0478"]);
  assert.deepEqual(empty?.requestBytes.map(String), [""]);
  assert.deepEqual(empty.responseBytes.map(String), [""]);
});

test("CallObserver tells an error with its decoded message; the client gets its details", async (t) => {
  const { client, observed } = await relayed(t);
  const { error } = await callUnary(client, "Fail", Buffer.from("x"));
  assert.equal(error?.details, 'no such pod "ü%": gone');
  assert.equal(String(error.metadata.get("grpc-status-details-bin")[0]), "details");
  const [call] = observed.calls;
  assert.deepEqual(call?.status, { code: status.NOT_FOUND, message: 'no such pod "ü%": gone' });
  assert.deepEqual(call.responseBytes, []);
});

test("CallObserver tells deadlines, cancels and calls of a connection that ends", async (t) => {
  const { client, observed } = await relayed(t);
  const { error } = await callUnary(client, "Hang", Buffer.from("d"), { deadlineMs: 100 });
  assert.equal(error?.code, status.DEADLINE_EXCEEDED);
  const code = (await callUnary(client, "Hang", Buffer.from("c"), { cancel: true })).error?.code;
  assert.equal(code, status.CANCELLED);
  await callUnary(client, "Echo", Buffer.from("behind the cancel"));
  const [late, ...others] = observed.calls;
  assert.equal(String(late?.requestBytes[0]), "d");
  // The server may answer at the moment at which the client leaves.
  assert.ok(late?.end === "cancelled" || late?.status?.code === status.DEADLINE_EXCEEDED);
  const rows = others.map(({ end, requestBytes }) => [end, String(requestBytes[0])]);
  assert.deepEqual(rows, [
    ["cancelled", "c"],
    ["answered", "behind the cancel"],
  ]);
  const hanging = callUnary(client, "Hang", Buffer.from("e"));
  while (observed.observer.openCalls === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  client.close();
  observed.observer.ended();
  assert.equal(observed.calls[3]?.end, "disconnected");
  assert.equal(observed.budget.takenBytes, 0);
  void hanging;
});

test("CallObserver tells messages of 16 MiB in both directions", async (t) => {
  const { client, observed } = await relayed(t);
  const size = 16 * 1024 * 1024;
  const large = Buffer.alloc(size, "y");
  assert.ok((await callUnary(client, "Echo", large)).bytes?.equals(large));
  const [call] = observed.calls;
  assert.equal(call?.isTruncated, false);
  assert.ok(call.requestBytes[0]?.equals(large));
  assert.ok(call.responseBytes[0]?.equals(large));
  assert.equal(observed.budget.takenBytes, 0);
});

test("CallObserver keeps a hundred calls at once apart", async (t) => {
  const { client, observed } = await relayed(t);
  const sent = Array.from({ length: 100 }, (_, index) => Buffer.from(String(index).repeat(index * 20)));
  await Promise.all(sent.map((request) => callUnary(client, "Echo", request)));
  assert.equal(observed.calls.length, 100);
  for (const { requestBytes, responseBytes } of observed.calls) assert.deepEqual(requestBytes, responseBytes);
  assert.deepEqual(new Set(observed.calls.map(({ requestBytes }) => String(requestBytes[0]))).size, 100);
});

test("CallObserver leaves out messages above its budget, and follows the call all the same", async (t) => {
  const small = observe(new Budget(64 * 1024));
  const { client } = await relayed(t, () => small.observer);
  await callUnary(client, "Large", Buffer.from("1000000"));
  await callUnary(client, "Echo", Buffer.from("after"));
  const rows = small.calls.map(({ isTruncated, status: { code } = { code: -1 } }) => [isTruncated, code]);
  assert.deepEqual(rows, [
    [true, 0],
    [false, 0],
  ]);
  assert.equal(small.budget.takenBytes, 0);
});

test("CallObserver reads padding, priority, CONTINUATION and changes of the table's size", () => {
  const { observer, calls, givenUp } = observe();
  const path = Buffer.from("/p/M");
  const fields = Buffer.concat([
    integer(1024, 5, 0x20), // The table shrinks …
    integer(16_384, 5, 0x20), // … and grows above its default.
    Buffer.of(0x44),
    integer(path.length, 7, 0),
    path,
  ]);
  const padded = Buffer.concat([Buffer.of(3), Buffer.alloc(5), fields.subarray(0, 4), Buffer.alloc(3)]);
  const data = Buffer.concat([
    Buffer.of(2),
    Buffer.from([0, 0, 0, 0, 2]),
    Buffer.from("hi"),
    Buffer.alloc(2),
  ]);
  observer.fromClient(
    Buffer.concat([
      clientPreface,
      settings,
      frame(types.headers, flags.padded | flags.priority, 1, padded),
      frame(types.continuation, flags.endHeaders, 1, fields.subarray(4)),
      frame(types.priority, 0, 1, Buffer.alloc(5)),
      frame(types.data, flags.padded | flags.endStream, 1, data),
      // The second request takes its path from the table.
      frame(types.headers, flags.endHeaders | flags.endStream, 3, Buffer.of(0xbe)),
    ]),
  );
  const trailersOnly = Buffer.concat([
    Buffer.of(0x88, 0x00, 11),
    Buffer.from("grpc-status"),
    Buffer.of(2),
    Buffer.from("12"),
  ]);
  observer.fromServer(
    Buffer.concat([
      settings,
      frame(types.headers, flags.endHeaders | flags.endStream, 1, trailersOnly),
      frame(types.goAway, 0, 0, Buffer.alloc(8)),
      frame(types.reset, 0, 3, Buffer.alloc(4)),
    ]),
  );
  assert.deepEqual(givenUp, []);
  const rows = calls.map(({ path: called, end, status: answered, requestBytes }) => [
    called,
    end,
    answered?.code,
    requestBytes.map(String),
  ]);
  assert.deepEqual(rows, [
    ["/p/M", "answered", 12, ["hi"]],
    ["/p/M", "cancelled", undefined, []],
  ]);
});

test("CallObserver notes compressed messages and gives up at a wrong flag", () => {
  const { observer, calls, givenUp } = observe();
  const headers = frame(types.headers, flags.endHeaders, 1, Buffer.of(0x84));
  const message = (flag: number): Buffer => Buffer.of(flag, 0, 0, 0, 1, 7);
  observer.fromClient(
    Buffer.concat([clientPreface, settings, headers, frame(types.data, flags.endStream, 1, message(1))]),
  );
  observer.fromServer(Buffer.concat([settings, frame(types.reset, 0, 1, Buffer.alloc(4))]));
  assert.equal(calls[0]?.requests[0]?.compressed, true);
  observer.fromClient(
    Buffer.concat([
      frame(types.headers, flags.endHeaders, 3, Buffer.of(0x84)),
      frame(types.data, 0, 3, message(9)),
    ]),
  );
  assert.deepEqual(givenUp, ["a message with flag 9"]);
  observer.fromClient(headers);
  observer.ended();
  assert.equal(calls.length, 1);
});

test("CallObserver never throws and holds nothing after cut and mutated bytes", async (t) => {
  const { client, chunks } = await relayed(t);
  await callUnary(client, "Echo", Buffer.from("hello".repeat(100)), { mark: "a" });
  await callStream(client, "Repeat", Buffer.from("x"));
  await callUnary(client, "Fail", Buffer.from("x"));
  await callUnary(client, "Hang", Buffer.from("x"), { deadlineMs: 50 });
  assert.ok(chunks.length > 8);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(), fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 200 }),
      fc.boolean(),
      (mutations, step, cutOff) => {
        const { observer, budget } = observe(new Budget(1024 * 1024));
        const mutated = chunks.map(([from, chunk]) => [from, Buffer.from(chunk)] as const);
        for (const [which, where, value] of mutations) {
          const chunk = mutated[which % mutated.length]?.[1];
          if (chunk !== undefined && chunk.length > 0) chunk[where % chunk.length] = value;
        }
        for (const [from, chunk] of mutated) {
          const end = cutOff ? Math.floor(chunk.length / 2) : chunk.length;
          for (let offset = 0; offset < end; offset += step) {
            const piece = chunk.subarray(offset, Math.min(offset + step, end));
            if (from === "client") observer.fromClient(piece);
            else observer.fromServer(piece);
          }
          assert.ok(budget.takenBytes <= 1024 * 1024);
        }
        observer.ended();
        assert.equal(observer.openCalls, 0);
        assert.equal(budget.takenBytes, 0);
      },
    ),
    { numRuns: 500 },
  );
});
