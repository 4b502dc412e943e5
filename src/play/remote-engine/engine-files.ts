/** What containers mount, on an engine that does not see the files of this host: in Docker volumes. */
import { posix } from "node:path";
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import {
  type MountedFiles,
  mountSubPath,
  openToAll,
  prepareOwnVolume,
  removeMountedTree,
  writeMountedFile,
} from "../node/mounted-files.js";
import { currentData } from "../node/atomic-writer.js";
import type { Mounting } from "../pod-config/server-features.js";
import type { HostPathType, VolumePreparation } from "../pod-config/volumes.js";
import type { HelperCalls } from "./helper-calls.js";
import { type HelperDeps, type OpenHelper, ensureVolume, openHelper, removeHelper } from "./helper.js";
import { claimLabel, isClaimVolume, kindLabel, podsVolume } from "../pod-config/volume-names.js";

export interface EngineFilesDeps extends HelperDeps {
  /** Lines for people. */
  readonly report: (line: string) => void;
  /** Of the engine, with its context, for messages. */
  readonly endpoint: string;
}

const mostAttempts = 5;
/** As Linux says it, and the engine after it. */
const noSpace = /no space left on device|disk quota exceeded/i;

/** Volumes of objects, which containers cannot change. */
const ofObjects = /\/volumes\/(?:config-map|secret|downward-api|projected)\/[^/]+$/;

export class EngineFiles implements MountedFiles, AsyncDisposable {
  #opening: Promise<OpenHelper> | undefined;
  readonly #stop = new AbortController();
  #isHostPathTold = false;

  constructor(private readonly deps: EngineFilesDeps) {}

  writeFile(path: string, text: string, mode: number): Promise<void> {
    return this.#use((calls) => writeMountedFile(path, Buffer.from(text), mode, calls));
  }

  rewriteFile(path: string, text: string): Promise<boolean> {
    return this.#use((calls) => calls.rewriteFile(path, Buffer.from(text)));
  }

  /** Also empty for what is in no volume of play, such as a hostPath. */
  async readTail(path: string, bytes: number): Promise<string> {
    if (!this.#isOwn(path)) return "";
    return this.#use(async (calls) => {
      const stats = await calls.look(path);
      if (stats?.kind !== "file") return "";
      return (await calls.readPart(path, Math.max(stats.size - bytes, 0), bytes)).toString();
    });
  }

  readBelow(volumePath: string, path: string): Promise<string> {
    const reason = "the engine is elsewhere, and play reads no files of containers there";
    return Promise.reject(new ShimError("unsupported", `read "${path}" of "${volumePath}": ${reason}`));
  }

  async prepareVolume(volume: VolumePreparation): Promise<void> {
    if (volume.kind === "hostPath") {
      await this.#checkHostPath(volume.path, volume.type);
      return;
    }
    if (volume.kind === "claim") await this.#ensureClaim(volume);
    await this.#use(async (calls, { canMount }) => {
      if (canMount || volume.kind === "claim" || volume.memoryBytes === undefined)
        await prepareOwnVolume(volume, calls);
      else if (volume.kind === "files") await prepareOwnVolume({ ...volume, memoryBytes: undefined }, calls);
      else throw cannotMount(`keep volume "${volume.path}" in memory`);
    });
  }

  mountSubPath(volumePath: string, subPath: string, target: string): Promise<string> {
    return this.#use(async (calls, { canMount }) => {
      if (!this.#isOwn(volumePath))
        throw new ShimError("unsupported", `mount subPath "${subPath}" of "${volumePath}": ${onlyOwn}`);
      if (canMount) return mountSubPath(volumePath, subPath, target, calls);
      if (!ofObjects.test(volumePath)) throw cannotMount(`mount subPath "${subPath}" of "${volumePath}"`);
      await calls.findSubPath(volumePath, subPath); // Throws when it is missing.
      return posix.join(volumePath, (await currentData(volumePath, calls)) ?? "", subPath);
    });
  }

  diskUsage(path: string): Promise<bigint> {
    return this.#use((calls) => calls.diskUsage(path));
  }

  /** The helper goes with the last pod. */
  async removeTree(path: string): Promise<void> {
    const { engine } = this.deps;
    if ((await engine.inspectVolume(podsVolume, this.#stop.signal)) === undefined) return;
    const left = await this.#use(async (calls) => {
      await removeMountedTree(path, calls);
      return (await calls.list(this.#pods)).length;
    });
    if (left > 0) return;
    await this.#close();
    await removeHelper(this.deps, this.#stop.signal);
  }

  /** Bytes of the file system on which volumes are. */
  space(): Promise<bigint> {
    return this.#use((calls) => calls.space(posix.join(this.deps.volumesPath, podsVolume)));
  }

  /** Makes the helper, and tells what is lost when it can mount nothing. */
  async mounting(): Promise<Mounting> {
    const canMount = await this.#use((_, helper) => Promise.resolve(helper.canMount));
    if (!canMount) this.deps.report(`Secrets are on the disk of the engine's host: ${whyNotMounted}`);
    return { missing: canMount ? undefined : whyNotMounted };
  }

  /** The helper runs on as long as there are pods. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const helper = await this.#opening;
      if (helper?.calls.isLost === false && (await helper.calls.list(this.#pods)).length === 0)
        await removeHelper(this.deps, this.#stop.signal);
    } catch {
      // The engine is gone. The next play finds the helper.
    }
    await this.#close();
    this.#stop.abort(new ShimError("cancelled", "play ends"));
  }

  /** The directories of pods. */
  get #pods(): string {
    return posix.join(this.deps.volumesPath, podsVolume, "_data");
  }

  #isOwn(path: string): boolean {
    return path.startsWith(posix.join(this.deps.volumesPath, podsVolume));
  }

  /** Another play may remove the helper, and a claim makes it again: the work is then repeated. */
  async #use<T>(work: (calls: HelperCalls, helper: OpenHelper) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const helper = await this.#open();
      try {
        return await work(helper.calls, helper);
      } catch (error) {
        const isLost = helper.calls.isLost && !isKind(error, "timeout");
        if (!isLost || attempt === mostAttempts || this.#stop.signal.aborted) throw this.#explain(error);
      }
    }
  }

  /** All that wait for it share it, and its failure; the next one tries anew. */
  async #open(): Promise<OpenHelper> {
    for (;;) {
      const opening = (this.#opening ??= openHelper(this.deps, this.#stop.signal));
      try {
        const helper = await opening;
        if (!helper.calls.isLost) return helper;
      } catch (error) {
        throw this.#explain(
          ShimError.from(error, "unknown").within("reach the files of pods on the engine's host"),
        );
      } finally {
        if ((await opening.catch(() => undefined))?.calls.isLost !== false) this.#forget(opening);
      }
    }
  }

  /** Errors that are the engine's or its disk's name the engine, and the next step. Others stay what they are. */
  #explain(error: unknown): unknown {
    const message = messageOf(error);
    const { endpoint } = this.deps;
    if (noSpace.test(message)) {
      const next = 'free some there, as by "docker image prune"';
      const why = `the engine's host at ${endpoint} has no space left: ${next}`;
      return new ShimError("exhausted", `${message}; ${why}`, {}, { cause: error });
    }
    if (!isKind(error, "unavailable", "timeout") || message.includes(endpoint)) return error;
    return error.within(`use the engine at ${endpoint}`);
  }

  #forget(opening: Promise<OpenHelper>): void {
    if (this.#opening === opening) this.#opening = undefined;
  }

  async #close(): Promise<void> {
    (await this.#opening?.catch(() => undefined))?.[Symbol.dispose]();
    this.#opening = undefined;
  }

  /** A new volume is another user's to write to, too, as a volume on this host. */
  async #ensureClaim(volume: Extract<VolumePreparation, { readonly kind: "claim" }>): Promise<void> {
    const { engine } = this.deps;
    const { path } = volume;
    const name = posix.basename(posix.dirname(path));
    if (!isClaimVolume(name)) throw new ShimError("internal", `"${path}" is no volume of a claim`);
    if ((await engine.inspectVolume(name, this.#stop.signal)) === undefined) {
      const labels = { [kindLabel]: "claim", [claimLabel]: volume.claim };
      await ensureVolume(name, labels, this.deps, this.#stop.signal);
      await this.#close(); // So that the helper has the volume.
    }
    await this.#use(async (calls) => {
      const isNew = (await calls.look(path))?.mode === 0o755 && (await isEmpty(path, calls));
      if (isNew) await openToAll(path, undefined, calls);
    });
  }

  /** Only the engine sees its host: it is asked for a container that is not made, with the path as a mount. */
  async #checkHostPath(path: string, type: HostPathType): Promise<void> {
    if (!this.#isHostPathTold)
      this.deps.report("hostPath volumes are paths of the engine's host, not of this one");
    this.#isHostPathTold = true;
    if (type === "" || type === "DirectoryOrCreate") return;
    const action = `use hostPath "${path}"`;
    if (type === "FileOrCreate")
      throw new ShimError("unsupported", `${action}: FileOrCreate needs an engine on this host; write File`);
    try {
      const Mounts = [{ Type: "bind", Source: path, Target: "/path", ReadOnly: true }] as const;
      const body = { Image: "dockershim.local/none:0", Labels: {}, HostConfig: { Mounts } };
      const id = await this.deps.engine.createContainer("", body, this.#stop.signal);
      await this.deps.engine.removeContainer(id, { force: true }, this.#stop.signal);
    } catch (error) {
      if (isKind(error, "notFound")) return; // The image: the path is there.
      if (!isKind(error, "invalid")) throw error;
      throw new ShimError("invalid", `${action}: not on the engine's host: ${messageOf(error)}`);
    }
  }
}

async function isEmpty(directory: string, calls: HelperCalls): Promise<boolean> {
  try {
    return (await calls.list(directory)).length === 0;
  } catch (error) {
    if (hasCode(error, "E2BIG")) return false; // More names than fit into an answer.
    throw error;
  }
}

const onlyOwn = "an engine elsewhere shows only the volumes of play, and this is a path of its host";

const whyNotMounted =
  "the mounts of the engine's host are not shared, so that it sees none of play's; run \"mount --make-rshared /\" there";

function cannotMount(action: string): ShimError {
  return new ShimError("unsupported", `${action}: ${whyNotMounted}`);
}
