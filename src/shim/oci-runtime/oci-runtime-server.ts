/** Answers the OCI runtime that the engine starts: what the specification of a new container is. */
import { rmdir } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import type { OciChanges } from "../../domain/oci-changes.js";
import { messageOf } from "../../lib/errors.js";
import { formatJson, isObject, type JsonObject, parseJson, stringAt } from "../../lib/json/exact-json.js";
import type { Logger } from "../../lib/log.js";
import { bindUnixSocket, type BoundSocket } from "../../lib/unix-socket.js";
import type { MappedRoots } from "./mapped-roots.js";
import type { CgroupSettings } from "../ports/host.js";
import { changeSpecification } from "./change-specification.js";
import {
  encodeAnswer,
  QuestionReader,
  type RuntimeAnswer,
  type RuntimeQuestion,
} from "./runtime-protocol.js";

/** Where the OCI runtime looks for servers; the program of native/oci-runtime.c has the same. */
export const socketsDirectory = "/run/dockershim/oci-runtime";

export interface PlannedContainer {
  readonly changes: OciChanges;
  /** Of the container's record: those that `changes` name are used. */
  readonly limits: CgroupSettings;
}

export interface OciRuntimeServerDeps {
  readonly directory?: string | undefined;
  /** Tells this server from others of the same engine. */
  readonly stateDirectoryId: string;
  /** Undefined for a container that needs nothing of it, or is another server's. */
  readonly plannedContainer: (id: string) => PlannedContainer | undefined;
  readonly roots: Pick<MappedRoots, "mount" | "pathOf">;
  readonly log: Pick<Logger, "debug" | "warn">;
  /** For one question; less than the OCI runtime waits. Default 20 s. */
  readonly timeoutMs?: number;
}

const usualTimeoutMs = 20_000;

export class OciRuntimeServer {
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  /** Container id → the program that it is to run in place of its own, and cannot find. */
  readonly #trials = new Map<string, string>();
  #bound: Promise<BoundSocket> | undefined;

  constructor(private readonly deps: OciRuntimeServerDeps) {
    this.#server = createServer((connection) => {
      this.#connections.add(connection);
      connection.once("close", () => this.#connections.delete(connection));
      this.#serve(connection);
    });
    // Only what is under way keeps the process alive.
    this.#server.unref();
  }

  /** Listens from the first call on. A failure is tried again by the next call. */
  async listen(): Promise<void> {
    const { directory = socketsDirectory, stateDirectoryId } = this.deps;
    this.#bound ??= bindUnixSocket(this.#server, join(directory, stateDirectoryId, "socket"));
    try {
      await this.#bound;
    } catch (error) {
      this.#bound = undefined;
      throw error;
    }
  }

  /** The container with this id is made to run `program` until the result is disposed of. */
  try(id: string, program: string): Disposable {
    this.#trials.set(id, program);
    return { [Symbol.dispose]: () => this.#trials.delete(id) };
  }

  async stop(): Promise<void> {
    const bound = await this.#bound?.catch(() => undefined);
    for (const connection of this.#connections) connection.destroy();
    this.#server.close();
    if (bound === undefined) return;
    await bound.unlink();
    // Another server of the same state directory may have its socket there by now.
    await rmdir(dirname(bound.path)).catch(() => undefined);
  }

  #serve(connection: Socket): void {
    const { log, timeoutMs = usualTimeoutMs } = this.deps;
    const reader = new QuestionReader();
    const timer = setTimeout(() => connection.destroy(), timeoutMs);
    connection.once("close", () => {
      clearTimeout(timer);
    });
    // The OCI runtime was killed: its container is not made.
    connection.on("error", () => undefined);
    connection.on("data", (chunk: Buffer) => {
      try {
        const question = reader.take(chunk);
        if (question !== undefined)
          void this.#answer(question).then((answer) => connection.end(encodeAnswer(answer)));
      } catch (error) {
        log.warn({ err: messageOf(error) }, "a question of the OCI runtime cannot be read");
        connection.destroy();
      }
    });
  }

  async #answer({ id, pid, specification }: RuntimeQuestion): Promise<RuntimeAnswer> {
    const { log, plannedContainer, roots } = this.deps;
    const trial = this.#trials.get(id);
    const planned = plannedContainer(id);
    if (planned === undefined && trial === undefined) return { kind: "unknown" };
    try {
      const present = parseJson(specification);
      if (!isObject(present)) throw new Error("it is no object");
      if (planned === undefined)
        return { kind: "changed", specification: formatJson(withProgram(present, trial ?? "")) };
      const { changes, limits } = planned;
      const changed = changeSpecification(present, changes, limits, roots.pathOf(id));
      // Last: what cannot be changed has no mounts.
      if (changes.users !== undefined) await roots.mount(id, { pid, root: rootOf(present) }, changes.users);
      log.debug({ containerId: id, changes: Object.keys(planned.changes) }, "OCI specification changed");
      return { kind: "changed", specification: formatJson(changed) };
    } catch (error) {
      const reason = `change the OCI specification: ${messageOf(error)}`;
      log.warn({ containerId: id, err: messageOf(error) }, "cannot change an OCI specification");
      return { kind: "refused", reason };
    }
  }
}

function withProgram(specification: JsonObject, program: string): JsonObject {
  const { process: present } = specification;
  return { ...specification, process: { ...(isObject(present) ? present : {}), args: [program] } };
}

function rootOf({ root }: JsonObject): string {
  return isObject(root) ? (stringAt(root, "path") ?? "") : "";
}
