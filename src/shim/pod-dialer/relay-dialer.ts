/** Pods of an engine on another host, by a process in the sandbox, through the Docker API alone. */
import type { Duplex } from "node:stream";
import { linkAbort, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { LruMap } from "../../lib/lru-map.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine, ExecOptions } from "../ports/engine.js";
import type { PodDialer } from "../ports/pod-dialer.js";
import { RelayStream } from "./relay-stream.js";

export interface RelayDialerOptions {
  readonly engine: Pick<Engine, "createExec" | "startExec" | "statArchive" | "putArchive">;
  /** Path of the program in a sandbox, as in the built-in pause image. */
  readonly programPath: string;
  /** A tar with the program, to be unpacked at `/`. */
  readonly programArchive: () => Promise<Buffer>;
  /** The pause image that has the program, for error messages. */
  readonly builtinImage: string;
}

/** As in native/port-forward.c. */
const connectTimeoutMs = 10_000;
/** The engine starts a process for each connection. */
const openTimeoutMs = connectTimeoutMs + 10_000;
/** Sandboxes that are known to have the program. */
const rememberedSandboxes = 1_000;

export class RelayDialer implements PodDialer {
  readonly #options: RelayDialerOptions;
  readonly #equipped = new LruMap<string, true>(rememberedSandboxes);
  readonly #equipping = new SingleFlight<undefined>();

  constructor(options: RelayDialerOptions) {
    this.#options = options;
  }

  async connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex> {
    const { engine, programPath } = this.#options;
    return withDeadline(signal, openTimeoutMs, "start the port-forward program", async (limited) => {
      await this.#equip(sandbox, limited);
      const command = [programPath, String(port)];
      const options: ExecOptions = { command, tty: false, stdin: true, stdout: true, stderr: false };
      const execId = await engine.createExec(sandbox.id, options, limited);
      // The signal of the attempt must not end the connection afterwards.
      const life = new AbortController();
      using _ = linkAbort(limited, () => {
        life.abort(limited.reason);
      });
      limited.throwIfAborted();
      const stream = new RelayStream(await engine.startExec(execId, options, life.signal));
      stream.on("error", () => undefined); // Until the caller listens.
      await stream.open(connectTimeoutMs);
      return stream;
    });
  }

  /** Copies the program into the sandbox when its pause image does not have it. */
  async #equip({ id }: Snapshot, signal: AbortSignal): Promise<void> {
    if (this.#equipped.get(id) === true) return;
    await this.#equipping.run(id, signal, async (shared) => {
      const { engine, programPath, programArchive } = this.#options;
      if ((await engine.statArchive(id, programPath, shared)) === undefined) {
        const archive = await programArchive();
        await engine.putArchive(id, "/", archive, shared).catch((error: unknown) => {
          throw this.#cannotCopy(error);
        });
      }
      this.#equipped.set(id, true);
      return undefined;
    });
  }

  /** Docker refuses a read-only root file system, for example. Errors of the engine itself are kept. */
  #cannotCopy(error: unknown): ShimError {
    const action = "copy the port-forward program into the sandbox";
    if (isKind(error, "unavailable", "timeout", "cancelled", "notFound")) return error.within(action);
    const remedy = `use the pause image ${this.#options.builtinImage}, which has it`;
    const message = `${action}: ${messageOf(error)}; ${remedy}`;
    return new ShimError("unsupported", message, {}, { cause: error });
  }
}
