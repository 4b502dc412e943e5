/** The streaming server of the whole program: through the kubelet's proxy, with clients that drop their sessions, and slow ones. */
import assert from "node:assert/strict";
import { connect, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createWebSocketStream } from "ws";
import { pidOfContainer } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import { openSockets, processesIn, residentBytes } from "../support/processes.js";
import { hasNsenter, serveIn } from "../support/serve-in.js";
import type { ShimProcess } from "../support/shim-process.js";
import { SpdyClient } from "../support/spdy-client.js";
import {
  commandProtocols,
  openSpdy,
  openWebSocket,
  sendRaw,
  spdyRequest,
  startByteProxy,
  webSocketRequest,
} from "../support/streaming-client.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const portForwardProtocol = "portforward.k8s.io";
const mebibyte = 1024 * 1024;
const totalBytes = (long ? 1024 : 128) * mebibyte;
const warmUpBytes = 32 * mebibyte;
/** Far less than what is sent, more than what a garbage collector leaves lying about. */
const growthLimitBytes = 48 * mebibyte;

const echoPort = 7001;
/** Sends as many bytes as the first line asks for. */
const sourcePort = 7002;
const servers = `const net = require("node:net");
const chunk = Buffer.alloc(65536);
const echo = net.createServer({ allowHalfOpen: true }, (socket) => socket.on("error", () => undefined).pipe(socket));
const source = net.createServer((socket) => socket.on("error", () => undefined).once("data", (line) => {
  let left = Number(line);
  const write = () => {
    while (left > 0) { left -= chunk.length; if (!socket.write(chunk)) return socket.once("drain", write); }
    socket.end();
  };
  write();
}));
echo.listen(${String(echoPort)}, "127.0.0.1", () => source.listen(${String(sourcePort)}, "127.0.0.1", () => console.log("ready")));`;

const skip = (await reasonToSkip()) || (!hasNsenter() && "no nsenter on this machine");

describe("the streaming server of the program", { skip, timeout: 300_000 }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let shim: ShimProcess;
  let pod: Pod;
  let id: string;
  before(async () => {
    ({ shim } = bed);
    pod = await bed.runPod(shim.cri);
    id = await pod.start();
    bed.own(await serveIn(await pidOfContainer(pod.id), servers));
  });

  const execUrl = async (command: readonly string[], tty = false): Promise<string> =>
    (
      await shim.cri.Exec({
        ...{ container_id: id, cmd: [...command], tty },
        ...{ stdin: true, stdout: true, stderr: !tty },
      })
    ).url;
  const forwardUrl = async (): Promise<string> =>
    (await shim.cri.PortForward({ pod_sandbox_id: pod.id, port: [] })).url;

  async function echoes(client: SpdyClient): Promise<void> {
    const headers = { port: String(echoPort), requestid: "0" };
    const error = client.open({ streamtype: "error", ...headers }, { fin: true });
    const data = client.open({ streamtype: "data", ...headers });
    data.end("hello");
    assert.equal(await data.text(), "hello");
    assert.equal(await error.text(), "");
  }

  describe("through a proxy that dials the URL and copies bytes, as kubelets do", () => {
    const upgrades: readonly (readonly [string, readonly string[]])[] = [
      ["as client-go sends it", ["Connection: Upgrade", "Upgrade: SPDY/3.1"]],
      ["in two lines", ["Connection: Keep-Alive", "Connection: Upgrade", "Upgrade: SPDY/3.1"]],
    ];
    for (const [name, upgrade] of upgrades)
      test(`exec over SPDY, the upgrade ${name}`, async () => {
        const url = await execUrl(["sh", "-c", "cat; exit 3"]);
        using proxy = await startByteProxy(url);
        const answer = await sendRaw(
          proxy.through(url),
          spdyRequest(proxy.through(url), commandProtocols, upgrade),
        );
        assert.equal(answer.status, 101);
        const client = new SpdyClient(answer.socket, answer.head);
        const error = client.open({ streamtype: "error" });
        const stdin = client.open({ streamtype: "stdin" });
        const stdout = client.open({ streamtype: "stdout" });
        client.open({ streamtype: "stderr" });
        stdin.end("hello");
        assert.equal(await stdout.text(), "hello");
        assert.match(await error.text(), /"ExitCode","message":"3"/);
        await client.closed;
      });

    test("exec over WebSocket", async () => {
      const url = await execUrl(["sh", "-c", "cat; exit 3"]);
      using proxy = await startByteProxy(url);
      const client = await openWebSocket(proxy.through(url), "v5.channel.k8s.io");
      client.ws.send(Buffer.from("\0hello"));
      client.ws.send(Buffer.from([255, 0])); // The end of stdin.
      await client.closed;
      assert.equal(client.channel(1), "hello");
      assert.match(client.channel(3), /"ExitCode","message":"3"/);
    });

    test("port-forward over SPDY, and over SPDY inside of a WebSocket", async () => {
      const url = await forwardUrl();
      using proxy = await startByteProxy(url);
      const client = await openSpdy(proxy.through(url), [portForwardProtocol]);
      await echoes(client);
      client.socket.destroy();

      const tunnelUrl = await forwardUrl();
      using tunnelProxy = await startByteProxy(tunnelUrl);
      const { ws } = await openWebSocket(tunnelProxy.through(tunnelUrl), `SPDY/3.1+${portForwardProtocol}`);
      await echoes(new SpdyClient(createWebSocketStream(ws)));
      ws.terminate();
    });
  });

  test(`${long ? "a thousand" : "forty"} sessions that are dropped at random points leave nothing`, async () => {
    const socketsBefore = await openSockets(shim.pid);
    const processesBefore = await processesIn(id);
    const used: string[] = [];
    const drops = dropsOf({ execUrl, forwardUrl });
    const atOnce = 20;
    for (let done = 0; done < (long ? 1_000 : 40); done += atOnce)
      await Promise.all(
        Array.from({ length: atOnce }, async (_, index) => {
          const drop = drops[(done + index) % drops.length];
          if (drop !== undefined) used.push(await drop());
        }),
      );
    // docs/run/remote.md: nothing reaches the processes of an engine elsewhere.
    if (!isEngineElsewhere)
      await until("no process is left in the container", async () => {
        return (await processesIn(id)).length === processesBefore.length;
      });
    // Short calls to the engine keep up to 32 connections for the next ones.
    await until("no connection is left", async () => (await openSockets(shim.pid)) <= socketsBefore + 32);
    for (const url of used)
      assert.equal((await sendRaw(url, spdyRequest(url, commandProtocols))).status, 404, "a token is left");
    assert.doesNotMatch(shim.log, /"level":"?(error|50)/);
  });

  const ways: Readonly<Record<string, (bytes: number) => Promise<Duplex>>> = {
    "the output of exec": async (bytes) => {
      const cmd = ["head", "-c", String(bytes), "/dev/zero"];
      const streams = { tty: false, stdin: false, stdout: true, stderr: false };
      const client = await openSpdy((await shim.cri.Exec({ container_id: id, cmd, ...streams })).url);
      client.open({ streamtype: "error" });
      client.open({ streamtype: "stdout" });
      return client.socket;
    },
    "a forwarded port": async (bytes) => {
      const { url } = await shim.cri.PortForward({ pod_sandbox_id: pod.id, port: [] });
      const client = await openSpdy(url, ["portforward.k8s.io"]);
      const headers = { port: String(sourcePort), requestid: "0" };
      client.open({ streamtype: "error", ...headers }, { fin: true });
      client.open({ streamtype: "data", ...headers }).write(String(bytes));
      return client.socket;
    },
  };
  for (const [name, open] of Object.entries(ways))
    test(`a client that reads ${name} slowly: the memory of dockershim stays as it is`, async () => {
      await readSlowly(await open(warmUpBytes), warmUpBytes, () => Promise.resolve());
      const before = await residentBytes(shim.pid);
      let most = before;
      await readSlowly(await open(totalBytes), totalBytes, async () => {
        most = Math.max(most, await residentBytes(shim.pid));
      });
      const grown = most - before;
      assert.ok(grown < growthLimitBytes, `grew by ${String(Math.round(grown / mebibyte))} MiB`);
    });
});

/** Reads in spurts with pauses, the first one a long one; calls `look` in each pause. */
async function readSlowly(socket: Duplex, bytes: number, look: () => Promise<void>): Promise<void> {
  socket.removeAllListeners("data"); // Frames are counted, not read; their heads come on top of the bytes.
  const spurtBytes = 16 * mebibyte;
  let received = 0;
  let spurtEnd = 0;
  const pause = async (ms: number): Promise<void> => {
    socket.pause();
    await delay(ms);
    await look();
    spurtEnd = received + spurtBytes;
    socket.resume();
  };
  await new Promise<void>((resolve, reject) => {
    socket.once("close", () => {
      reject(new Error(`closed after ${String(received)} of ${String(bytes)} bytes`));
    });
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received >= bytes) resolve();
      else if (received >= spurtEnd) pause(100).catch(reject);
    });
    pause(1_500).catch(reject);
  });
  socket.destroy();
}

interface Urls {
  readonly execUrl: (command: readonly string[], tty?: boolean) => Promise<string>;
  readonly forwardUrl: () => Promise<string>;
}

/** One way to drop a session each; the URL, whose token is used. */
function dropsOf({ execUrl, forwardUrl }: Urls): readonly (() => Promise<string>)[] {
  const busy = ["sh", "-c", "sleep 1000 & cat & while :; do echo output; done"];
  const streams = ["error", "stdin", "stdout", "stderr"];
  const aWhile = (): Promise<unknown> => delay(Math.random() * 300);
  return [
    // The client sends the request and leaves.
    async () => {
      const url = await execUrl(busy);
      const socket = await dial(url);
      socket.write(`${spdyRequest(url, commandProtocols).join("\r\n")}\r\n\r\n`, () =>
        socket.resetAndDestroy(),
      );
      await new Promise((resolve) => socket.once("close", resolve));
      return afterUse(url);
    },
    // Upgraded, and no stream is ever opened.
    async () => {
      const url = await execUrl(busy);
      const client = await openSpdy(url);
      await aWhile();
      client.socket.destroy();
      return url;
    },
    // Too few streams.
    async () => {
      const url = await execUrl(busy);
      const client = await openSpdy(url);
      client.open({ streamtype: "error" });
      await aWhile();
      client.socket.destroy();
      return url;
    },
    ...[false, true].map((tty) => async () => {
      const url = await execUrl(busy, tty);
      const client = await openSpdy(url);
      for (const streamtype of streams) if (!tty || streamtype !== "stderr") client.open({ streamtype });
      await aWhile();
      cut(client);
      return url;
    }),
    async () => {
      const url = await execUrl(busy);
      const client = await openWebSocket(url, "v5.channel.k8s.io");
      client.ws.send(Buffer.from("\0input"));
      await aWhile();
      client.ws.terminate();
      return url;
    },
    async () => {
      const url = await execUrl(busy);
      const answer = await sendRaw(url, webSocketRequest(url, "v4.channel.k8s.io"));
      answer.socket.destroy();
      return url;
    },
    // A forwarded port in the middle of its bytes.
    async () => {
      const url = await forwardUrl();
      const client = await openSpdy(url, [portForwardProtocol]);
      for (let request = 0; request < 5; request += 1) {
        const headers = { port: String(echoPort), requestid: String(request) };
        client.open({ streamtype: "error", ...headers });
        client.open({ streamtype: "data", ...headers }).write("x".repeat(100_000));
      }
      await aWhile();
      cut(client);
      return url;
    },
  ];
}

/** With a reset, not an orderly end. */
function cut({ socket }: SpdyClient): void {
  assert.ok(socket instanceof Socket);
  socket.resetAndDestroy();
}

async function dial(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) }).on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

/** A request that was cut may come too late to be read; then this one uses the token. */
async function afterUse(url: string): Promise<string> {
  const { socket } = await sendRaw(url, spdyRequest(url, commandProtocols));
  socket.destroy();
  return url;
}
