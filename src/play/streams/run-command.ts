/** Exec and attach: a command's streams and its exit code. */
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { linkAbort, orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import type { Dial } from "../cri/dial.js";
import { openStreams } from "./open-streams.js";
import { StreamLost } from "./spdy-client.js";

export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

export interface CommandStreams {
  /** Its end is the end of the command's standard input. */
  readonly stdin?: Readable;
  readonly stdout?: Writable;
  /** None with a terminal, which has one output. */
  readonly stderr?: Writable;
  /** With a terminal: calls back with its size at once and after each change; the answer ends that. */
  readonly sizes?: (changed: (size: TerminalSize) => void) => () => void;
}

export interface CommandRequest {
  /** What the CRI server answered to Exec or Attach for exactly these streams. */
  readonly url: string;
  readonly tty: boolean;
}

/** Error streams, exit codes as JSON, sizes of terminals. Served since Kubernetes 1.4. */
const protocol = "v4.channel.k8s.io";
const statusBytes = 64 * 1024;

/**
 * Copies the streams until the command has ended; returns its exit code. The writables are not ended. Rejects
 * when the connection ends without a status, with what the server says of a command that did not start, and
 * when `signal` aborts.
 */
export async function runCommand(
  { url, tty }: CommandRequest,
  streams: CommandStreams,
  dial: Dial,
  signal: AbortSignal,
): Promise<number> {
  const connection = await openStreams(url, protocol, dial, signal);
  using _ = linkAbort(signal, () => connection.destroy());
  try {
    // Servers wait until all streams of the request are open.
    const status = connection.open({ streamtype: "error" });
    const output = [];
    if (streams.stdin !== undefined) sendInput(streams.stdin, connection.open({ streamtype: "stdin" }));
    for (const name of ["stdout", "stderr"] as const) {
      const target = streams[name];
      if (target === undefined) continue;
      output.push(pipeline(connection.open({ streamtype: name }), target, { end: false }));
    }
    if (!tty) return await orAbort(endOfCommand(status, output), signal);

    const resizes = connection.open({ streamtype: "resize" });
    const unwatch = streams.sizes?.(({ width, height }) => {
      if (!resizes.destroyed) resizes.write(`${JSON.stringify({ Width: width, Height: height })}\n`);
    });
    try {
      return await orAbort(endOfCommand(status, output), signal);
    } finally {
      unwatch?.();
    }
  } finally {
    connection.destroy();
  }
}

function sendInput(stdin: Readable, target: Writable): void {
  // A command that ends, or closes its input, before the input's end: the rest has no reader.
  stdin.pipe(target);
  target.once("close", () => stdin.unpipe(target));
  stdin.once("error", () => target.end());
}

async function endOfCommand(status: Readable, output: readonly Promise<void>[]): Promise<number> {
  // Observed at once: any of them may fail first.
  const [text] = await Promise.all([statusText(status), ...output.map(untilLost)]);
  return exitCodeOf(text);
}

/** Servers reset all streams when the command has ended, some before they have ended them; the status decides. */
async function untilLost(output: Promise<void>): Promise<void> {
  try {
    await output;
  } catch (error) {
    if (!(error instanceof StreamLost)) throw error;
  }
}

async function statusText(status: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of status as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > statusBytes)
        throw new ShimError("unknown", `read the status: the server sent more than ${statusBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (bytes === 0 || !(error instanceof StreamLost)) throw error;
  }
  return Buffer.concat(chunks).toString();
}

/** The exit code in a Status of the Kubernetes API; throws for one that says another failure. */
export function exitCodeOf(text: string): number {
  let status: unknown;
  try {
    status = JSON.parse(text);
  } catch {
    const what = text === "" ? "it has ended without a status" : shownText(text.slice(0, 300));
    throw new ShimError("unknown", `read the status of the command: ${what}`);
  }
  if (fieldOf(status, "status") === "Success") return 0;
  if (fieldOf(status, "reason") === "NonZeroExitCode") {
    const causes = fieldOf(fieldOf(status, "details"), "causes");
    const cause: unknown = Array.isArray(causes)
      ? causes.find((each) => fieldOf(each, "reason") === "ExitCode")
      : undefined;
    const code = fieldOf(cause, "message");
    if (typeof code === "string" && /^\d{1,3}$/.test(code)) return Number(code);
  }
  const message = fieldOf(status, "message");
  throw new ShimError(
    "unknown",
    typeof message === "string" ? shownText(message) : shownText(text.slice(0, 300)),
  );
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
