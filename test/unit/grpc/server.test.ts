import { once } from "node:events";
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { connect } from "node:net";
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import * as grpc from "@grpc/grpc-js";
import { currentCall } from "../../../src/lib/call.js";
import { ShimError, type ErrorKind } from "../../../src/lib/errors.js";
import { concatenateList } from "../../../src/shim/grpc/codec/list-bytes.js";
import { api, connectClient, startTestServer, type Message } from "./test-server.js";
import { withResolvers } from "../../fakes/turns.js";

const mebibyte = 1024 * 1024;

describe("startGrpcServer()", () => {
  for (const version of ["v1", "v1alpha2"] as const) {
    test(`answers a unary call of ${version}`, async () => {
      await using server = await startTestServer({
        Version: (request) => Promise.resolve({ version: "0.1.0", runtime_version: `of ${request.version}` }),
      });
      using client = connectClient(server.path, version);
      assert.deepEqual(await client.call("Version", { version: "abc" }), {
        version: "0.1.0",
        runtime_name: "",
        runtime_version: "of abc",
        runtime_api_version: "",
      });
    });
    for (const [service, rpc] of Object.entries({ RuntimeService: "Attach", ImageService: "PullImage" })) {
      test(`answers UNIMPLEMENTED for ${rpc} of ${version} without a handler`, async () => {
        await using server = await startTestServer({});
        using client = connectClient(server.path, version, service);
        await assert.rejects(client.call(rpc, {}), {
          code: grpc.status.UNIMPLEMENTED,
          details: `${rpc} is not implemented by dockershim`,
        });
      });
    }
  }

  test("answers a server stream without a handler with UNIMPLEMENTED", async () => {
    await using server = await startTestServer({});
    using client = connectClient(server.path);
    await assert.rejects(once(client.stream("GetContainerEvents", {}), "metadata"), {
      code: grpc.status.UNIMPLEMENTED,
      details: "GetContainerEvents is not implemented by dockershim",
    });
  });

  test("sends a Buffer as the encoded answer", async () => {
    const items = ["a", "b".repeat(300)].map((id) =>
      api.encodeItem.container({ id, created_at: "1700000000123456789" }),
    );
    await using server = await startTestServer({
      ListContainers: () => Promise.resolve(concatenateList(items)),
    });
    using client = connectClient(server.path);
    const answer = (await client.call("ListContainers", {})) as { containers: Message[] };
    assert.deepEqual(
      answer.containers.map(({ id, created_at }) => ({ id, created_at })),
      [
        { id: "a", created_at: "1700000000123456789" },
        { id: "b".repeat(300), created_at: "1700000000123456789" },
      ],
    );
  });

  test("runs handlers in the context of their call", async () => {
    await using server = await startTestServer({
      Version: async (_request, call) => {
        await Promise.resolve();
        const isCurrent = currentCall() === (call.log.isLevelEnabled("debug") ? call : undefined);
        return { version: String(isCurrent), runtime_name: call.rpc };
      },
      RunPodSandbox: (_request, call) => Promise.resolve({ pod_sandbox_id: call.pod }),
    });
    using client = connectClient(server.path);
    const { version, runtime_name } = await client.call("Version", {});
    assert.deepEqual({ version, runtime_name }, { version: "true", runtime_name: "Version" });
    const request = { config: { metadata: { name: "web", namespace: "default" } } };
    assert.deepEqual(await client.call("RunPodSandbox", request), { pod_sandbox_id: "default/web" });
  });

  describe("turns what a handler throws into a status", () => {
    const kinds: Readonly<Record<ErrorKind, grpc.status>> = {
      invalid: grpc.status.INVALID_ARGUMENT,
      notFound: grpc.status.NOT_FOUND,
      conflict: grpc.status.ALREADY_EXISTS,
      precondition: grpc.status.FAILED_PRECONDITION,
      unsupported: grpc.status.UNIMPLEMENTED,
      unavailable: grpc.status.UNAVAILABLE,
      timeout: grpc.status.DEADLINE_EXCEEDED,
      cancelled: grpc.status.CANCELLED,
      exhausted: grpc.status.RESOURCE_EXHAUSTED,
      denied: grpc.status.PERMISSION_DENIED,
      internal: grpc.status.INTERNAL,
      unknown: grpc.status.UNKNOWN,
    };
    const text = 'a "b" 100%: ä\n\t\u0000\u007f€😀';
    const { INTERNAL, INVALID_ARGUMENT, NOT_FOUND, UNKNOWN } = grpc.status;
    const failed = (kind: string, message: string): ShimError => new ShimError(kind as ErrorKind, message);
    const cases: readonly (readonly [name: string, thrown: unknown, code: grpc.status, details: string])[] = [
      ...Object.entries(kinds).map(
        ([kind, code]) => [`a ShimError ${kind}`, failed(kind, text), code, text] as const,
      ),
      ["an Error", new Error("oops"), INTERNAL, "oops"],
      ["a string", "oops", INTERNAL, "oops"],
      ["undefined", undefined, INTERNAL, "undefined"],
      ["an object without text", Object.create(null), INTERNAL, "something was thrown that has no text"],
      ["an unpaired surrogate", failed("invalid", "\ud800!"), INVALID_ARGUMENT, "\ufffd!"],
      ["spaces at both ends", failed("notFound", "  no such thing:  "), NOT_FOUND, "  no such thing:  "],
      ["an empty message", failed("notFound", ""), NOT_FOUND, "notFound"],
      ["a text of 1 MiB", failed("unknown", "é".repeat(mebibyte)), UNKNOWN, "é".repeat(2048)],
    ];
    for (const [name, thrown, code, details] of cases) {
      test(name, async () => {
        await using server = await startTestServer({
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- anything may be thrown
          Version: () => Promise.reject(thrown),
          Status: () => {
            throw thrown;
          },
        });
        using client = connectClient(server.path);
        await assert.rejects(client.call("Version", {}), { code, details });
        await assert.rejects(client.call("Status", {}), { code, details }, "thrown synchronously");
      });
    }
  });

  test("answers INTERNAL when an answer cannot be encoded", async () => {
    await using server = await startTestServer({
      // A map where a message belongs.
      Status: () => Promise.resolve({ status: "ready" as unknown as null }),
      // Not an object at all.
      Version: () => Promise.resolve(undefined as unknown as object),
    });
    using client = connectClient(server.path);
    await assert.rejects(client.call("Status", {}), { code: grpc.status.INTERNAL });
    await assert.rejects(client.call("Version", {}), { code: grpc.status.INTERNAL });
  });

  test("a cancelled call aborts the signal of its handler as cancelled", async () => {
    const aborted = withResolvers<unknown>();
    const started = withResolvers<undefined>();
    await using server = await startTestServer({
      RunPodSandbox: async (_request, { signal }) => {
        signal.addEventListener("abort", () => {
          aborted.resolve(signal.reason);
        });
        started.resolve(undefined);
        await aborted.promise;
        return {};
      },
    });
    using client = connectClient(server.path);
    const call = client.start("RunPodSandbox", {});
    await started.promise;
    call.cancel();
    await assert.rejects(call.answer, { code: grpc.status.CANCELLED });
    const reason = await aborted.promise;
    assert.ok(reason instanceof ShimError);
    assert.equal(reason.kind, "cancelled");
  });

  test("the signal of a call that was answered is not aborted", async () => {
    let kept: AbortSignal | undefined;
    await using server = await startTestServer({
      Version: (_request, { signal }) => {
        kept = signal;
        return Promise.resolve({});
      },
    });
    {
      using client = connectClient(server.path);
      await client.call("Version", {});
      await client.call("Version", {});
    }
    await server.server.close();
    assert.equal(kept?.aborted, false);
  });

  for (const authority of ["localhost", "/run/x.sock"]) {
    test(`takes and gives messages of 16 MiB and refuses 17 MiB with RESOURCE_EXHAUSTED (${authority})`, async () => {
      const overhead = 5; // Tag and length of the only field.
      const largest = 16 * mebibyte - overhead;
      await using server = await startTestServer({
        Version: (request) => Promise.resolve({ version: "x".repeat(Number(request.version)) }),
        RemoveContainer: (request) => {
          assert.equal(request.container_id.length, largest);
          return Promise.resolve({});
        },
      });
      using client = connectClient(server.path, "v1", "RuntimeService", authority);
      await client.call("RemoveContainer", { container_id: "x".repeat(largest) });
      const { version } = await client.call("Version", { version: String(largest) });
      assert.equal(String(version).length, largest);
      const code = grpc.status.RESOURCE_EXHAUSTED;
      await assert.rejects(client.call("RemoveContainer", { container_id: "x".repeat(17 * mebibyte) }), {
        code,
      });
      await assert.rejects(client.call("Version", { version: String(17 * mebibyte) }), {
        code,
        details: /^Version: the answer is too large: /,
      });
    });
  }

  test("gives handlers the longest timeout that timers can hold for one of 50 days", async () => {
    let aborted: boolean | undefined;
    await using server = await startTestServer({
      StopContainer: async (_request, { signal }) => {
        await new Promise((resolve) => setTimeout(resolve, 50));
        aborted = signal.aborted;
        return {};
      },
    });
    using client = connectClient(server.path);
    // 50 days and 1 s are 1 s modulo 2^32 ms; 30 days are negative as a signed number.
    for (const days of [30, 50]) {
      await client.call("StopContainer", {}, { deadline: Date.now() + days * 86_400_000 });
      assert.equal(aborted, false);
    }
  });

  describe("server streams", () => {
    test("deliver every message in order and end", async () => {
      await using server = await startTestServer({
        GetContainerEvents: async (_request, _call, send) => {
          for (let index = 0; index < 100; index += 1) await send({ container_id: String(index) });
        },
      });
      using client = connectClient(server.path);
      const ids: unknown[] = [];
      for await (const message of client.stream("GetContainerEvents", {}))
        ids.push((message as Message)["container_id"]);
      assert.deepEqual(ids, [...Array(100).keys()].map(String));
    });

    test("end with the status of what their handler throws, after the messages before", async () => {
      await using server = await startTestServer({
        GetContainerEvents: async (_request, _call, send) => {
          await send({ container_id: "first" });
          throw new ShimError("unavailable", "no more");
        },
      });
      using client = connectClient(server.path);
      const stream = client.stream("GetContainerEvents", {});
      const ids: unknown[] = [];
      stream.on("data", (message: Message) => ids.push(message["container_id"]));
      const [error] = (await once(stream, "error")) as [grpc.ServiceError];
      assert.deepEqual([ids, error.code, error.details], [["first"], grpc.status.UNAVAILABLE, "no more"]);
    });

    test("end the wait of send() when the client leaves", async () => {
      const failed = withResolvers<unknown>();
      await using server = await startTestServer({
        GetContainerEvents: async (_request, _call, send) => {
          try {
            for (;;) await send({ container_id: "x".repeat(100_000) });
          } catch (error) {
            failed.resolve(error);
            throw error;
          }
        },
      });
      using client = connectClient(server.path);
      const stream = client.stream("GetContainerEvents", {});
      stream.on("error", () => undefined);
      await once(stream, "metadata"); // Nobody reads the messages: send() has to wait.
      stream.cancel();
      const error = await failed.promise;
      assert.ok(error instanceof ShimError);
      assert.equal(error.kind, "cancelled");
    });
  });

  test("makes the socket file private and removes it on close()", async () => {
    await using server = await startTestServer({});
    assert.equal((await stat(server.path)).mode & 0o777, 0o600);
    assert.equal(server.server.endpoint, `unix://${server.path}`);
    await server.server.close();
    assert.equal(existsSync(server.path), false);
  });
});

describe("drain()", () => {
  test("waits for calls in flight and takes no new connections", async () => {
    const started = withResolvers<undefined>();
    const release = withResolvers<undefined>();
    await using server = await startTestServer({
      Version: async () => {
        started.resolve(undefined);
        await release.promise;
        return { version: "late" };
      },
    });
    using client = connectClient(server.path);
    const answer = client.call("Version", {});
    await started.promise;
    const drained = server.server.drain(60_000);
    const refused = connect(server.path);
    await once(refused, "error");
    release.resolve(undefined);
    assert.equal((await answer)["version"], "late");
    await drained;
    assert.equal(existsSync(server.path), false);
  });

  test("aborts calls that do not end in time as unavailable and lets them clean up", async () => {
    const started = withResolvers<undefined>();
    let cleanedUp = false;
    await using server = await startTestServer({
      Version: async (_request, { signal }) => {
        started.resolve(undefined);
        await once(signal, "abort");
        await new Promise((resolve) => setImmediate(resolve));
        cleanedUp = true;
        throw signal.reason;
      },
    });
    using client = connectClient(server.path);
    const answer = assert.rejects(client.call("Version", {}), { code: grpc.status.UNAVAILABLE });
    await started.promise;
    await server.server.drain(10);
    assert.equal(cleanedUp, true);
    await answer;
  });

  test("does not wait for server streams", async () => {
    await using server = await startTestServer({
      GetContainerEvents: async (_request, { signal }, send) => {
        await send({ container_id: "x" });
        await once(signal, "abort");
        throw signal.reason;
      },
    });
    using client = connectClient(server.path);
    const stream = client.stream("GetContainerEvents", {});
    stream.resume();
    const failed = once(stream, "error") as Promise<[grpc.ServiceError]>;
    await once(stream, "data");
    await server.server.drain(600_000);
    assert.equal((await failed)[0].code, grpc.status.UNAVAILABLE);
  });

  test("closes connections that have not sent a request", async () => {
    await using server = await startTestServer({});
    const silent = connect(server.path);
    silent.resume();
    await once(silent, "data");
    const closed = once(silent, "close");
    await server.server.drain(1000);
    await closed;
  });
});
