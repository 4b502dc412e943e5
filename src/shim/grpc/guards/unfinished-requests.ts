/**
 * Requests whose message has not come as a whole. What they cost is bounded by back-pressure: while the memory for them is
 * spent, the connections that have most of it are read one after the other. Only a connection that is read and sends
 * nothing has its requests refused: one that has to wait is no reason.
 */
export interface IncomingLimits {
  /** How long a client may take to send its message, while its connection is read. */
  readonly patienceMs: number;
  /** How long the connection that is read may send nothing of its requests while others wait for it. */
  readonly quietMs: number;
  /** Bytes of all requests together: with more, one connection is read at a time. */
  readonly totalBytes: number;
  /** Connections whose requests have no more bytes than this are always read: they do not wait for others. */
  readonly freeBytes: number;
  /** Bytes of the requests of one connection: with more, its oldest one is refused. */
  readonly connectionBytes: number;
}

/** What a request costs before the first byte of its message: its headers, its stream, its call. */
const requestBytes = 16 * 1024;
/** Time is counted in turns of this program: one that was busy has not waited for anybody. */
const ticksOfQuiet = 4;

/** A connection that can be left unread. */
export interface Holdable {
  hold(): void;
  release(): void;
}

/** `late`: it took too long. `exhausted`: there is no memory for it. */
export type RefusalReason = "late" | "exhausted";

/** The sender of requests: one connection. */
export class Sender {
  /** Oldest first. */
  readonly requests = new Set<UnfinishedRequest>();
  bytes = 0;
  quietTicks = 0;
  held = false;

  constructor(readonly connection: Holdable) {}
}

/** As `UnfinishedRequests.add` makes it. */
export class UnfinishedRequest {
  bytes = requestBytes;
  ticks = 0;

  constructor(
    readonly sender: Sender,
    readonly refuse: (reason: RefusalReason) => void,
    private readonly onGrowth: (request: UnfinishedRequest, bytes: number) => void,
    private readonly onEnd: (request: UnfinishedRequest) => void,
  ) {}

  /** Some of its message has come. */
  grow(bytes: number): void {
    this.onGrowth(this, bytes);
  }

  /** It is complete, or given up. May be called more than once. */
  finish(): void {
    this.onEnd(this);
  }
}

export class UnfinishedRequests {
  /** Oldest first. */
  readonly #requests = new Set<UnfinishedRequest>();
  readonly #held = new Set<Sender>();
  #bytes = 0;
  #ticker: NodeJS.Timeout | undefined;

  constructor(private readonly limits: IncomingLimits) {}

  /** `refuse` is called once at most, and not after `finish`. */
  add(sender: Sender, refuse: (reason: RefusalReason) => void): UnfinishedRequest {
    const request = new UnfinishedRequest(
      sender,
      refuse,
      (grown, bytes) => this.#grow(grown, bytes),
      (ended) => this.#end(ended),
    );
    this.#requests.add(request);
    sender.requests.add(request);
    this.#count(sender, request.bytes);
    this.#ticker ??= setInterval(() => this.#tick(), this.limits.quietMs / ticksOfQuiet).unref();
    this.#balance(sender);
    return request;
  }

  #grow(request: UnfinishedRequest, bytes: number): void {
    if (!this.#requests.has(request)) return;
    request.bytes += bytes;
    this.#count(request.sender, bytes);
    this.#balance(request.sender);
  }

  #end(request: UnfinishedRequest): void {
    if (!this.#requests.delete(request)) return;
    const { sender, bytes } = request;
    sender.requests.delete(request);
    this.#count(sender, -bytes);
    if (this.#requests.size === 0) {
      clearInterval(this.#ticker);
      this.#ticker = undefined;
    }
    this.#balance(sender);
  }

  #count(sender: Sender, bytes: number): void {
    this.#bytes += bytes;
    sender.bytes += bytes;
    sender.quietTicks = 0;
  }

  #balance(sender: Sender): void {
    const [ownOldest] = sender.requests;
    if (sender.bytes > this.limits.connectionBytes && ownOldest !== undefined) {
      this.#refuse(ownOldest, "exhausted");
      return;
    }
    const turn = this.#turn();
    if (turn === undefined) {
      for (const held of this.#held) this.#release(held);
      return;
    }
    // Whoever came first has its turn: else nobody could go on, and no memory would become free.
    this.#release(turn);
    // What was on its way when it was held may have completed its requests.
    if (sender.bytes <= this.limits.freeBytes) this.#release(sender);
    else if (sender !== turn) this.#hold(sender);
  }

  /** Who is read while the others wait; undefined while nobody has to. */
  #turn(): Sender | undefined {
    if (this.#bytes <= this.limits.totalBytes) return undefined;
    const [oldest] = this.#requests;
    return oldest?.sender;
  }

  #hold(sender: Sender): void {
    if (sender.held) return;
    sender.held = true;
    this.#held.add(sender);
    sender.connection.hold();
  }

  #release(sender: Sender): void {
    if (!sender.held) return;
    sender.held = false;
    this.#held.delete(sender);
    sender.connection.release();
  }

  #tick(): void {
    const { patienceMs, quietMs } = this.limits;
    for (const request of [...this.#requests]) {
      if (request.sender.held) continue;
      request.ticks += 1;
      if (request.ticks > (patienceMs / quietMs) * ticksOfQuiet) this.#refuse(request, "late");
    }
    const turn = this.#turn();
    if (turn === undefined) return;
    turn.quietTicks += 1;
    if (turn.quietTicks <= ticksOfQuiet) return;
    for (const request of [...turn.requests]) this.#refuse(request, "exhausted");
  }

  #refuse(request: UnfinishedRequest, reason: RefusalReason): void {
    if (!this.#requests.has(request)) return;
    // Whether or not its stream can be closed, it is not counted twice.
    this.#end(request);
    request.refuse(reason);
  }
}
