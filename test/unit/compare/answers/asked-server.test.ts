import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type AskedServer, connectAsked } from "../../../../src/compare/answers/asked-server.js";
import { type CriHandler as Handler, startCriServer as serve, temporaryDirectory } from "../grpc-peers.js";

const { signal } = new AbortController();
const limits = { connectMs: 300, callMs: 300, probeMs: 300 };

const version: Handler = (done) => done(null, { runtime_name: "docker", runtime_api_version: "v1" });
const status: Handler = (done) => done(null, {});

/** What listens there speaks no gRPC: it says `text`, or nothing. */
async function listen(t: TestContext, text: string): Promise<string> {
  const socket = join(temporaryDirectory(t), "s");
  const open = new Set<Socket>();
  const server = createServer((connection) => {
    open.add(connection);
    connection.on("error", () => undefined);
    if (text !== "") connection.write(text);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.after(() => {
    for (const connection of open) connection.destroy();
    server.close();
  });
  return socket;
}

for (const [what, text, message] of [
  ["says nothing", "", "ask SOCKET: no answer within 300ms"],
  ["answers garbage", "HTTP/1.1 400 Bad Request\r\n\r\n", "connect to SOCKET: no CRI server answers there"],
] as const)
  test(`connectAsked() names a socket whose server ${what}, and the next step`, async (t) => {
    const socket = await listen(t, text);
    await assert.rejects(connectAsked(socket, signal, limits), (error: Error) => {
      const [reason = "", next = ""] = error.message.split("; ");
      assert.equal(reason, message.replace("SOCKET", JSON.stringify(socket)));
      assert.match(next, /^name the socket of a CRI server that runs/);
      return true;
    });
  });

test("connectAsked() names a socket that nobody serves", async () => {
  await assert.rejects(
    connectAsked("unix:///nowhere/cri.sock", signal, limits),
    /^ShimError: connect to "\/nowhere\/cri\.sock": no CRI server answers there; name the socket/,
  );
});

async function connected(t: TestContext, handlers: Record<string, Handler>): Promise<AskedServer> {
  const server = await connectAsked(await serve(t, handlers), signal, limits);
  t.after(() => server.close());
  return server;
}

test("ask() answers an error of the server by its code and message", async (t) => {
  const server = await connected(t, {
    ...{ Version: version, Status: status },
    ContainerStatus: (done) => done({ code: 5, details: "no such container" }),
    ListImages: (done) => done({ code: 1, details: "Call cancelled" }),
  });
  assert.equal(server.kind, "cri-dockerd");
  assert.deepEqual(await server.ask("ContainerStatus", { container_id: "x" }, signal), {
    error: { code: 5, message: "no such container" },
  });
  assert.equal(((await server.ask("ImageFsInfo", {}, signal)) as { error: { code: number } }).error.code, 12);
  // A server cancels calls at its end: that is no answer.
  await assert.rejects(server.ask("ListImages", {}, signal), { kind: "unavailable" });
});

test("ask() takes a call that hangs for an answer while the server answers others, else it throws", async (t) => {
  const handlers: Record<string, Handler> = {
    ...{ Version: version, Status: status },
    ListContainerStats: () => undefined,
  };
  const server = await connected(t, handlers);
  assert.deepEqual(await server.ask("ListContainerStats", {}, signal), {
    error: { code: 4, message: "no answer within 300ms" },
  });
  handlers["Version"] = () => undefined;
  const message = /ask ".*": no answer within 300ms; name the socket/;
  await assert.rejects(server.ask("ListContainerStats", {}, signal), message);
});
