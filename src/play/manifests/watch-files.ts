/** Notices changes of manifest files, for `play --watch`. */
import { readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ShimError } from "../../lib/errors.js";
import { DirectoryWatch } from "../../lib/files/directory-watch.js";
import type { ManifestFile } from "./documents.js";

/** Editors write a file in several steps. */
const settleMs = 200;
/** Where the kernel cannot watch. */
const pollMs = 2000;

/** Throws for standard input and pipes: what is read from them a second time is empty. */
export async function checkWatched(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const status = name === "-" ? undefined : await stat(name).catch(() => undefined);
    if (status?.isFile() === true || status?.isDirectory() === true) continue;
    throw new ShimError("invalid", `--watch needs files and directories, and "${name}" is neither`);
  }
}

/** The name of a file that had a text before, and has none now: a program has begun to write it. */
export function emptiedFile(
  before: readonly ManifestFile[],
  now: readonly ManifestFile[],
): string | undefined {
  const isEmpty = ({ text }: ManifestFile): boolean => text.trim() === "";
  const had = new Set(before.filter((file) => !isEmpty(file)).map(({ name }) => name));
  return now.find((file) => isEmpty(file) && had.has(file.name))?.name;
}

export class FileWatch implements Disposable {
  readonly #watches = new Map<string, DirectoryWatch>();
  #timer: NodeJS.Timeout | undefined;

  /** `names`: files and directories. `onChange` is called some time after the last of several changes. */
  constructor(
    private readonly names: readonly string[],
    private readonly options: { readonly recursive: boolean; readonly onChange: () => void },
  ) {}

  /** To be called before each reading of the files: directories may have come or gone. */
  async renew(): Promise<void> {
    const directories = new Set(
      (await Promise.all(this.names.map((name) => this.#directoriesOf(name)))).flat(),
    );
    for (const [directory, watch] of this.#watches) {
      if (directories.has(directory)) continue;
      watch.stop();
      this.#watches.delete(directory);
    }
    for (const directory of directories) {
      const watch =
        this.#watches.get(directory) ?? new DirectoryWatch(directory, { onChange: this.#onChange, pollMs });
      this.#watches.set(directory, watch);
      await watch.renew();
      watch.start();
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const watch of this.#watches.values()) watch.stop();
  }

  readonly #onChange = (): void => {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.options.onChange, settleMs);
  };

  /** A file is watched by its directory: editors put another file in its place. */
  async #directoriesOf(name: string): Promise<readonly string[]> {
    try {
      const real = await realpath(name);
      if (!(await stat(real)).isDirectory()) return [dirname(name), dirname(real)];
      if (!this.options.recursive) return [real];
      return [real, ...(await this.#below(real))];
    } catch {
      return [dirname(name)]; // It may come back.
    }
  }

  async #below(directory: string): Promise<readonly string[]> {
    const entries = await readdir(directory, { withFileTypes: true });
    const below = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name));
    return [...below, ...(await Promise.all(below.map((path) => this.#below(path)))).flat()];
  }
}
