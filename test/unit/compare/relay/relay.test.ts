import assert from "node:assert/strict";
import { lstatSync, mkdirSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Relay, type RelayOptions } from "../../../../src/compare/relay/relay.js";
import {
  checkLink,
  pointAtPrimary,
  pointAtRelay,
  refuseLoop,
  relayPaths,
} from "../../../../src/compare/relay/relay-link.js";
import { silentLogger } from "../../../../src/lib/log.js";
import { temporaryDirectory } from "../grpc-peers.js";

/** `dial` connects to the relay; what the server accepted is in `accepted`. */
async function bench(t: TestContext, options: Partial<RelayOptions> = {}) {
  const directory = temporaryDirectory(t);
  const accepted: Socket[] = [];
  const primary = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    accepted.push(socket);
  });
  primary.listen(join(directory, "primary.sock"));
  await once(primary, "listening");
  const relay = new Relay({
    path: join(directory, "relay.sock"),
    primary: join(directory, "primary.sock"),
    log: silentLogger(),
    ...options,
  });
  await relay.start();
  const clients: Socket[] = [];
  t.after(async () => {
    for (const socket of [...clients, ...accepted]) socket.destroy();
    await relay.stop(0);
    primary.close();
  });
  const dial = async (): Promise<Socket> => {
    const socket = connect({ path: join(directory, "relay.sock"), allowHalfOpen: true });
    socket.on("error", () => undefined);
    clients.push(socket);
    await once(socket, "connect");
    return socket;
  };
  return { relay, directory, accepted, primary, dial };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

async function readAll(socket: Socket): Promise<Buffer> {
  // An asynchronous iterator would destroy the socket at its end.
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "end");
  return Buffer.concat(chunks);
}

test("Relay passes bytes in both directions and each half-close", async (t) => {
  const { dial, accepted, relay } = await bench(t);
  const client = await dial();
  client.end("question");
  await until(() => accepted.length === 1);
  const [server] = accepted;
  assert.ok(server);
  assert.equal((await readAll(server)).toString(), "question");
  // The client has ended, and the server still answers.
  server.write("answer ");
  server.end("and more");
  assert.equal((await readAll(client)).toString(), "answer and more");
  await until(() => relay.counts.open === 0);
});

test("Relay gives the tap exactly the bytes of each direction, and its end", async (t) => {
  const seen = { client: "", server: "", ended: 0 };
  const { dial, accepted } = await bench(t, {
    tap: () => ({
      fromClient: (chunk) => (seen.client += chunk.toString()),
      fromServer: (chunk) => (seen.server += chunk.toString()),
      ended: () => (seen.ended += 1),
    }),
  });
  const client = await dial();
  client.write("abc");
  await until(() => accepted.length === 1);
  accepted[0]?.end("xyz");
  client.resume();
  await once(client, "end");
  client.end("def");
  await until(() => seen.ended === 1);
  assert.deepEqual(seen, { client: "abcdef", server: "xyz", ended: 1 });
});

test("Relay goes on when the tap throws", async (t) => {
  const { dial, accepted } = await bench(t, {
    tap: () => ({
      fromClient: () => {
        throw new Error("broken tap");
      },
      fromServer: () => assert.fail("called after it failed"),
      ended: () => assert.fail("called after it failed"),
    }),
  });
  const client = await dial();
  client.end("question");
  await until(() => accepted.length === 1);
  accepted[0]?.resume().end("answer");
  assert.equal((await readAll(client)).toString(), "answer");
});

test("Relay reads no more than the other side takes", async (t) => {
  let passed = 0;
  const { dial, accepted } = await bench(t, {
    tap: () => ({ fromClient: (chunk) => (passed += chunk.length), fromServer: () => 0, ended: () => 0 }),
  });
  const client = await dial();
  await until(() => accepted.length === 1);
  const size = 32 * 1024 * 1024;
  client.end(Buffer.alloc(size));
  let before = -1;
  while (before !== passed) {
    before = passed;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(passed < 4 * 1024 * 1024, `${passed} bytes were read of a client whose server reads nothing`);
  const [server] = accepted;
  assert.ok(server);
  assert.equal((await readAll(server)).length, size);
});

test("Relay closes the client's connection when the server is not there, and when it dies", async (t) => {
  const { dial, accepted, primary, relay } = await bench(t);
  const client = await dial();
  await until(() => accepted.length === 1);
  primary.close();
  accepted[0]?.destroy();
  client.resume();
  await once(client, "end");
  client.end();
  const late = await dial();
  await once(late.resume(), "end");
  assert.equal(relay.counts.unanswered, 1);
  late.end();
  await until(() => relay.counts.open === 0);
});

test("Relay closes the server's connection when the client dies", async (t) => {
  const { dial, accepted } = await bench(t);
  const client = await dial();
  await until(() => accepted.length === 1);
  const ended = once(accepted[0]?.resume() ?? client, "end");
  client.destroy();
  await ended;
});

test("Relay closes connections above the limit", async (t) => {
  const { dial, accepted, relay } = await bench(t, { maximumConnections: 2 });
  await dial();
  await dial();
  await until(() => accepted.length === 2);
  const third = await dial();
  await once(third.resume(), "end");
  assert.equal(relay.counts.refused, 1);
  assert.equal(accepted.length, 2);
});

test("Relay ends open connections when the grace period has passed", async (t) => {
  const { dial, accepted, relay } = await bench(t);
  const client = await dial();
  await until(() => accepted.length === 1);
  const ended = once(client.resume(), "end");
  await relay.stop(20);
  await ended;
});

test("the link points at the relay and back at the primary, and nothing else is replaced", async (t) => {
  const directory = temporaryDirectory(t);
  const listen = join(directory, "cri.sock");
  const paths = relayPaths(listen, join(directory, "primary.sock"));
  assert.equal(await checkLink(paths), "absent");
  assert.equal(await pointAtPrimary(paths), false);
  await pointAtRelay(paths);
  assert.equal(readlinkSync(listen), paths.relay);
  assert.equal(await pointAtPrimary(paths), true);
  assert.equal(readlinkSync(listen), paths.primary);
  assert.equal(await checkLink(paths), "ours");
  await pointAtRelay(paths);
  assert.equal(readlinkSync(listen), paths.relay);

  const cases: [name: string, make: (path: string) => void, message: RegExp][] = [
    ["file", (path) => writeFileSync(path, "x"), /a file of another program is there; choose another path/],
    ["link", (path) => symlinkSync("/run/other.sock", path), /it is a link to "\/run\/other.sock"/],
  ];
  for (const [name, make, message] of cases) {
    const path = join(directory, name);
    make(path);
    const before = lstatSync(path).ino;
    await assert.rejects(pointAtRelay(relayPaths(path, paths.primary)), { kind: "conflict", message });
    assert.equal(lstatSync(path).ino, before);
  }
});

test("a socket that leads back to the relay is refused, by whatever name", async (t) => {
  const directory = temporaryDirectory(t);
  const at = (name: string): string => join(directory, name);
  mkdirSync(at("real"));
  symlinkSync("real", at("other-name"));
  symlinkSync("real/primary.sock", at("link-to-primary"));
  symlinkSync("second", at("first"));
  symlinkSync("real/listen.sock", at("second"));
  symlinkSync("circle", at("circle"));
  const paths = relayPaths(at("real/listen.sock"), at("real/primary.sock"));
  const looping = ["real/listen.sock", "other-name/listen.sock", "first", "real/.listen.sock.relay"];
  for (const isListening of [false, true]) {
    for (const name of looping)
      await assert.rejects(refuseLoop("--primary", at(name), paths), {
        kind: "invalid",
        message:
          `flag "--primary": ${JSON.stringify(at(name))} leads to ${JSON.stringify(paths.listen)}, ` +
          "where this relay listens; name the server's own socket",
      });
    for (const name of ["real/primary.sock", "link-to-primary", "circle", "missing/listen.sock"])
      await refuseLoop("--primary", at(name), paths);
    // What an ended shadow leaves: its link leads to the primary, and may be used again.
    if (!isListening) symlinkSync(paths.primary, paths.listen);
  }
});
