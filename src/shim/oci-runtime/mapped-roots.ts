/** Root file systems of containers in user namespaces: mounted by the helper, and taken away with their containers. */
import { rmdirSync } from "node:fs";
import { chmod, mkdir, readdir, readlink } from "node:fs/promises";
import { dirname, join } from "node:path/posix";
import type { Snapshot } from "../../domain/snapshot.js";
import type { UserNamespace } from "../../domain/oci-changes.js";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { readKernelFile } from "../../lib/linux/kernel-file.js";
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import { nowNanoseconds, type Nanoseconds } from "../../lib/time.js";
import type { Logger } from "../../lib/log.js";
import { runProgram } from "../native/run-program.js";
import type { StartProgram } from "../native/start-program.js";

/** Unlike the sockets, the roots are below directories that the mapped ids may pass. */
export const rootsDirectory = "/run/dockershim-roots";

export interface MappedRootsDeps {
  readonly directory?: string | undefined;
  /** Tells this server from others of the same engine. */
  readonly stateDirectoryId: string;
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  readonly log: Pick<Logger, "warn" | "info">;
  /** For one root; less than the server has for its answer. Default 15 s. */
  readonly timeoutMs?: number;
}

const mountTable = "/proc/self/mountinfo";
const mountTableBytes = 64 * 1024 * 1024;

/** A directory with the name of the container's id tells what is mounted: it is gone after a reboot, as the mounts are. */
export class MappedRoots {
  readonly #directory: string;
  readonly #timeoutMs: number;
  readonly #locks = new KeyedMutex();
  /** Container id → when its root was mounted by this process; 0 for an earlier one. */
  readonly #mounted = new Map<string, Nanoseconds>();

  constructor(private readonly deps: MappedRootsDeps) {
    this.#directory = join(deps.directory ?? rootsDirectory, deps.stateDirectoryId);
    this.#timeoutMs = deps.timeoutMs ?? 15_000;
  }

  /** Where the root of the container is, or will be. */
  pathOf(id: string): string {
    return join(this.#directory, id, "root");
  }

  /**
   * Mounts the root of a container, whose overlay is at `root`, with the ids of `users`. `pid`: a process in the
   * engine's mount namespace.
   */
  async mount(
    id: string,
    { pid, root }: { readonly pid: number; readonly root: string },
    { uids, gids }: UserNamespace,
  ): Promise<void> {
    await requireSameMounts(pid);
    const directory = join(this.#directory, id);
    await this.#withLock(id, async (signal) => {
      const overlay = overlayIn(await readKernelFile(mountTable, mountTableBytes), root);
      // First: the directory of all is removed when there is none.
      this.#mounted.set(id, nowNanoseconds());
      await mkdir(this.#directory, { recursive: true });
      // Whatever the umask is: the mapped ids pass by.
      for (const each of [dirname(this.#directory), this.#directory]) await chmod(each, 0o711);
      try {
        if (overlay === "mapped")
          await this.#perform("kept-root", [directory, root, String(gids.hostId)], signal);
        else
          await this.#perform("mapped-root", [directory, root, ...wordsOf(overlay, { uids, gids })], signal);
      } catch (error) {
        await this.#perform("unmapped-root", [directory], AbortSignal.timeout(this.#timeoutMs)).catch(
          () => undefined, // The removal of the container tries again.
        );
        throw error;
      }
    });
  }

  /** Takes roots away that earlier processes left, of containers that do not run. To be called when the model is live. */
  async adopt(isRunning: (id: string) => boolean): Promise<void> {
    const names = await readdir(this.#directory).catch(() => []);
    for (const id of names) {
      if (this.#mounted.has(id)) continue;
      this.#mounted.set(id, 0n);
      if (!isRunning(id)) await this.#unmount(id);
    }
    this.#removeEmpty();
  }

  /** To be told of each inspected container; undefined for a removed one. */
  observe(id: string, snapshot: Snapshot | undefined): void {
    const mounted = this.#mounted.get(id);
    if (mounted === undefined) return;
    // One that is about to start once more has ended before its root was mounted.
    const hasEnded = snapshot === undefined || snapshot.state.finished > mounted;
    if (hasEnded && snapshot?.state.running !== true) void this.#unmount(id);
  }

  async #unmount(id: string): Promise<void> {
    const mounted = this.#mounted.get(id);
    try {
      await this.#withLock(id, async (signal) => {
        // Mounted anew meanwhile.
        if (this.#mounted.get(id) !== mounted) return;
        await this.#perform("unmapped-root", [join(this.#directory, id)], signal);
        this.#mounted.delete(id);
      });
      this.#removeEmpty();
    } catch (error) {
      this.deps.log.warn(
        { containerId: id, err: messageOf(error) },
        "cannot unmount the root of a container",
      );
    }
  }

  /** Synchronous: no mount begins in between. Never fails: nothing waits for it, and all works with the directory. */
  #removeEmpty(): void {
    if (this.#mounted.size > 0) return;
    try {
      rmdirSync(this.#directory);
    } catch (error) {
      // What is in it is of an unknown origin.
      if (hasCode(error, "ENOENT", "ENOTEMPTY")) return;
      this.deps.log.warn(
        { path: this.#directory, err: messageOf(error) },
        "cannot remove the directory of roots of containers",
      );
    }
  }

  #withLock<T>(id: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return withDeadline(undefined, this.#timeoutMs, `map the root of container "${id}"`, (signal) =>
      this.#locks.run(id, signal, () => work(signal)),
    );
  }

  async #perform(program: string, words: readonly string[], signal: AbortSignal): Promise<void> {
    const limits = { stdoutBytes: 1024, stderrBytes: 1024, deathMs: 5_000 };
    const request = { program, words, environment: {} };
    const { exitCode, stderr } = await runProgram(this.deps.startVerb, request, {
      ...limits,
      input: "",
      signal,
    });
    if (exitCode !== 0) throw new ShimError("precondition", stderr.trim() || `${program} failed`);
  }
}

function wordsOf({ upper, work, options, lower }: Overlay, { uids, gids }: UserNamespace): readonly string[] {
  const ids = [uids.hostId, gids.hostId, uids.size, gids.size].map(String);
  return [...ids, options, upper, work, ...lower];
}

/** The mounts are made here: the engine's containerd must see them. */
async function requireSameMounts(pid: number): Promise<void> {
  const [own, others] = await Promise.all(
    ["self", String(pid)].map((name) => readlink(`/proc/${name}/ns/mnt`).catch(() => name)),
  );
  if (own === others) return;
  throw new ShimError("precondition", "dockershim and the engine have different mount namespaces");
}

interface Overlay {
  readonly lower: readonly string[];
  readonly upper: string;
  readonly work: string;
  /** Further options, each behind a comma. */
  readonly options: string;
}

/** Those that change what is stored in the layers. */
const keptOptions = /^(index|metacopy|redirect_dir|userxattr|volatile)(=|$)/;

/** As the helper names the first layer; Docker and containerd have no such name. */
const firstMappedLayer = /(?:^|,)lowerdir=l0[:,]/;

/**
 * The topmost overlay at `root`. Lower directories of Docker's may be relative to the directory of all layers. `mapped`:
 * Docker keeps the one that was mounted for the last start, as when it restarts a container.
 */
export function overlayIn(mountinfo: string, root: string): Overlay | "mapped" {
  const refuse = (reason: string): ShimError =>
    new ShimError("precondition", `the root ${JSON.stringify(root)} of the container ${reason}`);
  const line = mountinfo
    .split("\n")
    .filter((each) => each.split(" ", 5)[4] === root)
    .at(-1);
  const [kind, , text = ""] = line?.split(" - ")[1]?.split(" ") ?? [];
  if (kind !== "overlay") throw refuse("is no overlay");
  if (firstMappedLayer.test(text)) return "mapped";
  // Characters with a meaning are written with a backslash.
  if (text.includes("\\")) throw refuse("has layers with unusual names");
  const options = text.split(",");
  const valueOf = (name: string): string =>
    options.find((option) => option.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const [upper, work, lower] = [valueOf("upperdir"), valueOf("workdir"), valueOf("lowerdir")];
  if (!upper.startsWith("/") || !work.startsWith("/") || lower === "") throw refuse("has no writable layer");
  const layers = dirname(dirname(upper));
  const kept = options.filter((option) => keptOptions.test(option)).map((option) => `,${option}`);
  return {
    ...{ upper, work, options: kept.join("") },
    lower: lower.split(":").map((path) => (path.startsWith("/") ? path : join(layers, path))),
  };
}
