/**
 * RST_STREAM frames that a client may send at once, and per second from then on. A kubelet that stops or times out
 * cancels some hundred calls at most; a client that resets requests without end would keep the server at work
 * (hostile-http2.test.ts, "requests that are reset at once").
 */
import { ProtocolError } from "../../../lib/http2/frames.js";

const resetBurst = 500;
const resetsPerSecond = 30;

export class ResetLimit {
  #resets = 0;
  #countedAtMs = 0;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Throws a ProtocolError when the client has sent too many. */
  count(): void {
    const now = this.now();
    const forgiven = ((now - this.#countedAtMs) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#countedAtMs = now;
    if (this.#resets > resetBurst) throw new ProtocolError("a flood of RST_STREAM frames");
  }
}
