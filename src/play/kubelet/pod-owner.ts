/** Which play keeps a pod: the mark in the pod's directory. The last play that was given the pod has it. */
import type { HostFiles } from "../containers/files.js";
import { type Directories, ownerPath } from "../containers/pod-files.js";
import type { PodKey } from "../manifests/manifest.js";

export interface PodOwnerDeps {
  readonly files: Pick<HostFiles, "readFile" | "replaceFile">;
  readonly directories: Directories;
  readonly playId: string;
}

/** What another play has done with a pod. */
export type PodLoss = "taken over" | "removed";

const limitBytes = 1024;

export class PodOwner {
  #isMarked = false;

  constructor(private readonly deps: PodOwnerDeps) {}

  /** Whether this play has marked the pod as its own. */
  get isMarked(): boolean {
    return this.#isMarked;
  }

  /** Answers whether another play had the pod. */
  async mark(key: Pick<PodKey, "uid">): Promise<boolean> {
    const { files, directories, playId } = this.deps;
    const path = ownerPath(directories, key);
    const before = await files.readFile(path, limitBytes);
    await files.replaceFile(path, playId);
    this.#isMarked = true;
    return before !== undefined && before !== playId;
  }

  /** The next turn of the loop marks the pod again. */
  forget(): void {
    this.#isMarked = false;
  }

  /**
   * What has become of a pod that this play has marked: the mark of another play, or none, which is how a
   * removal begins.
   */
  async loss(key: Pick<PodKey, "uid">): Promise<PodLoss | undefined> {
    const { files, directories, playId } = this.deps;
    if (!this.#isMarked) return undefined;
    const owner = await files.readFile(ownerPath(directories, key), limitBytes);
    // It may have been given to this play again meanwhile.
    if (owner === playId || !this.isMarked) return undefined;
    return owner === undefined ? "removed" : "taken over";
  }
}
