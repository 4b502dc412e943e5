import { Writable } from "node:stream";
import { orAbort } from "../../src/lib/abort.js";
import { ShimError } from "../../src/lib/errors.js";
import type {
  ExecOptions,
  ExecState,
  OutputStream,
  ProcessStreams,
  TakeOutput,
} from "../../src/shim/ports/engine.js";
import type { TerminalSize } from "../../src/shim/ports/streaming.js";
import { withResolvers } from "./turns.js";

export interface OutputChunk {
  readonly stream: OutputStream;
  readonly data: Buffer;
}

/** What a process does. */
export interface FakeProcess {
  readonly output?: readonly OutputChunk[];
  /** Absent: it runs until it is killed. */
  readonly exitCode?: number;
  /** Inspects that still call it running after its output has ended. */
  readonly lingersForInspects?: number;
  /** Ends, with exit code 0 and what it read as its output, when its input ends. */
  readonly echoes?: boolean;
}

interface FakeExec {
  readonly process: FakeProcess;
  readonly pid: number;
  readonly killed: Promise<void>;
  readonly kill: () => void;
  started: boolean;
  exitCode: number | undefined;
  lingers: number;
  readonly input: Buffer[];
  sizes: TerminalSize[];
}

/** Exec processes of a fake engine. */
export class FakeExecs {
  /** Decides what a command does; by default it prints nothing and exits with 0. */
  script: (containerId: string, options: ExecOptions) => FakeProcess = () => ({ exitCode: 0 });
  /** Streams that were opened and not closed. */
  openStreams = 0;
  readonly #execs = new Map<string, FakeExec>();

  create(containerId: string, options: ExecOptions): string {
    const id = `exec${this.#execs.size + 1}`;
    const process = this.script(containerId, options);
    const { promise: killed, resolve: kill } = withResolvers();
    this.#execs.set(id, {
      ...{ process, killed, kill, pid: 5000 + this.#execs.size, started: false, exitCode: undefined },
      ...{ lingers: process.lingersForInspects ?? 0, input: [], sizes: [] },
    });
    return id;
  }

  start(id: string, signal: AbortSignal): ProcessStreams {
    const exec = this.#execs.get(id);
    if (exec === undefined)
      throw new ShimError("notFound", `No such exec instance: ${id}`, { missing: "exec" });
    exec.started = true;
    this.openStreams += 1;
    let open = true;
    return {
      input: new Writable({
        write: (chunk: Buffer, _encoding, done) => {
          exec.input.push(chunk);
          done();
        },
        final: (done) => {
          if (exec.process.echoes === true) exec.kill();
          done();
        },
      }),
      readOutput: (take) => readOutputOf(exec, take, signal),
      close: () => {
        if (open) this.openStreams -= 1;
        open = false;
      },
    };
  }

  inspect(id: string): ExecState | undefined {
    const exec = this.#execs.get(id);
    if (exec === undefined) return undefined;
    if (exec.exitCode !== undefined && exec.lingers > 0) {
      exec.lingers -= 1;
      return { running: true, exitCode: undefined, pid: exec.pid };
    }
    return {
      running: exec.started && exec.exitCode === undefined,
      exitCode: exec.exitCode,
      pid: exec.started ? exec.pid : 0,
    };
  }

  resize(id: string, size: TerminalSize): void {
    const exec = this.#execs.get(id);
    if (exec?.started !== true) throw new ShimError("precondition", `exec ${id} has not started`);
    exec.sizes.push(size);
  }

  /** What an exec was given, by its id. */
  inputOf(id: string): string {
    return Buffer.concat(this.#execs.get(id)?.input ?? []).toString();
  }

  sizesOf(id: string): readonly TerminalSize[] {
    return this.#execs.get(id)?.sizes ?? [];
  }

  /** Kills the process; false when there is none with this id. */
  kill(pid: number): boolean {
    const exec = [...this.#execs.values()].find((one) => one.pid === pid && one.started);
    if (exec === undefined) return false;
    exec.exitCode ??= 137;
    exec.kill();
    return true;
  }

  get running(): number {
    return [...this.#execs.values()].filter((exec) => exec.started && exec.exitCode === undefined).length;
  }
}

async function readOutputOf(exec: FakeExec, take: TakeOutput, signal: AbortSignal): Promise<void> {
  for (const { stream, data } of exec.process.output ?? [])
    await orAbort(take(stream, data, true) ?? turn(), signal);
  if (exec.process.exitCode === undefined) await orAbort(exec.killed, signal);
  if (exec.process.echoes === true && exec.exitCode === undefined) {
    for (const data of exec.input) await orAbort(take("stdout", data, true) ?? turn(), signal);
    exec.exitCode = 0;
  }
  exec.exitCode ??= exec.process.exitCode;
}

function turn(): Promise<void> {
  return Promise.resolve();
}
