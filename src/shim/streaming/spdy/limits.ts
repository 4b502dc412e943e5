/** What a client may ask of one SPDY connection. Real clients stay far below all of it. */

export interface SpdyLimits {
  /** Payload of a control frame as it comes. A data frame may be as long as the protocol allows: it is never held. */
  readonly frameBytes: number;
  /** One header block, inflated. */
  readonly inflatedHeaderBytes: number;
  /** Headers of one block. */
  readonly headerCount: number;
  /** Streams that are open at the same time. More are refused, one by one. */
  readonly streams: number;
  /** Received and not read yet, of one stream. Above it nothing more is read, from any stream of the connection. */
  readonly unreadBytesPerStream: number;
  /** The same of all streams together. */
  readonly unreadBytes: number;
  /** Answers that the client does not take (replies, resets, pings). Above it nothing more is read. */
  readonly unsentControlBytes: number;
  /** Header blocks that are worked off before other connections get their turn. */
  readonly headerBlocksPerTurn: number;
  /** While nothing is read, what is sent at this interval finds out whether the client is still there. */
  readonly probeMs: number;
  /** How long the client has to take the last bytes and to close, once the connection has been ended. */
  readonly lingerMs: number;
}

export const defaultSpdyLimits: SpdyLimits = {
  frameBytes: 64 * 1024,
  inflatedHeaderBytes: 64 * 1024,
  headerCount: 100,
  // A forwarded connection takes two.
  streams: 2_000,
  unreadBytesPerStream: 1024 * 1024,
  unreadBytes: 16 * 1024 * 1024,
  unsentControlBytes: 64 * 1024,
  headerBlocksPerTurn: 50,
  probeMs: 5_000,
  lingerMs: 2_000,
};
