import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import type { sendUnaryData, ServerUnaryCall } from "@grpc/grpc-js";
import { connectToServer } from "../../../../src/client/cri-connection.js";
import { criMethods } from "../../../../src/client/cri-messages.js";
import { CgroupDriver } from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { type ConnectedClient, connect } from "../../../../src/play/cri/client.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const { signal } = new AbortController();

describe("connect()", () => {
  const requests: (readonly [string, object])[] = [];
  let answers: Readonly<Record<string, unknown>> = {};
  const server = new Server();
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let client: ConnectedClient;

  before(async () => {
    directory = await temporaryDirectory();
    for (const [rpc, { path, responseSerialize, requestDeserialize }] of criMethods()) {
      const handle = ({ request }: ServerUnaryCall<object, unknown>, done: sendUnaryData<unknown>): void => {
        requests.push([rpc, request]);
        const answer = answers[rpc];
        if (answer instanceof Error) done(answer);
        else if (answer !== "never") done(null, answer ?? {});
      };
      server.register(path, handle, responseSerialize as never, requestDeserialize, "unary");
    }
    const address = `unix:${join(directory.path, "s")}`;
    await new Promise((resolve) => server.bindAsync(address, ServerCredentials.createInsecure(), resolve));
    client = connect(`unix://${join(directory.path, "s")}`);
  });
  after(async () => {
    client.close();
    server.forceShutdown();
    await directory[Symbol.asyncDispose]();
  });

  test("cgroupDriver() is undefined for a server without RuntimeConfig, or that says nothing in it", async () => {
    const unimplemented = Object.assign(new Error("unknown method"), { code: status.UNIMPLEMENTED });
    for (const [answer, expected] of [
      [{ linux: { cgroup_driver: CgroupDriver.SYSTEMD } }, "systemd"],
      [{ linux: { cgroup_driver: CgroupDriver.CGROUPFS } }, "cgroupfs"],
      [{}, undefined],
      [unimplemented, undefined],
    ] as const) {
      answers = { RuntimeConfig: answer };
      assert.equal(await client.cgroupDriver(signal), expected);
    }
  });

  test("sends what it was told, answers ids, and takes a missing image as such", async () => {
    answers = { RunPodSandbox: { pod_sandbox_id: "id" } };
    requests.length = 0;
    const metadata = { name: "web", uid: "u", namespace: "n", attempt: 1 };
    assert.equal(await client.runPodSandbox({ metadata }, "gvisor", signal), "id");
    assert.equal(await client.imageStatus("x", signal), undefined);
    await client.stopContainer("c", 7, signal);
    await client.listPodSandboxes({ a: "b" }, signal);
    const sent = Object.fromEntries(requests) as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    assert.equal(sent["RunPodSandbox"]?.["runtime_handler"], "gvisor");
    assert.deepEqual((sent["RunPodSandbox"]["config"] as { metadata: object }).metadata, metadata);
    assert.deepEqual({ ...sent["StopContainer"] }, { container_id: "c", timeout: "7" });
    assert.deepEqual((sent["ListPodSandbox"]?.["filter"] as { label_selector: object }).label_selector, {
      a: "b",
    });
  });

  test("turns a status into a kind, with the RPC's name and the server's words", async () => {
    for (const [code, kind] of [
      [status.INVALID_ARGUMENT, "invalid"],
      [status.NOT_FOUND, "notFound"],
      [status.FAILED_PRECONDITION, "precondition"],
      [status.UNKNOWN, "unknown"],
    ] as const) {
      answers = { StartContainer: Object.assign(new Error("broken"), { code, details: "why not" }) };
      await assert.rejects(client.startContainer("c", signal), { kind, message: "StartContainer: why not" });
    }
  });

  test("ends a call that is never answered when its signal aborts, with the reason of the abort", async () => {
    answers = { PullImage: "never" };
    const controller = new AbortController();
    const call = client.pullImage("x", {}, controller.signal);
    controller.abort(new ShimError("cancelled", "interrupted"));
    await assert.rejects(call, { message: "interrupted" });
    await assert.rejects(client.pullImage("x", {}, controller.signal), { message: "interrupted" });
  });

  test("names a socket without a server", async () => {
    const lonely = connect(join(directory.path, "missing"));
    const expected = /missing": no CRI server answers there; start dockershim first/;
    await assert.rejects(lonely.version(signal), expected);
    lonely.close();
  });

  test("names the owner of a socket that this user may not open", async () => {
    const socket = join(directory.path, "closed.sock");
    const server = createServer().listen(socket);
    await once(server, "listening");
    await chmod(socket, 0);
    const denied = connect(socket);
    const isRoot = process.geteuid?.() === 0;
    try {
      if (isRoot) process.seteuid?.(65_534);
      const expected = /closed.sock": permission denied: the socket belongs to (root|user \d+)$/;
      await assert.rejects(denied.version(signal), { kind: "denied", message: expected });
      await assert.rejects(connectToServer(socket, signal), /belongs to (root|user \d+); run as root$/);
    } finally {
      if (isRoot) process.seteuid?.(0);
      denied.close();
      server.close();
    }
  });
});
