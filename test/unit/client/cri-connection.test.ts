import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import { connectToServer, criMethods, socketPath } from "../../../src/client/cri-connection.js";
import { isKind } from "../../../src/shim/lib/errors.js";

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
