/** Connections between the loopback of this host and that of an engine elsewhere, and the processes that carry them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** @typedef {{ path: string } | { host: string, port: number }} Place */

/** Passes connections on, with half-closed ends: the first argument listens, the second is connected. It ends with its input. */
const RELAY = `
const { connect, createServer } = require("node:net");
const server = createServer({ allowHalfOpen: true }, (one) => {
  const other = connect({ ...JSON.parse(process.argv[2]), allowHalfOpen: true });
  for (const [from, to] of [[one, other], [other, one]]) {
    from.on("error", () => to.destroy());
    from.pipe(to);
    from.on("close", () => to.writableEnded || to.destroy());
  }
});
server.listen(JSON.parse(process.argv[1]), () => console.log(server.address().port ?? 0));
process.stdin.resume().on("end", () => process.exit());`;

/**
 * Makes a port of this host's loopback, such as that of a registry, the same port of the engine's loopback, until `undo`.
 * @param {string} pid of a process of the engine's host
 * @param {number} port
 * @param {(() => Promise<unknown>)[]} undo
 */
export async function showPort(pid, port, undo) {
  const directory = await mkdtemp(join("/tmp", "dockershim-port-"));
  undo.push(() => rm(directory, { recursive: true, force: true }));
  const place = { host: "127.0.0.1", port };
  const path = join(directory, "port.sock");
  await relay([], { path }, place, undo);
  await relay(["nsenter", `--target=${pid}`, "--net", "--"], place, { path }, undo);
}

/**
 * Returns the number of the port, for a port.
 * @param {readonly string[]} command under which it runs
 * @param {Place} from
 * @param {Place} to
 * @param {(() => Promise<unknown>)[]} undo
 */
export async function relay(command, from, to, undo) {
  const words = [process.execPath, "-e", RELAY, JSON.stringify(from), JSON.stringify(to)];
  const [program = "", ...args] = [...command, ...words];
  const child = spawn(program, args, { stdio: "pipe" });
  let said = "";
  child.stderr.on("data", (text) => (said = `${said}${String(text)}`.slice(-4000)));
  undo.push(() => end(child));
  const failed = once(child, "exit").then(() => Promise.reject(new Error(`a relay ended: ${said}`)));
  failed.catch(() => undefined);
  const [port] = await Promise.race([once(child.stdout, "data"), failed]);
  return Number(String(port));
}

/** @param {readonly string[]} words */
export function start([program = "", ...words]) {
  return spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
}

/** @param {import("node:child_process").ChildProcess} child */
export async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const isOver = await Promise.race([exited.then(() => true), sleep(10_000, false, { ref: false })]);
  if (!isOver) child.kill("SIGKILL");
  await exited;
}

/** @param {import("node:net").NetConnectOpts} place */
export async function accepts(place) {
  const socket = connect(place);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
