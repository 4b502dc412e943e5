import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import { loadSync, type ServiceDefinition } from "@grpc/proto-loader";
import { connectCri, connectToServer, socketPath } from "../../../src/client/cri-connection.js";
import { criMethods } from "../../../src/client/cri-messages.js";
import { isKind } from "../../../src/lib/errors.js";

const { signal } = new AbortController();

test("socketPath() takes unix:// endpoints and absolute paths only", () => {
  assert.equal(socketPath("unix:///run/x.sock"), "/run/x.sock");
  assert.equal(socketPath("/run/x.sock"), "/run/x.sock");
  for (const endpoint of ["tcp://127.0.0.1:1", "run/x.sock", "unix://x.sock", ""]) {
    assert.throws(() => socketPath(endpoint), /must be unix:/);
  }
});

for (const version of ["v1", "v1alpha2"] as const) {
  test(`connectToServer() finds out that a server has ${version} alone`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "connection-"));
    t.after(() => rm(directory, { recursive: true }));
    const socket = join(directory, "s");
    const server = new Server();
    const method = criMethods().get("Version");
    assert.ok(method);
    const path = method.path.replace("/runtime.v1.", `/runtime.${version}.`);
    server.register(
      path,
      (_call: unknown, done: (error: null, answer: object) => void) => {
        done(null, { version: "0.1.0", runtime_name: "docker" });
      },
      method.responseSerialize,
      method.requestDeserialize,
      "unary",
    );
    await new Promise((resolve, reject) => {
      server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
        if (error === null) resolve(undefined);
        else reject(error);
      });
    });
    t.after(() => {
      server.forceShutdown();
    });
    const connection = await connectToServer(`unix://${socket}`, signal);
    t.after(() => {
      connection.close();
    });
    assert.equal(connection.version, version);
    assert.equal((await connection.call("Version", {}, { signal })).runtime_name, "docker");
    await assert.rejects(connection.call("Status", {}, { signal }), (error) => {
      assert.equal(((error as Error).cause as { code: number }).code, status.UNIMPLEMENTED);
      return isKind(error, "unsupported");
    });
  });
}

test("connectToServer() names the socket that nobody serves", async () => {
  await assert.rejects(
    connectToServer("/nowhere/cri.sock", signal),
    /connect to "\/nowhere\/cri\.sock": no CRI server answers there; name the socket of a CRI server/,
  );
});

test("close() cancels calls that are running", { timeout: 10_000 }, async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "connection-"));
  t.after(() => rm(directory, { recursive: true }));
  const socket = join(directory, "s");
  const sockets: Socket[] = [];
  const silent = createServer((accepted) => sockets.push(accepted)).listen(socket);
  t.after(() => {
    for (const accepted of sockets) accepted.destroy();
    silent.close();
  });
  const connection = connectCri(socket);
  const asked = connection.call("Version", {}, { signal });
  connection.close();
  await assert.rejects(asked, (error) => isKind(error, "cancelled"));
});

const file = new URL("../../../proto/runtime/v1/api.proto", import.meta.url).pathname;
const loaded = loadSync(file, { keepCase: true, longs: String, defaults: true, oneofs: true });

test("every answer that @grpc/grpc-js encodes is decoded, also numbers with a fraction", () => {
  for (const { responseDeserialize } of criMethods().values())
    assert.ok(responseDeserialize(Buffer.alloc(0)));
  const theirs = (loaded["runtime.v1.RuntimeService"] as ServiceDefinition)["ListContainerStats"];
  const own = criMethods().get("ListContainerStats");
  assert.ok(theirs !== undefined && own !== undefined);
  const some = { Avg10: 0.5, Avg60: -2.25, Avg300: 1e9, Total: "7" };
  const bytes = theirs.responseSerialize({ stats: [{ cpu: { psi: { Some: some, Full: null } } }] });
  assert.deepEqual(own.responseDeserialize(bytes), theirs.responseDeserialize(bytes));
});
