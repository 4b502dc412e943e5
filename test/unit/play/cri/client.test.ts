import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, describe, test } from "node:test";
import { loadPackageDefinition, Server, ServerCredentials, status } from "@grpc/grpc-js";
import type { sendUnaryData, ServerUnaryCall, ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { isKind, ShimError } from "../../../../src/lib/errors.js";
import type { ConnectedClient } from "../../../../src/play/cri/client.js";
import { connect } from "../../../../src/play/cri/client.js";

type Request = Readonly<Record<string, unknown>>;

/** A gRPC server with the CRI's own definitions, which records requests. */
class RecordingServer {
  readonly requests: (readonly [string, Request])[] = [];
  answers: Readonly<Record<string, unknown>> = {};
  readonly #server = new Server();

  constructor() {
    const file = fileURLToPath(new URL("../../../../proto/runtime/v1/api.proto", import.meta.url));
    const loaded = loadPackageDefinition(loadSync(file, { keepCase: true, longs: String, defaults: true }));
    const { v1 } = (loaded as unknown as { runtime: { v1: Record<string, ServiceClientConstructor> } })
      .runtime;
    for (const name of ["RuntimeService", "ImageService"]) {
      const definition = v1[name]?.service;
      assert.ok(definition);
      const handler =
        (rpc: string) => (call: ServerUnaryCall<Request, unknown>, done: sendUnaryData<unknown>) => {
          this.requests.push([rpc, call.request]);
          const answer = this.answers[rpc];
          if (answer instanceof Error) done(answer);
          else if (answer !== "never") done(null, answer ?? {});
        };
      this.#server.addService(
        definition,
        Object.fromEntries(Object.keys(definition).map((rpc) => [rpc, handler(rpc)])),
      );
    }
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
  }

  close(): void {
    this.#server.forceShutdown();
  }
}

const { signal } = new AbortController();

describe("connect()", () => {
  let directory: string;
  let server: RecordingServer;
  let client: ConnectedClient;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "play-client-"));
    server = new RecordingServer();
    await server.listen(join(directory, "s"));
    client = connect(`unix://${join(directory, "s")}`);
  });
  after(async () => {
    client.close();
    server.close();
    await rm(directory, { recursive: true });
  });

  async function requestOf(rpc: string, work: () => Promise<unknown>): Promise<Request> {
    server.requests.length = 0;
    await work();
    const found = server.requests.find(([name]) => name === rpc);
    assert.ok(found, `${rpc} was not called`);
    return found[1];
  }

  test("cgroupDriver() is undefined for a server without RuntimeConfig, or that says nothing in it", async () => {
    const unimplemented = Object.assign(new Error("unknown method"), { code: status.UNIMPLEMENTED });
    for (const [answer, expected] of [
      [{ linux: { cgroup_driver: "SYSTEMD" } }, "systemd"],
      [{ linux: { cgroup_driver: "CGROUPFS" } }, "cgroupfs"],
      [{}, undefined],
      [unimplemented, undefined],
    ] as const) {
      server.answers = { RuntimeConfig: answer };
      assert.equal(await client.cgroupDriver(signal), expected);
    }
    server.answers = {};
  });

  test("sends the handler and the configuration of a sandbox, and answers its id", async () => {
    server.answers = { RunPodSandbox: { pod_sandbox_id: "id" } };
    const metadata = { name: "web", uid: "u", namespace: "n", attempt: 1 };
    const request = await requestOf("RunPodSandbox", async () => {
      assert.equal(await client.runPodSandbox({ metadata }, "gvisor", signal), "id");
    });
    assert.equal(request["runtime_handler"], "gvisor");
    assert.deepEqual((request["config"] as Request)["metadata"], metadata);
  });

  test("takes a missing image as such, and passes the grace period and label filter", async () => {
    server.answers = {};
    assert.equal(await client.imageStatus("x", signal), undefined);
    const stop = await requestOf("StopContainer", () => client.stopContainer("c", 7, signal));
    assert.deepEqual(stop, { container_id: "c", timeout: "7" });
    const list = await requestOf("ListPodSandbox", () => client.listPodSandboxes({ a: "b" }, signal));
    assert.deepEqual((list["filter"] as Request)["label_selector"], { a: "b" });
  });

  const codes: readonly (readonly [status, ShimError["kind"]])[] = [
    [status.INVALID_ARGUMENT, "invalid"],
    [status.NOT_FOUND, "notFound"],
    [status.FAILED_PRECONDITION, "precondition"],
    [status.UNKNOWN, "unknown"],
  ];
  for (const [code, kind] of codes) {
    test(`turns the status ${status[code]} into the kind ${kind}, with the RPC's name and the server's words`, async () => {
      server.answers = { StartContainer: Object.assign(new Error("broken"), { code, details: "why not" }) };
      await assert.rejects(client.startContainer("c", signal), (error) => {
        assert.ok(isKind(error, kind));
        assert.equal(error.message, "StartContainer: why not");
        return true;
      });
    });
  }

  test("ends a call that is never answered when its signal aborts, with the reason of the abort", async () => {
    server.answers = { PullImage: "never" };
    const controller = new AbortController();
    const call = client.pullImage("x", {}, controller.signal);
    controller.abort(new ShimError("cancelled", "interrupted"));
    await assert.rejects(call, { message: "interrupted" });
    await assert.rejects(client.pullImage("x", {}, controller.signal), { message: "interrupted" });
  });

  test("names a socket without a server", async () => {
    const lonely = connect(join(directory, "missing"));
    try {
      await assert.rejects(
        lonely.version(signal),
        /missing": no CRI server answers there; start dockershim first/,
      );
    } finally {
      lonely.close();
    }
  });
});
