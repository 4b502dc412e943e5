/** Limits of one SPDY connection. Real clients stay far below them. */

export interface SpdyLimits {
  /** Payload of a received control frame. Data frames may have any length, as they are not buffered. */
  readonly frameBytes: number;
  /** One header block, inflated. */
  readonly inflatedHeaderBytes: number;
  /** Headers of one block. */
  readonly headerCount: number;
  /** Streams that are open at the same time. Further ones are refused. */
  readonly streams: number;
  /** Buffered input of one stream. Above it reading is paused, of all streams of the connection. */
  readonly bufferedBytesPerStream: number;
  /** Buffered input of all streams together. */
  readonly bufferedBytes: number;
  /** Replies, resets and pings that the client does not read. Above it reading is paused. */
  readonly unsentControlBytes: number;
  /** Header blocks that are handled before other connections get their turn. */
  readonly headerBlocksPerTurn: number;
  /** While reading is paused, a frame sent at this interval detects a client that has disconnected. */
  readonly probeMs: number;
  /** How long the client may take to read the last bytes and to close, after the connection was ended. */
  readonly lingerMs: number;
}

export const defaultSpdyLimits: SpdyLimits = {
  frameBytes: 64 * 1024,
  inflatedHeaderBytes: 64 * 1024,
  headerCount: 100,
  // A forwarded connection takes two.
  streams: 2_000,
  bufferedBytesPerStream: 1024 * 1024,
  bufferedBytes: 16 * 1024 * 1024,
  unsentControlBytes: 64 * 1024,
  headerBlocksPerTurn: 50,
  probeMs: 5_000,
  lingerMs: 2_000,
};
