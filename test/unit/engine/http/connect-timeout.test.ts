import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { unreachable } from "../../../../src/shim/engine/http/errors.js";
import { limitConnecting } from "../../../../src/shim/engine/http/modem.js";
import { Agent, request } from "node:http";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

test("a connection that is never made is given up, and is no lost answer", async () => {
  const agent = new Agent();
  const never = connect({ host: "engine.test", port: 1, lookup: () => undefined });
  agent.createConnection = () => never;
  limitConnecting(agent, 10);
  const asked = request({ host: "engine.test", port: 1, agent });
  asked.end();
  const alive = setInterval(() => undefined, 1000); // Neither the limit nor such a look-up keeps a process alive.
  const [error] = (await once(asked, "error").finally(() => clearInterval(alive))) as [Error];
  const problem = unreachable("tcp://engine.test:1", error);
  assert.equal(
    problem.message,
    "cannot reach the Docker Engine at tcp://engine.test:1: no connection within 4 s",
  );
  assert.deepEqual(problem.fields, {});
});

test("a connection that is made stays, however long the answer takes", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "engine.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket)).listen(path);
  await once(server, "listening");
  const agent = new Agent();
  limitConnecting(agent, 500);
  const asked = request({ socketPath: path, agent });
  asked.end();
  const [socket] = (await once(asked, "socket")) as [Socket];
  if (socket.connecting) await once(socket, "connect");
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.equal(socket.destroyed, false);
  asked.on("error", () => undefined);
  asked.destroy();
  for (const one of sockets) one.destroy();
  server.close();
});
