/** Keys under which things are kept in directories, and one lock per key for those who read and write them. */
import { orAbort, withDeadline } from "../abort.js";
import { KeyedMutex } from "../sync/keyed-mutex.js";

const keyForm = /^(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

/**
 * Whether `key` may be a file name: the rule of the kubelet's file store (letters, digits, and between them `-`, `_`
 * and `.`, at most 250 characters). Excludes separators, `.` and `..`, and every name that begins with a dot.
 */
export function isFileKey(key: string): boolean {
  return key.length <= 250 && keyForm.test(key);
}

/** Work on files, one at a time per key, in order of arrival. */
export class FileLocks {
  readonly #lock = new KeyedMutex();

  constructor(private readonly timeoutMs = 30_000) {}

  /**
   * Runs `work` alone under the lock of `key`. After the time limit the caller gets a `timeout` error, although a disk
   * that hangs cannot be told to let go: the lock stays taken until it does, and those behind time out in their turn.
   */
  run<T>(key: string, action: string, work: () => Promise<T>): Promise<T> {
    return withDeadline(undefined, this.timeoutMs, action, (signal) =>
      orAbort(this.#lock.run(key, signal, work), signal),
    );
  }
}
