import { Writable } from "node:stream";
import { orAbort } from "../../src/shim/base/abort.js";
import { ShimError } from "../../src/shim/base/errors.js";
import type { ExecOptions, ExecState, OutputChunk, ProcessStreams } from "../../src/shim/ports/engine.js";

/** What a process does. */
export interface FakeProcess {
  readonly output?: readonly OutputChunk[];
  /** Absent: it runs until somebody kills it. */
  readonly exitCode?: number;
  /** Inspects that still call it running after its output has ended. */
  readonly lingersForInspects?: number;
}

interface FakeExec {
  readonly process: FakeProcess;
  readonly pid: number;
  readonly killed: Promise<void>;
  readonly kill: () => void;
  started: boolean;
  exitCode: number | undefined;
  lingers: number;
}

/** Exec processes of a fake engine. */
export class FakeExecs {
  /** Decides what a command does; by default it prints nothing and exits with 0. */
  script: (containerId: string, options: ExecOptions) => FakeProcess = () => ({ exitCode: 0 });
  /** Streams that were opened and not closed. */
  openStreams = 0;
  readonly #execs = new Map<string, FakeExec>();

  create(containerId: string, options: ExecOptions): string {
    const id = `exec${String(this.#execs.size + 1)}`;
    const process = this.script(containerId, options);
    let kill!: () => void;
    const killed = new Promise<void>((resolve) => (kill = resolve));
    this.#execs.set(id, {
      ...{ process, killed, kill, pid: 5000 + this.#execs.size, started: false, exitCode: undefined },
      lingers: process.lingersForInspects ?? 0,
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
        write: (_chunk, _encoding, done) => {
          done();
        },
      }),
      output: outputOf(exec, signal),
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

async function* outputOf(exec: FakeExec, signal: AbortSignal): AsyncGenerator<OutputChunk, void> {
  for (const chunk of exec.process.output ?? []) yield chunk;
  if (exec.process.exitCode === undefined) await orAbort(exec.killed, signal);
  exec.exitCode ??= exec.process.exitCode;
}
