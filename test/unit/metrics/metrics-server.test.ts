import assert from "node:assert/strict";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { connect, createServer, type AddressInfo, type NetConnectOpts } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  type MetricsServerOptions,
  pageOf,
  startMetricsServer,
} from "../../../src/shim/metrics/metrics-server.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { pluck } from "../../support/pluck.js";
import { withResolvers } from "../../fakes/turns.js";

type Bed = Awaited<ReturnType<typeof start>>;

async function start(options: Partial<MetricsServerOptions> = {}) {
  const log = recordingLog();
  const server = await startMetricsServer({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    pages: { "/a": () => Promise.resolve(pageOf(200, "page a\n")) },
    log,
    ...options,
  });
  const url = server.endpoint.startsWith("http") ? new URL(server.endpoint) : undefined;
  return {
    server,
    log,
    where: (url === undefined
      ? { path: server.endpoint.slice("unix://".length) }
      : { host: url.hostname, port: Number(url.port) }) satisfies NetConnectOpts,
    [Symbol.asyncDispose]: () => server.close(),
  };
}

async function get({ where }: Bed, path: string, method = "GET", host?: string) {
  const outgoing = request({
    ...("path" in where ? { socketPath: where.path } : where),
    path,
    method,
    agent: false,
    ...(host === undefined ? {} : { headers: { host } }),
  });
  outgoing.end();
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  let body = "";
  for await (const chunk of incoming.setEncoding("utf8")) body += String(chunk);
  return { status: incoming.statusCode, headers: incoming.headers, body };
}

describe("MetricsServer", () => {
  test("answers GET and HEAD for its pages, whatever query they have, and nothing else", async () => {
    await using bed = await start();
    const page = await get(bed, "/a?x=1");
    assert.deepEqual([page.status, page.body], [200, "page a\n"]);
    assert.equal(page.headers["content-type"], "text/plain; charset=utf-8");
    const head = await get(bed, "/a", "HEAD");
    assert.deepEqual([head.status, head.body, head.headers["content-length"]], [200, "", "7"]);
    for (const path of ["/", "/A", "/a/", "/a%2f", "/__proto__", "/constructor"]) {
      const other = await get(bed, path);
      assert.deepEqual([other.status, other.body], [404, "not found; there are /a\n"], path);
    }
    const post = await get(bed, "/a", "POST");
    assert.deepEqual([post.status, post.headers["allow"]], [405, "GET, HEAD"]);
  });

  test("hands the segment that * stands for to its page, as it was written, and no other", async () => {
    await using bed = await start({
      pages: {
        "/x/*": (_signal, segment) => Promise.resolve(pageOf(200, `one ${segment}`)),
        "/x/*/y": (_signal, segment) => Promise.resolve(pageOf(200, `two ${segment}`)),
      },
    });
    const cases: readonly (readonly [path: string, status: number, body: string])[] = [
      ["/x/1?q", 200, "one 1"],
      ["/x/%2e%2e", 200, "one %2e%2e"],
      ["/x/1/y", 200, "two 1"],
      ["/x/*", 200, "one *"],
    ];
    for (const [path, status, body] of cases) {
      const page = await get(bed, path);
      assert.deepEqual([page.status, page.body], [status, body], path);
    }
    for (const path of ["/x", "/x/", "/x//y", "/x/1/2", "/x/1/2/y", "/x/y/"])
      assert.equal((await get(bed, path)).status, 404, path);
  });

  test("answers under addresses and own names alone, as no foreign web page has them", async () => {
    const page = { ...pageOf(200, "page b\n"), headers: { "X-Test": "1" } };
    const pages = { "/b": () => Promise.resolve(page) };
    const hostname = "Node1.example.com";
    await using bed = await start({ pages, hostname });
    const good = [
      ...["localhost", "localhost:9090", "127.0.0.1:9090", "10.1.2.3", "[::1]:9090", "[fd00::1]"],
      ...["node1.example.com:9090", "node1", ""],
    ];
    for (const host of good) {
      const { status, headers } = await get(bed, "/b", "GET", host);
      assert.deepEqual([status, headers["x-test"]], [200, "1"], host);
    }
    const bad = [
      ...["evil.example:9090", "127.0.0.1.evil.example", "localhost.", "[x]", "1.2.3.4:x"],
      ...["node1.evil.example", "node1.example.com.evil.example"],
    ];
    for (const host of bad) {
      for (const path of ["/b", "/none"]) assert.equal((await get(bed, path, "GET", host)).status, 421, host);
    }
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "metrics.sock");
    await using own = await start({ pages, hostname, address: { kind: "unix", path } });
    // ssh makes a port of a socket for browsers of another machine.
    assert.equal((await get(own, "/b", "GET", "evil.example:9090")).status, 421);
    assert.equal((await get(own, "/b", "GET", "x")).status, 200);
  });

  test("asks once for equal requests at the same time", async () => {
    let asked = 0;
    const { promise: waiting, resolve: answer } = withResolvers();
    await using bed = await start({
      pages: {
        "/a": async () => {
          asked += 1;
          await waiting;
          return pageOf(200, "x");
        },
      },
    });
    const both = [get(bed, "/a"), get(bed, "/a")];
    while (bed.server.connections < 2 || asked === 0) await new Promise((resolve) => setImmediate(resolve));
    // The second request is read a moment after its connection is there.
    await get(bed, "/other");
    answer();
    assert.deepEqual(pluck(await Promise.all(both), "status"), [200, 200]);
    assert.equal(asked, 1);
  });

  test("answers 500 for a page that fails, says so in the log, and goes on", async () => {
    await using bed = await start({
      pages: {
        "/a": () => Promise.reject(new Error("no numbers")),
        "/b": () => Promise.resolve(pageOf(200, "b")),
      },
    });
    const failed = await get(bed, "/a?secret=1");
    assert.deepEqual([failed.status, failed.body], [500, "no numbers\n"]);
    assert.deepEqual(pluck(bed.log.lines, "level"), ["error"]);
    assert.deepEqual(bed.log.lines[0]?.fields, { path: "/a", err: "no numbers" });
    assert.equal((await get(bed, "/b")).status, 200);
  });

  test("tells a page when its client has left, and logs nothing", async () => {
    let seen: AbortSignal | undefined;
    await using bed = await start({
      pages: {
        "/a": (signal) => {
          seen = signal;
          return new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error));
          });
        },
      },
    });
    const client = connect(bed.where);
    client.write("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    while (seen === undefined) await new Promise((resolve) => setImmediate(resolve));
    client.destroy();
    if (!seen.aborted) await once(seen, "abort");
    assert.deepEqual(bed.log.lines, []);
  });

  const slowClients: readonly (readonly [what: string, sends: string])[] = [
    ["sends nothing", ""],
    ["sends half a head", "GET /a HTTP/1.1\r\nHost:"],
    ["sends a body without an end", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"],
    ["does not come back", "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"],
  ];
  for (const [what, sends] of slowClients) {
    test(`ends the connection of a client that ${what}`, async () => {
      await using bed = await start({ headTimeoutMs: 50, idleTimeoutMs: 50 });
      const client = connect(bed.where);
      client.on("error", () => undefined);
      client.resume();
      client.write(sends);
      await once(client, "close");
    });
  }

  test("ends the connection of a client that does not read", async () => {
    const large = "x".repeat(32 * 1024 * 1024);
    await using bed = await start({
      answerTimeoutMs: 100,
      pages: { "/a": () => Promise.resolve(pageOf(200, large)) },
    });
    const client = connect(bed.where);
    client.on("error", () => undefined);
    client.write("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    while (bed.server.connections === 0) await new Promise((resolve) => setImmediate(resolve));
    while (bed.server.connections > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    client.destroy();
  });

  for (const protocol of ["h2c", "websocket"]) {
    test(`answers as if the client had not offered ${protocol}`, async () => {
      await using bed = await start();
      const client = connect(bed.where);
      client.write(`GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
      const [answer] = (await once(client, "data")) as [Buffer];
      client.destroy();
      assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    });
  }

  test("ends a connection that wants to be a tunnel", async () => {
    await using bed = await start();
    const client = connect(bed.where);
    client.resume();
    client.write("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(client, "close");
  });

  test("close() ends connections that are open and frees the address", async () => {
    const bed = await start();
    const client = connect(bed.where);
    client.on("error", () => undefined);
    await once(client, "connect");
    const ended = once(client, "close");
    await bed.server.close();
    await ended;
    await assert.rejects(get(bed, "/a"), /ECONNREFUSED/);
  });

  test("a unix socket is for its owner alone, and gone after close()", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "metrics.sock");
    const bed = await start({ address: { kind: "unix", path } });
    assert.equal(bed.server.endpoint, `unix://${path}`);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal((await get(bed, "/a")).body, "page a\n");
    const second = start({ address: { kind: "unix", path } });
    await assert.rejects(second, { kind: "conflict" });
    await bed.server.close();
    await assert.rejects(stat(path), /ENOENT/);
  });

  test("an address that is taken is a conflict, one that is not of this host a precondition", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    try {
      await assert.rejects(start({ address: { kind: "tcp", host: "127.0.0.1", port } }), {
        kind: "conflict",
        message: new RegExp(`^listen on http://127\\.0\\.0\\.1:${port} for metrics: `),
      });
    } finally {
      taken.close();
    }
    await assert.rejects(start({ address: { kind: "tcp", host: "192.0.2.1", port: 0 } }), {
      kind: "precondition",
    });
  });
});
