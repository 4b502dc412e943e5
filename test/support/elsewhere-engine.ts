/**
 * A Docker Engine as in a virtual machine, which tests may kill: with none of this host's files but its socket. For
 * tests in namespaces (isolated-engine.ts), with which it ends.
 */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { startDockerd } from "../../scripts/setup/engine-elsewhere.mjs";
import { diskDirectory, openNamespaces, type Namespaces } from "../../scripts/setup/namespaces.mjs";
import { docker } from "./docker.js";
import { until } from "./wait.js";

export class ElsewhereEngine implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(diskDirectory, "dockershim-elsewhere-"));
  readonly socket = join(this.#directory, "docker.sock");
  readonly endpoint = `unix://${this.socket}`;
  #namespaces: Namespaces | undefined;
  #dockerd: ChildProcess | undefined;

  /**
   * Returns when the engine answers. It keeps what it had before. `mounts`: whether those of the engine's host are shared, as
   * systemd has them.
   */
  async start({ mounts = "shared" }: { readonly mounts?: "shared" | "private" } = {}): Promise<void> {
    this.#namespaces = await openNamespaces("/", { elsewhere: true, mounts, directory: this.#directory });
    // It ends with its namespaces.
    this.#dockerd = await startDockerd(this.#namespaces, [], []);
    await until("the engine elsewhere to answer", () =>
      docker("GET", "/_ping", { socket: this.socket }).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  }

  /** Its processes are these and all below them. */
  get pids(): readonly number[] {
    const pids = [this.#dockerd?.pid, this.#namespaces?.pid];
    return pids.flatMap((pid) => (pid === undefined ? [] : [Number(pid)]));
  }

  /** As by a power cut: with all its containers. */
  async kill(): Promise<void> {
    await this.#namespaces?.close();
    this.#namespaces = undefined;
  }

  /** The answer as JSON; throws for a refusal. */
  async json(method: string, path: string, body?: Buffer | object): Promise<unknown> {
    const { socket } = this;
    const answer = await docker(method, path, body === undefined ? { socket } : { socket, body });
    const text = answer.body.toString();
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? undefined : (JSON.parse(text.split("\n", 1)[0] ?? "") as unknown);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
