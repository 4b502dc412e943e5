/** Port-forward sessions, both ways into a pod: through its network namespace, and through the Docker API alone. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { before, describe, test } from "node:test";
import { isKind } from "../../src/lib/errors.js";
import type { PortForwardSession } from "../../src/shim/ports/streaming.js";
import { textOf } from "../fakes/fake-streaming.js";
import { pidOfContainer } from "../support/docker.js";
import { isEngineElsewhere, pidOnEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { processesIn } from "../support/processes.js";
import { hasNsenter, serveIn } from "../support/serve-in.js";
import { long, reasonToSkip, TestBed, type PodOverrides } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { openSessions, type Sessions } from "./session-support.js";

const never = new AbortController().signal;

/** What listens in each pod. 7001: echo. 7002: echo, ::1 only. 7003: counts, answers late. 7004: ends at once. */
const servers = `const net = require("node:net");
// Docker turns IPv6 off where it gives no address, also on the loopback.
try { require("node:fs").writeFileSync("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0"); } catch {}
const serve = (port, host, use) => new Promise((resolve) => net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on("error", () => undefined);
  use(socket);
}).listen(port, host, resolve));
const echo = (socket) => socket.pipe(socket);
Promise.all([
  serve(7001, "127.0.0.1", echo),
  serve(7002, "::1", echo),
  serve(7003, "127.0.0.1", (socket) => {
    let bytes = 0;
    socket.on("data", (chunk) => (bytes += chunk.length));
    socket.on("end", () => setTimeout(() => socket.end(String(bytes)), 1500));
  }),
  serve(7004, "127.0.0.1", (socket) => { socket.end("bye"); socket.resume(); }),
  serve(7005, "0.0.0.0", echo),
]).then(() => console.log("ready"), (error) => { console.error(error); process.exit(1); });`;

const skip = (await reasonToSkip()) || (!hasNsenter() && "no nsenter on this machine");

for (const remote of isEngineElsewhere ? [true] : [false, true]) {
  describe(
    `port-forward sessions, engine ${remote ? "elsewhere" : "on this host"}`,
    { skip, timeout: 240_000 },
    () => {
      const bed = TestBed.ofSuite({ shim: {} });
      let sessions: Sessions;
      let pod: Pod;
      let session: PortForwardSession;

      const run = (overrides: PodOverrides = {}): Promise<Pod> => bed.runPod(bed.shim.cri, overrides);

      before(async () => {
        sessions = bed.own(await openSessions({ remote }));
        // The built-in pause image has the program that connects; nothing needs to be copied.
        pod = await run({ linux: { security_context: { readonly_rootfs: true } } });
        bed.own(await serveIn(await pidOfContainer(pod.id), servers));
        session = await sessions.portForward(pod.id);
      });

      const echo = async (connection: Duplex, text: string): Promise<string> => {
        connection.end(text);
        return textOf(connection);
      };

      for (const [what, port] of [
        ["127.0.0.1 alone", 7001],
        ["::1 alone", 7002],
        ["all addresses", 7005],
      ] as const) {
        test(`reaches what listens on ${what}`, async () => {
          const text = "x".repeat(2_000_000);
          assert.equal((await echo(await session.connect(port, never), text)).length, text.length);
        });
      }

      test("names a port where nothing listens", async () => {
        await assert.rejects(session.connect(7999, never), (error) => {
          assert.ok(isKind(error, "unavailable"), String(error));
          assert.match(
            error.message,
            /^connect to port 7999 of pod sandbox "[0-9a-f]{64}": connection refused$/,
          );
          return true;
        });
      });

      test("an answer that comes long after the client's end arrives", async () => {
        assert.equal(await echo(await session.connect(7003, never), "x".repeat(300_000)), "300000");
      });

      test("the server's end arrives at once, and the client may still write", async () => {
        const connection = await session.connect(7004, never);
        assert.equal(await textOf(connection), "bye");
        assert.equal(connection.writable, true);
        connection.end("still here");
        await once(connection, "close");
      });

      // Through the Docker API each is a process that the engine starts.
      const rounds = long ? 10 : 2;
      test(`${20 * rounds} connections, half of them cut, leave no file and no process`, async () => {
        const files = async (): Promise<number> => (await readdir("/proc/self/fd")).length;
        await echo(await session.connect(7001, never), "warm up");
        const before = { files: await files(), processes: (await processesIn(pod.id)).length };
        for (let round = 0; round < rounds; round += 1) {
          await Promise.all(
            Array.from({ length: 20 }, async (_, index) => {
              const connection = await session.connect(7001, never);
              connection.on("error", () => undefined);
              if (index % 2 === 0) assert.equal(await echo(connection, "hello"), "hello");
              else {
                connection.write("hello");
                connection.destroy();
              }
            }),
          );
        }
        await until("no file is left", async () => (await files()) <= before.files + 2);
        await until("no process is left", async () => (await processesIn(pod.id)).length <= before.processes);
      });

      test("a pod on the host's network is reached as every other", async () => {
        const host = await run({ linux: { security_context: { namespace_options: { network: 2 } } } });
        const port = 17_001;
        await using _ = await serveIn(pidOnEngineHost, servers.replaceAll(/70(\d\d)/g, "170$1"));
        const connection = await (await sessions.portForward(host.id)).connect(port, never);
        assert.equal(await echo(connection, "hello"), "hello");
      });

      test("a pod that has stopped is not connected to", async () => {
        const other = await run();
        const stale = await sessions.portForward(other.id);
        await other.stop();
        await until("its end is known", async () => {
          const outcome = await stale.connect(7001, never).catch((error: unknown) => error);
          return isKind(outcome, "precondition", "notFound");
        });
      });

      test("a sandbox of a foreign pause image", async () => {
        const reference = `dockershim.test/pause:${bed.newName()}`;
        await bed.load({
          reference,
          marker: reference,
          config: { Cmd: ["sleep", "100000"], User: "65535:65535" },
        });
        const own = await bed.startShim({ flags: [`--pod-infra-container-image=${reference}`] });
        const foreign = await bed.runPod(own.cri);
        await using _ = await serveIn(await pidOfContainer(foreign.id), servers);
        const to = await sessions.portForward(foreign.id);
        const answers = Array.from({ length: 5 }, async () => echo(await to.connect(7001, never), "hello"));
        assert.deepEqual(await Promise.all(answers), Array(5).fill("hello"));
        const readOnly = await bed.runPod(own.cri, {
          linux: { security_context: { readonly_rootfs: true } },
        });
        const refused = (await sessions.portForward(readOnly.id)).connect(7001, never);
        await assert.rejects(refused, (error) =>
          remote
            ? isKind(error, "unsupported") &&
              error.message.includes("use the pause image dockershim.local/pause:3")
            : isKind(error, "unavailable") && error.message.endsWith("connection refused"),
        );
      });
    },
  );
}
