import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile, rename } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { promisify } from "node:util";
import { isKind } from "../../../src/lib/errors.js";
import { startStreamingServer } from "../../../src/shim/streaming/streaming-server.js";
import { TlsFiles, type TlsPaths } from "../../../src/shim/streaming/tls-files.js";
import { cat, fakeCommand, fakePod, sleepForever } from "../../fakes/streaming-sessions.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { until } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { startStreamingBed } from "../../support/streaming-bed.js";
import {
  commandProtocols,
  openSpdy,
  readAnswer,
  sendRaw,
  spdyRequest,
  webSocketRequest,
} from "../../support/streaming-client.js";

const exec = (): ReturnType<typeof fakeCommand> => fakeCommand(cat());

async function makeCertificate({ key, cert }: TlsPaths): Promise<void> {
  await promisify(execFile)("openssl", [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"],
    ...["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
  ]);
}

describe("StreamingServer.offer()", () => {
  test("gives absolute URLs with a port, by the kind of the session", async () => {
    await using bed = await startStreamingBed();
    const { host, port } = new URL(bed.server.urlBase);
    assert.notEqual(port, "");
    const url = (session: Parameters<typeof bed.server.offer>[0]): string => bed.server.offer(session);
    assert.match(url(exec()), new RegExp(`^http://${host}/exec/[\\w-]{43}$`));
    assert.match(url(fakeCommand(cat(), { kind: "attach" })), /\/attach\/[\w-]{43}$/);
    assert.match(url(fakePod(() => assert.fail())), /\/portforward\/[\w-]{43}$/);
  });

  test("throws exhausted when too many sessions wait for their client", async () => {
    await using bed = await startStreamingBed({ tokens: { maxOpen: 1 } });
    bed.server.offer(exec());
    assert.throws(() => bed.server.offer(exec()), { kind: "exhausted" });
  });

  test("throws unavailable once the server stops", async () => {
    await using bed = await startStreamingBed();
    await bed.server.stop(0);
    assert.throws(() => bed.server.offer(exec()), { kind: "unavailable" });
  });
});

describe("a request to the streaming server", () => {
  const withoutProtocols = (lines: readonly string[]): string[] =>
    lines.filter((line) => !line.startsWith("X-"));
  const firstLine = (from: RegExp, to: string) => (lines: readonly string[]) => [
    lines[0]!.replace(from, to),
    ...lines.slice(1),
  ];
  const refused: readonly (readonly [string, (lines: readonly string[]) => string[], number])[] = [
    ["with an unknown token", firstLine(/\/exec\/\S+/, "/exec/xyz"), 404],
    ["for another kind than the token's", firstLine(/\/exec\//, "/attach/"), 404],
    ["with the method PUT", firstLine(/POST/, "PUT"), 405],
    ["without an upgrade", (lines) => lines.filter((line) => !/^(Connection|Upgrade)/.test(line)), 400],
    ["for another upgrade", (lines) => lines.map((line) => line.replace("SPDY/3.1", "h2c")), 400],
    ["without X-Stream-Protocol-Version", withoutProtocols, 400],
    ["with unknown protocols", (lines) => [...withoutProtocols(lines), "X-Stream-Protocol-Version: v9"], 403],
    ["with a head that is too long", (lines) => [...lines, `X-Long: ${"x".repeat(20_000)}`], 431],
  ];
  for (const [name, change, status] of refused) {
    test(`${name} is answered with ${String(status)}, and its connection closed`, async () => {
      await using bed = await startStreamingBed();
      const url = bed.server.offer(exec());
      const answer = await sendRaw(url, change(spdyRequest(url, commandProtocols)));
      assert.equal(answer.status, status);
      if (status !== 431) assert.notEqual(answer.body, "");
      await bed.empty();
    });
  }

  test("without a common protocol is answered with the server's", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(exec());
    const { headers } = await sendRaw(url, spdyRequest(url, ["v9"]));
    assert.equal(headers.get("x-accepted-stream-protocol-versions"), commandProtocols.join(", "));
  });

  test("uses up its token, also for another kind", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(exec());
    const wrong = url.replace("/exec/", "/attach/");
    assert.equal((await sendRaw(wrong, spdyRequest(wrong, commandProtocols))).status, 404);
    assert.equal((await sendRaw(url, spdyRequest(url, commandProtocols))).status, 404);
  });

  test("with an invalid WebSocket key is answered with 400", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(exec());
    const lines = webSocketRequest(url, "v4.channel.k8s.io").map((line) => line.replace(/Key: .*/, "Key: x"));
    assert.equal((await sendRaw(url, lines)).status, 400);
    await bed.empty();
  });

  for (const method of ["GET", "POST"]) {
    test(`of method ${method} is answered as clients of Go expect it`, async () => {
      await using bed = await startStreamingBed();
      const url = bed.server.offer(exec());
      const lines = spdyRequest(url, ["channel.k8s.io, v4.channel.k8s.io"]);
      const answer = await sendRaw(url, [lines[0]!.replace("POST", method), ...lines.slice(1)]);
      const { status, headers } = answer;
      const protocol = { "x-stream-protocol-version": "v4.channel.k8s.io" };
      const expected = { connection: "Upgrade", upgrade: "SPDY/3.1", ...protocol };
      assert.deepEqual([status, Object.fromEntries(headers)], [101, expected]);
      answer.socket.destroy();
    });
  }

  test("whose head is not complete in time is closed", async () => {
    await using bed = await startStreamingBed({ headTimeoutMs: 50 });
    for (const bytes of ["", "GET /exec/abc HTTP/1.1\r\nHost:"]) {
      const socket = connect(Number(new URL(bed.server.urlBase).port), "127.0.0.1");
      socket.on("error", () => undefined).resume();
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.write(bytes);
      await closed;
    }
    await bed.empty();
  });

  test("that is invalid does not affect the server", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(exec());
    for (const lines of [["\0\x01\x02"], ["CONNECT x:1 HTTP/1.1"], ["OPTIONS * HTTP/1.1", "Host: x"]])
      await sendRaw(url, lines).catch(() => undefined);
    await bed.empty();
    (await openSpdy(url)).socket.destroy();
  });

  test("leaves no token in the log", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(exec());
    const client = await openSpdy(url);
    client.socket.destroy();
    await bed.empty();
    assert.ok(!JSON.stringify(bed.lines).includes(new URL(url).pathname.split("/")[2]!));
  });
});

describe("startStreamingServer()", () => {
  test("throws unavailable, with the address, when the port is taken", async () => {
    await using bed = await startStreamingBed();
    const bindAddress = { host: "127.0.0.1", port: Number(new URL(bed.server.urlBase).port) };
    await assert.rejects(
      startStreamingServer({ bindAddress, idleTimeoutMs: 0, log: recordingLog() }),
      (error) => isKind(error, "unavailable") && error.message.includes(bed.server.urlBase),
    );
  });

  for (const host of ["0.0.0.0", "::"]) {
    test(`on all addresses (${host}) gives URLs to which clients can connect`, async () => {
      await using bed = await startStreamingBed({ bindAddress: { host, port: 0 } });
      (await openSpdy(bed.server.offer(exec()))).socket.destroy();
    });
  }

  test("on an IPv6 address makes URLs with brackets", async () => {
    await using bed = await startStreamingBed({ bindAddress: { host: "::1", port: 0 } });
    assert.match(bed.server.urlBase, /^http:\/\/\[::1\]:\d+$/);
    (await openSpdy(bed.server.offer(exec()))).socket.destroy();
  });

  test("speaks TLS with a certificate", async () => {
    await using directory = await temporaryDirectory();
    const [key, cert] = [join(directory.path, "key.pem"), join(directory.path, "cert.pem")];
    await makeCertificate({ key, cert });
    const tls = { key: await readFile(key), cert: await readFile(cert) };
    await using bed = await startStreamingBed({ tls, maxConnections: 1 });
    const garbage = connect(Number(new URL(bed.server.urlBase).port), "127.0.0.1");
    garbage.on("error", () => undefined);
    garbage.write("GET / HTTP/1.1\r\n\r\n", () => garbage.resetAndDestroy());
    await new Promise((resolve) => garbage.once("close", resolve));
    const url = bed.server.offer(exec());
    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+\/exec\//);
    const socket = connectTls({ host: "127.0.0.1", port: Number(new URL(url).port), ca: tls.cert });
    socket.write(`${spdyRequest(url, commandProtocols).join("\r\n")}\r\n\r\n`);
    assert.equal((await readAnswer(socket)).status, 101);
    // It has a session, so it does not make room for another one.
    const another = connect(Number(new URL(url).port), "127.0.0.1");
    another.on("error", () => undefined);
    await once(another, "close");
    assert.equal(bed.server.running, 1);
    socket.destroy();
    await bed.empty();
  });

  test("uses a renewed certificate from the next session on, and the old one while the new files are invalid", async () => {
    await using directory = await temporaryDirectory();
    const paths = { key: join(directory.path, "key.pem"), cert: join(directory.path, "cert.pem") };
    const renewed = { key: join(directory.path, "new-key.pem"), cert: join(directory.path, "new-cert.pem") };
    await makeCertificate(paths);
    await makeCertificate(renewed);
    const files = new TlsFiles(paths);
    await using bed = await startStreamingBed({
      tls: { ...(await files.read()), renewed: () => files.renewed() },
    });
    const served = async (): Promise<string> => {
      const url = new URL(bed.server.offer(exec()));
      const socket = connectTls({ host: "127.0.0.1", port: Number(url.port), rejectUnauthorized: false });
      await once(socket, "secureConnect");
      const { raw } = socket.getPeerCertificate();
      socket.destroy();
      return new X509Certificate(raw).fingerprint256;
    };
    const fingerprint = async (path: string): Promise<string> =>
      new X509Certificate(await readFile(path)).fingerprint256;
    const before = await fingerprint(paths.cert);
    assert.equal(await served(), before);

    await rename(renewed.cert, paths.cert);
    await until("the error is reported", () => {
      bed.server.offer(exec());
      return bed.lines.some(({ message }) => message === "cannot renew the streaming certificate");
    });
    assert.equal(await served(), before);

    await rename(renewed.key, paths.key);
    await until("the renewal", () => {
      bed.server.offer(exec());
      return bed.lines.some(({ message }) => message === "the streaming certificate was renewed");
    });
    assert.equal(await served(), await fingerprint(paths.cert));
    assert.equal(bed.lines.filter(({ level }) => level === "error").length, 1);
    await bed.empty();
  });

  test("throws invalid for an invalid key", async () => {
    const tls = { key: Buffer.from("x"), cert: Buffer.from("y") };
    await assert.rejects(
      startStreamingServer({
        bindAddress: { host: "127.0.0.1", port: 0 },
        tls,
        idleTimeoutMs: 0,
        log: recordingLog(),
      }),
      { kind: "invalid" },
    );
  });
});

describe("a flood of connections", () => {
  test("that are opened again when they are closed blocks no client and ends no session", async () => {
    await using bed = await startStreamingBed({ maxConnections: 50 });
    const session = await openSpdy(bed.server.offer(exec()));
    const port = Number(new URL(bed.server.urlBase).port);
    const held = new Set<Socket>();
    let renewed = 0;
    let isOver = false;
    const hold = (): void => {
      if (isOver) return;
      const socket = connect(port, "127.0.0.1");
      held.add(socket);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        held.delete(socket);
        renewed += 1;
        setImmediate(hold);
      });
    };
    try {
      for (let count = 0; count < 60; count += 1) hold();
      await until("connections are renewed", () => renewed > 100);
      for (let count = 0; count < 20; count += 1) (await openSpdy(bed.server.offer(exec()))).socket.destroy();
      assert.ok(bed.server.connections <= 50);
      assert.equal(session.socket.destroyed, false);
      assert.equal(bed.lines.filter(({ message }) => message.startsWith("too many")).length, 1);
    } finally {
      isOver = true;
      for (const socket of held) socket.destroy();
    }
    session.socket.destroy();
    await bed.empty();
  });

  test("with sessions blocks another one", async () => {
    await using bed = await startStreamingBed({ maxConnections: 2 });
    const sessions = [];
    for (let count = 0; count < 2; count += 1) sessions.push(await openSpdy(bed.server.offer(exec())));
    await assert.rejects(openSpdy(bed.server.offer(exec())));
    for (const { socket } of sessions) {
      assert.equal(socket.destroyed, false);
      socket.destroy();
    }
    await bed.empty();
  });
});

describe("StreamingServer.stop()", () => {
  test("waits for commands that end in time", async () => {
    await using bed = await startStreamingBed();
    const client = await openSpdy(bed.server.offer(fakeCommand(cat(), { stderr: false })));
    client.open({ streamType: "error" });
    const stdin = client.open({ streamType: "stdin" });
    const stdout = client.open({ streamType: "stdout" });
    const stopped = bed.server.stop(60_000);
    stdin.end("late");
    assert.equal(await stdout.text(), "late");
    await stopped;
  });

  test("ends commands that do not end in time, with a status for their clients", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(sleepForever, { stdin: false, stderr: false });
    const client = await openSpdy(bed.server.offer(session));
    const error = client.open({ streamType: "error" });
    client.open({ streamType: "stdout" });
    while (session.running === 0) await new Promise(setImmediate);
    const stopped = bed.server.stop(0);
    assert.match(await error.text(), /error executing command in container: dockershim is stopping/);
    await stopped;
    assert.ok(isKind(session.abortedBy, "unavailable"));
  });

  test("ends port-forwards at once, before the time limit", async () => {
    await using bed = await startStreamingBed();
    const client = await openSpdy(bed.server.offer(fakePod(() => assert.fail())), ["portforward.k8s.io"]);
    await bed.server.stop(60_000);
    await client.closed;
  });

  test("closes connections that have no session", async () => {
    await using bed = await startStreamingBed();
    const socket = connect(Number(new URL(bed.server.urlBase).port), "127.0.0.1");
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => undefined).resume();
    await new Promise((resolve) => socket.once("connect", resolve));
    await bed.server.stop(0);
    await closed;
  });
});
