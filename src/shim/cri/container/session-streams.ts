/** Copies between the streams of a client and those of a process, at the speed of the slower side. */
import type { Writable } from "node:stream";
import { orAbort } from "../../../lib/abort.js";
import { endOf } from "../../../lib/streams.js";
import type { OutputStream, ProcessStreams } from "../../ports/engine.js";
import type { CommandStreams } from "../../ports/streaming.js";

/**
 * Carries input and output until the output has ended and the client's streams have taken all of it; then
 * ends these streams. Throws when the connection to the engine breaks or `signal` aborts. With `merged`,
 * `stderr` goes to `stdout`: the client opened a terminal, which has one stream.
 */
export async function carryStreams(
  process: ProcessStreams,
  client: CommandStreams,
  options: { readonly merged: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (client.stdin !== undefined) {
    client.stdin.on("error", ignore);
    client.stdin.pipe(process.input);
  }
  const stdout = new ClientOutput(client.stdout);
  const stderr = options.merged ? stdout : new ClientOutput(client.stderr);
  const outputs: Readonly<Record<OutputStream, ClientOutput>> = { stdout, stderr };
  await process.readOutput((stream, data) => outputs[stream].write(data));
  await orAbort(Promise.all([stdout.end(), stderr.end()]), signal);
}

/** One output stream of the client. Output for a closed stream is dropped: the process must not wait for it. */
class ClientOutput {
  #drained: Promise<void> | undefined;

  constructor(private readonly target: Writable | undefined) {
    target?.on("error", ignore);
  }

  /** Returns a promise when the buffer is full. It resolves when there is room. */
  write(data: Buffer): Promise<void> | undefined {
    const { target } = this;
    if (target === undefined || !target.writable) return undefined;
    if (target.write(data)) return undefined;
    this.#drained ??= new Promise((resolve) => {
      const settle = (): void => {
        target.off("drain", settle);
        target.off("close", settle);
        this.#drained = undefined;
        resolve();
      };
      target.on("drain", settle);
      target.on("close", settle);
    });
    return this.#drained;
  }

  end(): Promise<void> {
    return endOf(this.target);
  }
}

/** A listener for `error`: without one the event would end the program. The session's signal reports the cause. */
function ignore(): void {
  // Nothing to do.
}
