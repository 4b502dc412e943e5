/** Flushes of the file system under the control of a test. */
import fs from "node:fs";
import { open, readlink, type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { basename } from "node:path";
import { mock } from "node:test";

/** Records flushes by the names of their files. They can be held, and made to fail. */
export class HeldFlushes implements Disposable {
  /** Names of what was flushed, in order. */
  readonly done: string[] = [];
  /** Code of the error with which flushes fail; only that of `failingName`, when given. */
  failing: string | undefined;
  failingName: string | undefined;
  #begun = 0;
  readonly #waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  #held: { readonly name: string | undefined; readonly promise: Promise<void> } | undefined;
  #release: (() => void) | undefined;
  readonly #mocks: readonly { readonly mock: { restore(): void } }[];

  private constructor(prototype: FileHandle) {
    const record = (handle: { readonly fd: number }): Promise<void> => this.#flush(handle);
    const ofHandles = mock.method(prototype, "sync", function (this: FileHandle) {
      return record(this);
    });
    const ofDescriptors = mock.method(fs, "fsync", (fd: number, done: (error: unknown) => void) => {
      void record({ fd }).then(() => done(null), done);
    });
    this.#mocks = [ofHandles, ofDescriptors];
    syncBuiltinESMExports();
  }

  static async start(): Promise<HeldFlushes> {
    const handle = await open("/");
    await handle.close();
    return new HeldFlushes(Object.getPrototypeOf(handle) as FileHandle);
  }

  /** Holds each flush that begins from now on; with a name, those of such a file. */
  hold(name?: string): void {
    const promise = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    this.#held = { name, promise };
  }

  release(): void {
    this.#held = undefined;
    this.#release?.();
  }

  /** Resolves when so many flushes have begun. */
  async begun(count: number): Promise<void> {
    if (this.#begun >= count) return;
    // The timers of flushes do not keep the process alive.
    const alive = setInterval(() => undefined, 1_000);
    await new Promise<void>((resolve) => {
      this.#waiting.push({ count, resolve });
    });
    clearInterval(alive);
  }

  async #flush(handle: { readonly fd: number }): Promise<void> {
    const name = basename(await readlink(`/proc/self/fd/${String(handle.fd)}`));
    this.#begun += 1;
    for (const { count, resolve } of this.#waiting) if (this.#begun >= count) resolve();
    if (this.#held !== undefined && (this.#held.name ?? name) === name) await this.#held.promise;
    if (this.failing !== undefined && (this.failingName ?? name) === name) {
      throw Object.assign(new Error(`${this.failing}: made to fail, fsync`), { code: this.failing });
    }
    this.done.push(name);
  }

  [Symbol.dispose](): void {
    for (const one of this.#mocks) one.mock.restore();
    syncBuiltinESMExports();
    this.release();
  }
}

/** Flushes of files and directories while `work` ran; nothing else may run beside it. */
export async function countFlushes(work: () => Promise<unknown>): Promise<number> {
  using flushes = await HeldFlushes.start();
  await work();
  return flushes.done.length;
}
