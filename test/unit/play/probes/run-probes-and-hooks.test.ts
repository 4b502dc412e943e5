import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { promisify } from "node:util";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer } from "node:net";
import { createServer as createTlsServer } from "node:https";
import { describe, test } from "node:test";
import { Server as GrpcServer, ServerCredentials, status as grpcStatus } from "@grpc/grpc-js";
import type { sendUnaryData, ServerUnaryCall } from "@grpc/grpc-js";
import { type Dial, dialFromHere } from "../../../../src/play/cri/dial.js";
import {
  makeHandlers,
  type HandlerTarget,
  type ProbeOutcome,
} from "../../../../src/play/probes/run-probes-and-hooks.js";
import type { Probe } from "../../../../src/play/manifests/pod-schema.js";
import type { CriClient } from "../../../../src/play/cri/client.js";
import { isKind, ShimError } from "../../../../src/lib/errors.js";

const never = new AbortController().signal;
type ExecSync = CriClient["execSync"];
const noExec: ExecSync = () => assert.fail("no command");

function handlers(execSync: ExecSync = noExec, dial = dialFromHere): ReturnType<typeof makeHandlers> {
  return makeHandlers({ client: { execSync }, dial });
}

function target(container: Partial<HandlerTarget["container"]> = {}): HandlerTarget {
  return { containerId: "c1", podIp: "127.0.0.1", container: { name: "web", image: "web", ...container } };
}

function probe(given: Probe, container?: Partial<HandlerTarget["container"]>): Promise<ProbeOutcome> {
  return handlers().probe(given, target(container), never);
}

function exited(exitCode: number, stdout = "", stderr = ""): Awaited<ReturnType<ExecSync>> {
  return { exit_code: exitCode, stdout: Buffer.from(stdout), stderr: Buffer.from(stderr) };
}

async function listen(server: TcpServer): Promise<{ readonly port: number } & Disposable> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, [Symbol.dispose]: () => server.close() };
}

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

async function serve(answer: Answer): Promise<{ port: number; requests: IncomingMessage[] } & Disposable> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    answer(request, response);
  });
  const { port } = await listen(server);
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { port, requests, [Symbol.dispose]: close };
}

async function selfSigned(): Promise<{ readonly key: Buffer; readonly cert: Buffer }> {
  const directory = await mkdtemp(join(tmpdir(), "dockershim-handlers-"));
  const [key, cert] = [join(directory, "key"), join(directory, "cert")];
  try {
    await promisify(execFile)("openssl", [
      ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1".split(" "),
      ...["-subj", "/CN=elsewhere", "-keyout", key, "-out", cert],
    ]);
    return { key: await readFile(key), cert: await readFile(cert) };
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function closedPort(): Promise<number> {
  using at = await listen(createTcpServer());
  return at.port;
}

describe("a probe by a command", () => {
  test("succeeds with exit code 0, and expands variables of the manifest", async () => {
    const asked: unknown[] = [];
    const execSync: ExecSync = (id, command, seconds) => {
      asked.push([id, command, seconds]);
      return Promise.resolve(exited(0, "fine"));
    };
    const given = { exec: { command: ["test", "$(A)", "$(B)", "$(C)", "$$(A)"] }, timeoutSeconds: 7 };
    const container = {
      env: [
        { name: "A", value: "1" },
        { name: "B", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      ],
    };
    const outcome = await handlers(execSync).probe(given, target(container), never);
    assert.deepEqual(outcome, { result: "success", message: "fine" });
    assert.deepEqual(asked, [["c1", ["test", "1", "", "$(C)", "$(A)"], 7]]);
  });

  test("fails with another exit code, and says the output, up to 10 KiB", async () => {
    const execSync: ExecSync = () => Promise.resolve(exited(1, "out ", "e".repeat(20_000)));
    const outcome = await handlers(execSync).probe({ exec: { command: ["x"] } }, target(), never);
    assert.equal(outcome.result, "failure");
    assert.equal(outcome.message, `out ${"e".repeat(10 * 1024 - 4)}`);
  });

  test("fails when the command does not end in time, which is 1 s unless given", async () => {
    const execSync: ExecSync = (_id, _command, seconds) => {
      assert.equal(seconds, 1);
      return Promise.reject(new ShimError("timeout", "ExecSync: too slow"));
    };
    const given = { exec: { command: ["x"] }, timeoutSeconds: 0 };
    const outcome = await handlers(execSync).probe(given, target(), never);
    assert.equal(outcome.result, "failure");
  });

  test("is unknown when the CRI server fails three times, and not before", async () => {
    let calls = 0;
    const execSync = (failures: number): ExecSync => {
      calls = 0;
      return () => {
        calls += 1;
        return calls > failures
          ? Promise.resolve(exited(0))
          : Promise.reject(new ShimError("unavailable", "gone"));
      };
    };
    const given = { exec: { command: ["x"] } };
    assert.equal((await handlers(execSync(2)).probe(given, target(), never)).result, "success");
    assert.deepEqual(await handlers(execSync(3)).probe(given, target(), never), {
      result: "unknown",
      message: "gone",
    });
    assert.equal(calls, 3);
  });

  test("rejects when its signal aborts", async () => {
    const controller = new AbortController();
    const execSync: ExecSync = () => {
      controller.abort(new ShimError("cancelled", "the container is gone"));
      return Promise.reject(new ShimError("cancelled", "aborted"));
    };
    const running = handlers(execSync).probe({ exec: { command: ["x"] } }, target(), controller.signal);
    await assert.rejects(running, /the container is gone/);
  });
});

describe("a probe by HTTP", () => {
  test("asks the pod as a kubelet does: path with its query, headers, port by name", async () => {
    using at = await serve((_request, response) => response.end("ok"));
    const outcome = await probe(
      {
        httpGet: {
          port: "http",
          path: "health z?a=1#part",
          httpHeaders: [
            { name: "X-A", value: "1" },
            { name: "x-a", value: "2" },
          ],
        },
      },
      { ports: [{ name: "http", containerPort: at.port }] },
    );
    assert.deepEqual(outcome, { result: "success", message: "ok" });
    const [request] = at.requests;
    assert.equal(request?.url, "/health%20z?a=1");
    assert.equal(request.headers["x-a"], "1, 2");
    assert.equal(request.headers["user-agent"], "kube-probe/1.36");
    assert.equal(request.headers.accept, "*/*");
    assert.equal(request.headers.host, `127.0.0.1:${at.port}`);
    assert.equal(request.headers["accept-encoding"], undefined);
    assert.equal(request.headers.connection, "close");
  });

  test("leaves no connection open when a header cannot be sent", async () => {
    using at = await serve((_request, response) => response.end());
    const sockets: Duplex[] = [];
    const dial: Dial = async (...where) => {
      const socket = await dialFromHere(...where);
      sockets.push(socket);
      return socket;
    };
    const httpHeaders = [{ name: "X Y", value: "1" }];
    const outcome = await handlers(noExec, dial).probe(
      { httpGet: { port: at.port, httpHeaders } },
      target(),
      never,
    );
    assert.equal(outcome.result, "failure");
    const destroyeds = sockets.map(({ destroyed }) => destroyed);
    assert.deepEqual(destroyeds, [true]);
  });

  test("sends the manifest's User-Agent and Host, no empty Accept, and headers as UTF-8", async () => {
    using at = await serve((_request, response) => response.end());
    const given = { "user-agent": "mine", Accept: "", Host: "example.org", "X-A": "é€" };
    const httpHeaders = Object.entries(given).map(([name, value]) => ({ name, value }));
    await probe({ httpGet: { port: at.port, httpHeaders } });
    const { headers, url } = at.requests[0]!;
    const found = [headers["user-agent"], headers.accept, headers.host, url];
    assert.deepEqual(found, ["mine", undefined, "example.org", "/"]);
    assert.equal(Buffer.from(String(headers["x-a"]), "latin1").toString(), "é€");
  });

  const status =
    (code: number, headers = {}): Answer =>
    (_request, response) =>
      response.writeHead(code, headers).end();
  const answers: readonly (readonly [string, Answer, ProbeOutcome["result"], RegExp, number])[] = [
    ...[200, 204, 304].map((code) => [`status ${code}`, status(code), "success", /^/, 1] as const),
    ...[400, 404, 503].map(
      (code) =>
        [
          `status ${code}`,
          status(code),
          "failure",
          new RegExp(`failed with statuscode: ${code}$`),
          1,
        ] as const,
    ),
    [
      "a redirect to another host",
      status(302, { location: "http://localhost:1/" }),
      "success",
      /redirect to another host/,
      1,
    ],
    ["redirects without an end", status(301, { location: "/" }), "failure", /stopped after 10 redirects/, 10],
    [
      "a body that never ends",
      (_request, response) => void response.write("x".repeat(100_000)),
      "success",
      /^x{10240}$/,
      1,
    ],
    [
      "an answer that breaks off",
      (_request, response) =>
        response.writeHead(200, { "content-length": "10" }).write("x", () => response.destroy()),
      "unknown",
      /^/,
      3,
    ],
    ["no answer in time", () => undefined, "failure", /within 1 s/, 1],
  ];
  for (const [what, answer, result, message, requests] of answers)
    test(`with ${what}: ${result}`, async () => {
      using at = await serve(answer);
      const outcome = await probe({ httpGet: { port: at.port } });
      assert.equal(outcome.result, result);
      assert.match(outcome.message, message);
      assert.equal(at.requests.length, requests);
    });

  test("follows redirects on the same host, also to another port", async () => {
    using last = await serve((_request, response) => response.writeHead(500).end());
    using at = await serve(({ url }, response) => {
      const location = url === "/" ? "/next?x=1" : `http://127.0.0.1:${last.port}/last`;
      response.writeHead(url === "/" ? 307 : 302, { location }).end();
    });
    const outcome = await probe({ httpGet: { port: at.port } });
    assert.equal(outcome.message, "HTTP probe failed with statuscode: 500");
    const urls = at.requests.map(({ url }) => url);
    assert.deepEqual(urls, ["/", "/next?x=1"]);
    assert.equal(last.requests[0]?.url, "/last");
  });

  test("fails when nothing listens", async () => {
    const { result, message } = await probe({ httpGet: { port: await closedPort() } });
    assert.equal(result, "failure");
    assert.match(message, /connection refused/);
  });

  test("by HTTPS does not check the certificate", async () => {
    const server = createTlsServer(await selfSigned(), (_request, response) => response.end("secure"));
    using at = await listen(server);
    const outcome = await probe({ httpGet: { port: at.port, scheme: "HTTPS" } });
    server.closeAllConnections();
    assert.deepEqual(outcome, { result: "success", message: "secure" });
  });

  test("is unknown for a port that the container does not have, and where pods cannot be reached", async () => {
    const outcome = await probe({ httpGet: { port: "admin" } });
    assert.deepEqual([outcome.result, /"admin"/.test(outcome.message)], ["unknown", true]);
    const elsewhere = handlers(noExec, () =>
      Promise.reject(new ShimError("unsupported", "the engine is elsewhere")),
    );
    for (const given of [{ httpGet: { port: 80 } }, { tcpSocket: { port: 80 } }, { grpc: { port: 80 } }]) {
      const { result, message } = await elsewhere.probe(given, target(), never);
      assert.equal(result, "unknown");
      assert.match(message, /the engine is elsewhere/);
    }
  });
});

test("a probe by TCP succeeds when the port is open", async () => {
  using at = await listen(createTcpServer((socket) => socket.on("error", () => undefined)));
  assert.equal((await probe({ tcpSocket: { port: at.port } })).result, "success");
  assert.equal((await probe({ tcpSocket: { port: at.port, host: "localhost" } })).result, "success");
  const refused = await probe({ tcpSocket: { port: await closedPort() } });
  assert.equal(refused.result, "failure");
});

describe("a probe by gRPC", () => {
  /** `services` by name: what their status is; 0 to 3. */
  async function health(
    services: Readonly<Record<string, number>>,
  ): Promise<{ port: number; agents: unknown[] } & AsyncDisposable> {
    const server = new GrpcServer();
    const agents: unknown[] = [];
    const check = (
      { request, metadata }: ServerUnaryCall<{ service: string }, number>,
      done: sendUnaryData<number>,
    ): void => {
      agents.push(metadata.get("user-agent")[0]);
      const status = services[request.service];
      if (status === undefined) done({ code: grpcStatus.NOT_FOUND, details: "unknown service é" });
      else done(null, status);
    };
    const answer = (status: number): Buffer => (status === 0 ? Buffer.alloc(0) : Buffer.of(8, status));
    const serviceOf = (bytes: Buffer) => ({ service: bytes.toString("utf8", 2) });
    if (Object.keys(services).length > 0)
      server.register("/grpc.health.v1.Health/Check", check, answer, serviceOf, "unary");
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      }),
    );
    return { port, agents, [Symbol.asyncDispose]: async () => server.forceShutdown() };
  }

  test("succeeds when the service is serving, and says its user agent", async () => {
    await using at = await health({ "": 1, shop: 1, sick: 2, odd: 0 });
    const healthy = { result: "success", message: "service healthy" };
    assert.deepEqual(await probe({ grpc: { port: at.port } }), healthy);
    assert.deepEqual(await probe({ grpc: { port: at.port, service: "shop" } }), healthy);
    assert.match(String(at.agents[0]), /^kube-probe\/1\.36/);
    for (const [service, said] of [
      ["sick", /NOT_SERVING/],
      ["odd", /UNKNOWN/],
      ["none", /code 5: unknown service é/],
    ] as const) {
      const outcome = await probe({ grpc: { port: at.port, service } });
      assert.equal(outcome.result, "failure");
      assert.match(outcome.message, said);
    }
  });

  test("fails where there is no such service, no gRPC, and no answer in time", async () => {
    await using other = await health({});
    assert.match((await probe({ grpc: { port: other.port } })).message, /does not implement/);
    using plain = await serve((_request, response) => response.end());
    assert.equal((await probe({ grpc: { port: plain.port } })).result, "failure");
    using silent = await listen(createTcpServer((socket) => socket.on("error", () => undefined)));
    const late = await probe({ grpc: { port: silent.port }, timeoutSeconds: 1 });
    assert.deepEqual([late.result, /within 1 s/.test(late.message)], ["failure", true]);
  });
});

describe("a hook", () => {
  test("by a command has no limit of its own, and rejects with exit code and output", async () => {
    const execSync: ExecSync = (_id, command, seconds) => {
      assert.equal(seconds, 0);
      return Promise.resolve(exited(command[0] === "true" ? 0 : 2, "", "no such table\n"));
    };
    await handlers(execSync).runHook({ exec: { command: ["true"] } }, target(), never);
    await assert.rejects(
      handlers(execSync).runHook({ exec: { command: ["migrate"] } }, target(), never),
      /exit code 2: no such table/,
    );
  });

  test("by HTTP takes every answer for success, and is named as a hook", async () => {
    using at = await serve((_request, response) => response.writeHead(500).end());
    await handlers().runHook({ httpGet: { port: at.port, path: "/stop" } }, target(), never);
    assert.equal(at.requests[0]?.headers["user-agent"], "kube-lifecycle/1.36");
    const port = await closedPort();
    await assert.rejects(handlers().runHook({ httpGet: { port } }, target(), never), /connection refused/);
  });

  test("by HTTPS at a server without TLS asks again without it, and without credentials", async () => {
    using at = await serve((_request, response) => response.end());
    const httpHeaders = [{ name: "Authorization", value: "Bearer x" }];
    await handlers().runHook({ httpGet: { port: at.port, scheme: "HTTPS", httpHeaders } }, target(), never);
    assert.equal(at.requests.length, 1);
    assert.equal(at.requests[0]?.headers.authorization, undefined);
  });

  test("by sleep ends with the signal; a hook by TCP is none", async () => {
    await handlers().runHook({ sleep: { seconds: 0 } }, target(), never);
    const controller = new AbortController();
    const sleeping = handlers().runHook({ sleep: { seconds: 1000 } }, target(), controller.signal);
    controller.abort(new ShimError("cancelled", "the grace period is over"));
    await assert.rejects(sleeping, /grace period/);
    await assert.rejects(handlers().runHook({ tcpSocket: { port: 1 } }, target(), never), (error) =>
      isKind(error, "unsupported"),
    );
  });
});

describe("a probe that fails where the engine may stand still without this process", () => {
  const outcomes = async (
    answered: boolean,
    codes: readonly number[],
  ): Promise<readonly [string, number]> => {
    let runs = 0;
    const execSync: ExecSync = () =>
      Promise.resolve(exited(codes[runs++] ?? assert.fail("one run too many")));
    const answers = (): Promise<boolean> => Promise.resolve(answered);
    const made = makeHandlers({ client: { execSync }, dial: dialFromHere, answers });
    return [(await made.probe({ exec: { command: ["true"] } }, target(), never)).result, runs];
  };

  for (const [what, answered, codes, expected] of [
    ["does not count when nothing answers", false, [1], ["unknown", 1]],
    ["counts when it fails again while the engine answers", true, [1, 1], ["failure", 2]],
    ["does not count when only the first attempt fell into the pause", true, [1, 0], ["success", 2]],
  ] as const)
    test(what, async () => assert.deepEqual(await outcomes(answered, codes), expected));
});

describe("a probe during which all processes stood still", () => {
  const frozen = (seconds: readonly number[]): (() => number) => {
    let now = 0;
    const steps = seconds.flatMap((each) => [0, each * 1000]);
    return () => (now += steps.shift() ?? 0);
  };
  const failing = { httpGet: { port: 1 } };
  const refuse: Dial = () => Promise.reject(new ShimError("unavailable", "connection refused"));
  const outcomes = async (seconds: readonly number[]): Promise<readonly [string, number]> => {
    let dials = 0;
    const dial: Dial = (...words) => {
      dials += 1;
      return refuse(...words);
    };
    const made = makeHandlers({ client: { execSync: noExec }, dial, uptime: frozen(seconds) });
    return [(await made.probe(failing, target(), never)).result, dials];
  };

  for (const [what, seconds, expected] of [
    ["is made again, since its time limit passed before an answer could be read", [60, 0.1], 2],
    ["counts when it was just late", [5], 1],
    ["is made three times at most", [60, 60, 60], 3],
  ] as const)
    test(what, async () => assert.deepEqual(await outcomes(seconds), ["failure", expected]));
});
