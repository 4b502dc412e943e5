/**
 * A model of a disk at a power cut. It records what a program does with the files below a directory, and gives
 * every state in which the disk may be found afterwards: what was not flushed may be there or not, in any
 * combination, whatever the order. Real file systems lose less.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, dirname } from "node:path";
import { mock } from "node:test";

type FileHandle = fs.promises.FileHandle;

interface Content {
  readonly directory: string;
  bytes: Buffer | undefined;
}

/** What is open: a file, or a directory. */
type Held = Content | { readonly names: string };

/** A creation, rename or removal: what names of a directory lead to; undefined: to nothing. */
interface NameChange {
  readonly kind: "names";
  readonly directory: string;
  readonly names: ReadonlyMap<string, Content | undefined>;
  isDone: boolean;
}

type Event =
  | NameChange
  | { readonly kind: "write"; readonly content: Content; readonly bytes: Buffer }
  | { readonly kind: "sync"; readonly changes: readonly NameChange[] }
  | { readonly kind: "syncContent"; readonly content: Content; readonly bytes: Buffer | undefined };

/** The files of one directory after a power cut. */
export type Files = ReadonlyMap<string, Buffer>;

export class UnflushedDisk implements Disposable {
  readonly #events: Event[] = [];
  readonly #present = new Map<string, Content>();
  readonly #byInode = new Map<bigint, Content>();
  readonly #restore: (() => void)[] = [];

  private constructor(private readonly root: string) {}

  /** Records from now on. `root` and its directories are on the disk already. */
  static async record(root: string): Promise<UnflushedDisk> {
    const disk = new UnflushedDisk(root);
    const probe = await fs.promises.open("/");
    await probe.close();
    disk.#watch(Object.getPrototypeOf(probe) as FileHandle);
    return disk;
  }

  /** How many events there were: a power cut can happen after each. */
  get length(): number {
    return this.#events.length;
  }

  /** Whether something changed in `directory` by the event with that number. */
  concerns(directory: string, index: number): boolean {
    const event = this.#events[index];
    if (event === undefined) return false;
    if (event.kind === "names") return event.directory === directory;
    if (event.kind === "sync") return event.changes.some((change) => change.directory === directory);
    return event.content.directory === directory;
  }

  /**
   * States of `directory` after a power cut behind the first `count` events: all of them, or `most` chosen by
   * `random` (0 to 1) when there are more.
   */
  *statesOf(directory: string, count: number, most: number, random: () => number): Iterable<Files> {
    const events = this.#events.slice(0, count);
    const safe = new Set(events.flatMap((event) => (event.kind === "sync" ? event.changes : [])));
    const changes = events.filter(
      (event): event is NameChange => event.kind === "names" && event.directory === directory,
    );
    const open = changes.filter((change) => !safe.has(change));
    const combinations = 2 ** open.length;
    const seen = new Set<string>();
    for (let at = 0; at < Math.min(combinations, most); at += 1) {
      const chosen = combinations <= most ? at : Math.floor(random() * combinations);
      const kept = changes.filter((change) => safe.has(change) || (chosen >> open.indexOf(change)) % 2 === 1);
      const names = new Map<string, Content | undefined>();
      for (const change of kept) for (const [name, content] of change.names) names.set(name, content);
      for (const files of contentsOf(names, events)) {
        const key = JSON.stringify([...files].map(([name, bytes]) => [name, bytes.toString("latin1")]));
        if (!seen.has(key)) yield files;
        seen.add(key);
      }
    }
  }

  [Symbol.dispose](): void {
    for (const restore of this.#restore) restore();
    syncBuiltinESMExports();
  }

  #watch(prototype: FileHandle): void {
    const handles = new WeakMap<FileHandle, Held>();
    const { open, rename, unlink } = fs.promises;
    const isBelow = (path: unknown): path is string =>
      typeof path === "string" && (path === this.root || path.startsWith(`${this.root}/`));

    this.#replace(fs.promises, "open", async (...args: Parameters<typeof open>) => {
      const [path, flags] = args;
      if (!isBelow(path)) return open(...args);
      const made: Content = { directory: dirname(path), bytes: undefined };
      const isNew = flags === "wx";
      const handle = isNew ? await this.#change([[path, made]], () => open(...args)) : await open(...args);
      const status = await handle.stat({ bigint: true });
      if (isNew) this.#byInode.set(status.ino, made);
      if (status.isDirectory()) handles.set(handle, { names: path });
      else handles.set(handle, this.#byInode.get(status.ino) ?? made);
      return handle;
    });
    this.#replace(fs.promises, "rename", async (...args: Parameters<typeof rename>) => {
      const [from, to] = args;
      if (!isBelow(from) || !isBelow(to)) return rename(...args);
      const moved = new Map<string, Content | undefined>([[from, undefined]]);
      moved.set(to, this.#present.get(from));
      return this.#change([...moved], () => rename(...args));
    });
    this.#replace(fs.promises, "unlink", async (...args: Parameters<typeof unlink>) => {
      const [path] = args;
      return isBelow(path) ? this.#change([[path, undefined]], () => unlink(...args)) : unlink(...args);
    });

    this.#watchSync(isBelow);

    const events = this.#events;
    const begin = (held: Held | undefined): (() => void) => this.#flushed(held);
    const original = (name: "writeFile" | "sync") =>
      (prototype as unknown as Record<string, (this: FileHandle, ...words: unknown[]) => Promise<void>>)[
        name
      ]!;
    const [write, sync] = [original("writeFile"), original("sync")];
    this.#replace(prototype, "writeFile", async function (this: FileHandle, ...args: unknown[]) {
      const content = handles.get(this);
      const bytes = Buffer.from(args[0] as string | Uint8Array);
      if (content !== undefined && "bytes" in content) events.push({ kind: "write", content, bytes });
      await write.apply(this, args);
      if (content !== undefined && "bytes" in content) content.bytes = bytes;
    });
    this.#replace(prototype, "sync", async function (this: FileHandle) {
      const flushed = begin(handles.get(this));
      await sync.call(this);
      flushed();
    });
    syncBuiltinESMExports();
  }

  /** A flush that begins; to be called when it has ended. What changes meanwhile may be missed. */
  #flushed(held: Held | undefined): () => void {
    if (held === undefined) return () => undefined;
    if (!("names" in held)) {
      const { bytes } = held;
      return () => void this.#events.push({ kind: "syncContent", content: held, bytes });
    }
    const changes = this.#events.filter(
      (event): event is NameChange =>
        event.kind === "names" && event.directory === held.names && event.isDone,
    );
    return () => void this.#events.push({ kind: "sync", changes });
  }

  /** By descriptors. */
  #watchSync(isBelow: (path: unknown) => path is string): void {
    const held = new Map<number, Held>();
    const { openSync, writeFileSync, closeSync, renameSync, unlinkSync, fsync } = fs;
    this.#replace(fs, "openSync", (...args: Parameters<typeof openSync>) => {
      const [path, flags] = args;
      if (!isBelow(path)) return openSync(...args);
      const made: Content = { directory: dirname(path), bytes: undefined };
      const isNew = flags === "wx";
      const file = openSync(...args);
      if (isNew) this.#changed([[path, made]]);
      const status = fs.fstatSync(file, { bigint: true });
      if (isNew) this.#byInode.set(status.ino, made);
      held.set(file, status.isDirectory() ? { names: path } : (this.#byInode.get(status.ino) ?? made));
      return file;
    });
    this.#replace(fs, "writeFileSync", (...args: Parameters<typeof writeFileSync>) => {
      const [file, data] = args;
      const content = typeof file === "number" ? held.get(file) : undefined;
      writeFileSync(...args);
      if (content === undefined || "names" in content) return;
      content.bytes = Buffer.from(data as string | Uint8Array);
      this.#events.push({ kind: "write", content, bytes: content.bytes });
    });
    this.#replace(fs, "closeSync", (file: number) => {
      held.delete(file);
      closeSync(file);
    });
    this.#replace(fs, "fsync", (file: number, done: (error: Error | null) => void) => {
      const flushed = this.#flushed(held.get(file));
      fsync(file, (error) => {
        if (error === null) flushed();
        done(error);
      });
    });
    this.#replace(fs, "renameSync", (...args: Parameters<typeof renameSync>) => {
      const [from, to] = args;
      renameSync(...args);
      if (isBelow(from) && isBelow(to))
        this.#changed([
          [from, undefined],
          [to, this.#present.get(from)],
        ]);
    });
    this.#replace(fs, "unlinkSync", (...args: Parameters<typeof unlinkSync>) => {
      const [path] = args;
      unlinkSync(...args);
      if (isBelow(path)) this.#changed([[path, undefined]]);
    });
  }

  #replace(object: object, name: string, by: (...args: never[]) => unknown): void {
    const replaced = mock.method(object as Record<string, (...args: never[]) => unknown>, name, by);
    this.#restore.push(() => {
      replaced.mock.restore();
    });
  }

  async #change<T>(paths: NewNames, work: () => Promise<T>): Promise<T> {
    const change = this.#begin(paths);
    try {
      const result = await work();
      this.#done(change, paths);
      return result;
    } catch (error) {
      this.#events.splice(this.#events.indexOf(change), 1);
      throw error;
    }
  }

  #changed(paths: NewNames): void {
    this.#done(this.#begin(paths), paths);
  }

  #begin(paths: NewNames): NameChange {
    const [first] = paths;
    const names = new Map(paths.map(([path, content]) => [basename(path), content]));
    const change: NameChange = { kind: "names", directory: dirname(first?.[0] ?? ""), names, isDone: false };
    this.#events.push(change);
    return change;
  }

  #done(change: NameChange, paths: NewNames): void {
    for (const [path, content] of paths) {
      if (content === undefined) this.#present.delete(path);
      else this.#present.set(path, content);
    }
    change.isDone = true;
  }
}

type NewNames = readonly (readonly [path: string, content: Content | undefined])[];

/** Each way in which the contents of the files may be found: one that was not flushed may be damaged. */
function* contentsOf(
  names: ReadonlyMap<string, Content | undefined>,
  events: readonly Event[],
): Iterable<Files> {
  const files = [...names].flatMap(([name, content]) => (content === undefined ? [] : [{ name, content }]));
  const possible = files.map(({ name, content }) => ({ name, versions: versionsOf(content, events) }));
  const most = Math.max(1, ...possible.map(({ versions }) => versions.length));
  for (let at = 0; at < most; at += 1) {
    yield new Map(
      possible.map(({ name, versions }) => [name, versions[at % versions.length] ?? Buffer.alloc(0)]),
    );
  }
}

function versionsOf(content: Content, events: readonly Event[]): readonly Buffer[] {
  const nothing: Buffer = Buffer.alloc(0);
  let written = nothing;
  for (const event of events) {
    if (!("content" in event) || event.content !== content) continue;
    if (event.kind === "syncContent" && event.bytes !== undefined) return [event.bytes];
    if (event.kind === "write") written = event.bytes;
  }
  if (written.length === 0) return [nothing];
  return [written, nothing, written.subarray(0, written.length / 2), Buffer.alloc(written.length)];
}
