/** Commands of a node, and servers inside of network namespaces. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { runCommand } from "../../src/network/iptables/run-command.js";
import { serveIn } from "../support/serve-in.js";

const never = new AbortController().signal;
const run = promisify(execFile);

/** Output of a command that must succeed. */
export async function command(program: string, ...words: readonly string[]): Promise<string> {
  const { stdout } = await run(program, words, { maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

/** The text as standard input of a command that must succeed. */
export async function feed(input: string, program: string, ...words: readonly string[]): Promise<void> {
  const exit = await runCommand(program, words, { signal: never, input });
  assert.equal(exit.exitCode, 0, exit.stderr);
}

/** A program inside a network namespace that answers every connection and datagram on a port with `text`. */
export function answerIn(
  netns: string,
  { port, text }: { readonly port: number; readonly text: string },
): Promise<AsyncDisposable> {
  const program = `
    const text = ${JSON.stringify(text)};
    const tcp = require("net").createServer((socket) => socket.on("error", () => {}).end(text));
    const udp = require("dgram").createSocket({ type: "udp6", ipv6Only: false });
    udp.on("message", (_, from) => udp.send(text, from.port, from.address));
    tcp.listen(${port}, "::", () => udp.bind(${port}, "::", () => console.log("ready")));
  `;
  return serveIn(netns, program);
}

/** What `answerIn` says to a caller in another namespace (`undefined`: this one); empty when there is no answer. */
export async function ask(
  netns: string | undefined,
  {
    protocol,
    host,
    port,
  }: { readonly protocol: "tcp" | "udp"; readonly host: string; readonly port: number },
): Promise<string> {
  const enter = netns === undefined ? [] : ["nsenter", `--net=${netns}`, "--"];
  const tcp = 'exec 3<> "/dev/tcp/$0/$1" && cat <&3';
  // Not connected: the node answers from the address that is nearest to the caller.
  const udp = `
    const socket = require("dgram").createSocket(${JSON.stringify(host.includes(":") ? "udp6" : "udp4")});
    const end = (text) => { process.stdout.write(text); process.exit(0); };
    let text = "";
    // Something that doubles packets gives the answer twice.
    socket.on("message", (data) => { if (text === "") setTimeout(() => end(text), 200); text += data; });
    socket.on("error", () => end(""));
    socket.send("?", ${port}, ${JSON.stringify(host)});
    setTimeout(end, 3000, "");
  `;
  const program =
    protocol === "tcp"
      ? ["timeout", "3", "bash", "-c", tcp, host, String(port)]
      : [process.execPath, "-e", udp];
  return run("env", [...enter, ...program]).then(
    ({ stdout }) => stdout,
    // Refused, unreachable, or nothing in time.
    (error: unknown) => (error as { readonly stdout?: string }).stdout ?? "",
  );
}
