/** Clients that read slowly, or not at all, for a while: what they do not take stays in the pod, not in dockershim. */
import assert from "node:assert/strict";
import type { Duplex } from "node:stream";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { pidOfContainer } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import { residentBytes } from "../support/processes.js";
import { hasNsenter, serveIn } from "../support/serve-in.js";
import type { ShimProcess } from "../support/shim-process.js";
import { openSpdy } from "../support/streaming-client.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";

const mebibyte = 1024 * 1024;
const totalBytes = (long ? 1024 : 128) * mebibyte;
const warmUpBytes = 32 * mebibyte;
/** Far less than what is sent, more than what a garbage collector leaves lying about. */
const growthLimitBytes = 48 * mebibyte;

const sourcePort = 7001;
/** Sends as many bytes as the first line asks for. */
const source = `const chunk = Buffer.alloc(65536);
require("node:net").createServer((socket) => {
  socket.on("error", () => undefined);
  socket.once("data", (line) => {
    let left = Number(line);
    const write = () => {
      while (left > 0) { left -= chunk.length; if (!socket.write(chunk)) return socket.once("drain", write); }
      socket.end();
    };
    write();
  });
}).listen(${String(sourcePort)}, "127.0.0.1", () => console.log("ready"));`;

const skip = (await reasonToSkip()) || (!hasNsenter() && "no nsenter on this machine");

describe("a client that reads slowly", { skip, timeout: 600_000 }, () => {
  let bed: TestBed;
  let shim: ShimProcess;
  let pod: Pod;
  let id: string;
  let server: AsyncDisposable;
  before(async () => {
    bed = await TestBed.open();
    shim = await bed.startShim();
    pod = await bed.runPod(shim.cri);
    id = await pod.start();
    server = await serveIn(await pidOfContainer(pod.id), source);
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    await bed.close();
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
    test(`${name}: the memory of dockershim stays as it is`, async () => {
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
