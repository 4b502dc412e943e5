import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { inspect, promisify } from "node:util";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { rejectsWith } from "../../../support/refusals.js";
import { messageOf, ShimError } from "../../../../src/lib/errors.js";
import { EngineClient, type EngineRequest } from "../../../../src/shim/engine/http/client.js";
import { cut, hang, json, refuse, type Respond, startFakeDocker } from "../fake-docker.js";
import { unreachable } from "../../../../src/shim/engine/http/errors.js";
import { limitConnecting } from "../../../../src/shim/engine/http/modem.js";
import { modulePath, moduleWords } from "../../../support/program-words.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const get: EngineRequest = { action: "read the thing", method: "GET", path: ["thing"], unversioned: true };
const post: EngineRequest = { ...get, action: "change the thing", method: "POST" };

const never = new AbortController().signal;

describe("EngineClient", () => {
  test("request() with readOnly sends GET, and refuses to send anything else", async () => {
    await using docker = await startFakeDocker({ "GET /thing": json({}), "POST /thing": json({}) });
    const client = docker.client({ readOnly: true });
    await client.request(get, never);
    for (const method of ["POST", "PUT", "DELETE"] as const) {
      const message = "change the thing: this server only reads (--read-only)";
      await rejectsWith(client.request({ ...post, method }, never), "precondition", message);
    }
    assert.equal(docker.requests.length, 1);
  });

  test("request() ends with its deadline when the engine is frozen, and lets go of the connection", async () => {
    await using docker = await startFakeDocker({ "GET /thing": hang, "GET /other": json({}) });
    const client = docker.client({ shortTimeoutMs: 50 });
    const first = "read the thing: not finished after 50ms; GET /thing; the engine at unix://.*";
    await rejectsWith(client.request(get, never), "timeout", new RegExp(`^${first} has not answered yet$`));
    const other = { ...get, action: "read the other", path: ["other"], timeoutMs: 60_000 };
    await client.request(other, never);
    const last = /; the engine at unix:.* last answered \d+ ms ago: 200 to read the other$/;
    await rejectsWith(client.request(get, never), "timeout", last);
    while (docker.sockets.size > 0) await new Promise(setImmediate);
  });

  for (const [when, answer] of [
    ["before the answer", hang],
    ["in the middle of the answer", (_request, response) => response.write("{")],
  ] as readonly (readonly [string, Respond])[]) {
    test(`request() ends when the caller leaves ${when}, and the engine sees it`, async () => {
      await using docker = await startFakeDocker({ "GET /thing": answer });
      const caller = new AbortController();
      const pending = docker.client().request(get, caller.signal);
      await docker.until((requests) => requests.length === 1);
      setTimeout(() => caller.abort(new ShimError("cancelled", "the kubelet left")), 5);
      await rejectsWith(pending, "cancelled", "the kubelet left");
      while (docker.sockets.size > 0) await new Promise(setImmediate);
    });
  }

  test("request() fails at once when the answer is cut short", async () => {
    await using docker = await startFakeDocker({ "GET /thing": cut('{"half":') });
    const message = /^read the thing: .*broke in the middle of its answer$/;
    await rejectsWith(docker.client().request(get, never), "unavailable", message);
  });

  test("request() refuses an answer beyond the limit without reading on", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set("GET /thing", (_request, response) => {
      const write = (): void => {
        while (!response.destroyed && response.write("x".repeat(10_000)));
      };
      response.on("drain", write);
      write();
    });
    await rejectsWith(docker.client({ answerLimitBytes: 50_000 }).request(get, never), "exhausted");
    while (docker.sockets.size > 0) await new Promise(setImmediate);
  });

  test("json() says that an answer is no JSON without quoting it", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set("GET /thing", (_request, response) => response.end("<html>secret"));
    const message = "read the thing: the engine's answer is not JSON";
    await rejectsWith(docker.client().json(get, never), "unknown", message);
  });

  test("request() reports what is not HTTP as an engine that cannot be reached", async () => {
    await using docker = await startFakeDocker();
    docker.server.prependListener("connection", (socket) => socket.end("SSH-2.0-OpenSSH\r\n"));
    const message = `cannot reach the Docker Engine at unix://${docker.path}: the answer is not HTTP`;
    await rejectsWith(docker.client().request(get, never), "unavailable", message);
  });

  test("request() names the endpoint when there is no socket, or no listener on it", async () => {
    const endpoint = { kind: "unix", path: "/nonexistent/docker.sock" } as const;
    const missing = new EngineClient({ endpoint, shortTimeoutMs: 1000 });
    const message = "cannot reach the Docker Engine at unix:///nonexistent/docker.sock: no such socket";
    await rejectsWith(missing.request(get, never), "unavailable", message);
    await using docker = await startFakeDocker();
    const client = docker.client();
    await client.request(get, never);
    docker.server.close();
    for (const socket of docker.sockets) socket.destroy();
    await once(docker.server, "close");
    await assert.rejects(client.request(get, never), { kind: "unavailable" });
  });

  test("a read is repeated when the engine has closed the kept connection", async () => {
    await using docker = await startFakeDocker({ "GET /thing": json("fine") });
    const client = docker.client();
    await client.json(get, never);
    let first = true;
    docker.answers.set("GET /thing", (request, response, body) => {
      if (first) request.socket.destroy();
      else json("fine")(request, response, body);
      first = false;
    });
    assert.equal(await client.json(get, never), "fine");
  });

  test("a repeatable request is repeated once when its answer breaks off", async () => {
    await using docker = await startFakeDocker();
    for (const request of [get, { ...post, repeatable: true as const }]) {
      const target = `${request.method} /thing`;
      let asked = 0;
      docker.answers.set(target, (...args) => {
        asked += 1;
        (asked === 1 ? cut("{") : json({ well: true }))(...args);
      });
      assert.deepEqual(await docker.client().json(request, never), { well: true });
      docker.answers.set(target, (...args) => {
        asked += 1;
        cut("{")(...args);
      });
      asked = 0;
      await assert.rejects(docker.client().json(request, never), /broke in the middle of its answer/);
      assert.equal(asked, 2);
    }
  });

  test("a write whose connection breaks is not repeated", async () => {
    await using docker = await startFakeDocker({ "POST /thing": (request) => request.socket.destroy() });
    await rejectsWith(docker.client().request(post, never), "unavailable");
    assert.deepEqual(docker.requests, ["POST /thing"]);
  });

  test("connections are kept and used again", async () => {
    await using docker = await startFakeDocker({ "GET /thing": json("fine") });
    let connections = 0;
    docker.server.on("connection", () => (connections += 1));
    const client = docker.client();
    for (let round = 0; round < 5; round += 1) await client.json(get, never);
    assert.equal(connections, 1);
  });

  test("idle connections are closed, connections in use are not, and new ones are made", async () => {
    await using docker = await startFakeDocker();
    // As Docker's: it closes no connection by itself.
    docker.server.keepAliveTimeout = 0;
    const waiting: (() => void)[] = [];
    docker.answers.set("GET /thing", (_request, response) => waiting.push(() => response.end('{"a":1}')));
    docker.answers.set("GET /quiet", (_request, response) => response.write(" "));
    const client = docker.client({ idleConnectionMs: 50 });
    const quiet = await client.open({ ...get, path: ["quiet"] }, never);
    const burst = Promise.all(Array.from({ length: 20 }, () => client.json(get, never)));
    await docker.until((requests) => requests.length === 21);
    assert.ok(docker.sockets.size > 20);
    for (const answer of waiting.splice(0)) answer();
    await burst;
    while (docker.sockets.size > 1) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(quiet.destroyed, false, "a stream may be silent for as long as it likes");
    quiet.destroy();
    docker.answers.set("GET /thing", json({ b: 2 }));
    assert.deepEqual(await client.json(get, never), { b: 2 });
  });

  test("requests that hang hold up no others, and let go of their connections with their callers", async () => {
    await using docker = await startFakeDocker({
      ...{ "GET /hung": hang, "POST /hung": hang },
      ...{ "GET /thing": json("read"), "POST /thing": json("written") },
    });
    const client = docker.client();
    const hung = new AbortController();
    const requests = [get, post].flatMap((request) =>
      Array.from({ length: 64 }, () => ({ ...request, path: ["hung"] })),
    );
    const settled = Promise.allSettled(requests.map((request) => client.request(request, hung.signal)));
    await docker.until((requests) => requests.length === 128);
    assert.equal(await client.json(get, never), "read");
    assert.equal(await client.json(post, never), "written");
    hung.abort();
    for (const result of await settled) assert.equal(result.status, "rejected");
    while (docker.sockets.size > 2) await new Promise(setImmediate);
  });

  for (const part of ["", ".", "..", "x".repeat(5000)]) {
    test(`the path part ${JSON.stringify(part.slice(0, 3))} names nothing and is not sent`, async () => {
      await using docker = await startFakeDocker();
      const client = docker.client();
      const answer = await client.request({ ...get, path: ["images", part, "json"] }, never);
      assert.equal(answer.status, 404);
      await assert.rejects(client.open({ ...get, path: [part] }, never), { kind: "notFound" });
      assert.deepEqual(docker.requests, []);
    });
  }

  test("path parts and query are encoded", async () => {
    await using docker = await startFakeDocker();
    const request = { ...get, path: ["a/../b?c", "json"], query: { q: "x&y=z" } };
    await docker.client().request(request, never);
    assert.deepEqual(docker.requests, ["GET /a%2F..%2Fb%3Fc/json?q=x%26y%3Dz"]);
  });

  test("a request before the version is negotiated is unavailable", async () => {
    await using docker = await startFakeDocker();
    await rejectsWith(docker.client().request({ ...get, unversioned: false }, never), "unavailable");
  });

  test("open() throws a refusal with the engine's words", async () => {
    await using docker = await startFakeDocker({ "GET /thing": refuse(409, "not now") });
    await rejectsWith(docker.client().open(get, never), "precondition", "not now");
  });

  for (const value of ["tcp://127.0.0.1:1", "garbage with spaces", "ssh://nowhere"]) {
    test(`DOCKER_HOST=${value} does not lead elsewhere`, async (context) => {
      const saved = process.env["DOCKER_HOST"];
      context.after(() => {
        if (saved === undefined) delete process.env["DOCKER_HOST"];
        else process.env["DOCKER_HOST"] = saved;
      });
      process.env["DOCKER_HOST"] = value;
      await using docker = await startFakeDocker({ "GET /thing": json("fine") });
      assert.equal(await docker.client().json(get, never), "fine");
      assert.equal(process.env["DOCKER_HOST"], value);
    });
  }

  test("docker-modem's debug log shows no credentials", async () => {
    await using docker = await startFakeDocker();
    const sent: string[] = [];
    docker.answers.set("GET /thing", (request, response) => {
      sent.push(String(request.headers["x-registry-auth"]));
      response.end("{}");
    });
    const program = `
      import { EngineClient } from ${JSON.stringify(modulePath("src/shim/engine/http/client.ts"))};
      const client = new EngineClient({ endpoint: { kind: "unix", path: ${JSON.stringify(docker.path)} }, shortTimeoutMs: 9000 });
      const headers = { "X-Registry-Auth": "hunter2" };
      const request = { action: "x", method: "GET", path: ["thing"], unversioned: true, headers };
      await client.request(request, new AbortController().signal);
      client.close();`;
    const [node, ...words] = moduleWords("--input-type=module", "--eval", program);
    const { stderr } = await promisify(execFile)(node, words, {
      env: { ...process.env, DEBUG: "modem" },
      timeout: 30_000,
    });
    assert.deepEqual(sent, ["hunter2"]);
    assert.doesNotMatch(stderr, /hunter2/);
  });

  test("errors say nothing of headers and bodies that were sent", async () => {
    await using docker = await startFakeDocker({ "POST /thing": cut("{") });
    const request = { ...post, headers: { "X-Registry-Auth": "hunter2" }, json: { Env: ["A=hunter3"] } };
    await assert.rejects(docker.client().request(request, never), (error) => {
      assert.doesNotMatch(messageOf(error) + inspect(error, { depth: 1 }), /hunter/);
      return true;
    });
  });
});

test("a connection that is never made is given up, and is no lost answer", async () => {
  const never = connect({ host: "engine.test", port: 1, lookup: () => undefined });
  const alive = setInterval(() => undefined, 1000); // Neither the limit nor such a look-up keeps a process alive.
  const failed = once(limitConnecting(never, 10), "error").finally(() => clearInterval(alive));
  const [error] = (await failed.catch((reason: unknown) => [reason])) as [Error];
  const problem = unreachable("tcp://engine.test:1", error);
  const message = "cannot reach the Docker Engine at tcp://engine.test:1: no connection within 4 s";
  assert.deepEqual([problem.message, problem.fields], [message, {}]);
});

test("a connection that is made stays, however long the answer takes", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "engine.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket)).listen(path);
  await once(server, "listening");
  const socket = limitConnecting(connect({ path }), 500);
  if (socket.connecting) await once(socket, "connect");
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.equal(socket.destroyed, false);
  socket.destroy();
  for (const one of sockets) one.destroy();
  server.close();
});
