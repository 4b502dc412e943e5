/**
 * Dials while this process has no room for another file, and again when it has; prints what became of it, as
 * JSON. A program of its own, to be run with a small limit of open files.
 */
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { recordingLog } from "../fakes/recording-log.js";
import { programPath } from "../../src/shim/native/programs.js";
import { DialerProcess } from "../../src/shim/pod-dialer/dialer-process.js";

const log = recordingLog();
const program = (): string => programPath("pod-dialer", process.arch, "");
const dialer = new DialerProcess({ program, connectTimeoutMs: 10_000, log });
const server = createServer((socket) => socket.on("error", () => undefined)).listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const namespace = openSync("/proc/self/ns/net", "r");

const dial = async (): Promise<string> => {
  try {
    (await dialer.connect(namespace, port, new AbortController().signal)).destroy();
    return "connected";
  } catch (error) {
    return String(error);
  }
};

function fill(): number[] {
  const held: number[] = [];
  for (;;) {
    try {
      held.push(openSync("/dev/null", "r"));
    } catch {
      return held;
    }
  }
}

const first = await dial();
const { pid } = dialer;
const held = fill();
// The compiler of this program may still close files of its cache.
const filling = setInterval(() => held.push(...fill()), 1);
const full = await dial();
clearInterval(filling);
for (const file of held) closeSync(file);
const again = await dial();
const warnings = log.lines.filter(({ level }) => level === "warn").length;
process.stdout.write(JSON.stringify({ first, full, again, isSame: dialer.pid === pid, warnings }));
process.exit(0);
