/** Time, as tests can turn it. */
export interface Clock {
  /** Milliseconds that only grow. */
  now(): number;
  /** Runs `work` once after `milliseconds`, unless the returned function is called before. Keeps no process alive. */
  after(milliseconds: number, work: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(milliseconds, work) {
    const timer = setTimeout(work, milliseconds);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
