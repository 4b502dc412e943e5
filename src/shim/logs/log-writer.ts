/** What writes the log of one container, from whatever source. */
export interface LogWriter {
  start(): void;
  /** The container has ended: resolves when all that it has written is in the log, or with `close`. Never rejects. */
  finish(): Promise<void>;
  /** Goes on in a new file at the log path. */
  reopen(): Promise<void>;
  /** Stops at once; when it returns nothing more is written, and how far the log is has been recorded. */
  close(): Promise<void>;
}
