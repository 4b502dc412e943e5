/** The files of a node with planned edits laid over them: the plan is read back as systemd would read it. */
import { basename, dirname } from "node:path/posix";
import { type FileReading, NodeFiles } from "../files/node-files.js";

export class WorkingFiles extends NodeFiles {
  /** Texts of edited files, by path on the node after links. */
  readonly #texts = new Map<string, string>();

  override async read(path: string): Promise<FileReading> {
    const resolved = await this.resolve(path).catch(() => path);
    const text = this.#texts.get(resolved);
    return text === undefined ? super.read(path) : { kind: "read", path: resolved, text };
  }

  override async names(path: string): Promise<readonly string[]> {
    const names = await super.names(path);
    const resolved = await this.resolve(path).catch(() => path);
    const added = [...this.#texts.keys()]
      .filter((file) => dirname(file) === resolved)
      .map((file) => basename(file));
    return [...new Set([...names, ...added])].sort();
  }

  override async kindOf(path: string): ReturnType<NodeFiles["kindOf"]> {
    return this.#texts.has(path) ? "file" : super.kindOf(path);
  }

  /** The text with the edits so far; undefined where there is no file. */
  async text(path: string): Promise<string | undefined> {
    const reading = await this.read(path);
    return reading.kind === "read" ? reading.text : undefined;
  }

  set(path: string, text: string): void {
    this.#texts.set(path, text);
  }

  /** Edited files in the order of their paths, with the text on the node; undefined for a new file. */
  async edits(): Promise<
    readonly { readonly path: string; readonly before: string | undefined; readonly after: string }[]
  > {
    const edits = [];
    for (const [path, after] of [...this.#texts].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const reading = await super.read(path);
      const before = reading.kind === "read" ? reading.text : undefined;
      if (before !== after) edits.push({ path, before, after });
    }
    return edits;
  }
}
