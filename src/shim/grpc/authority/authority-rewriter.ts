/**
 * The way of a connection to the HTTP/2 library. Node resets every request whose `:authority` is a path, is empty or
 * absent; old gRPC clients send such requests and Go servers answer them. So the first request is read before the
 * library sees the connection: when it is fine, all that the client sends is passed on as it is, unless it is a flood;
 * when not, every request of the connection is repaired, too.
 */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { ConnectionOpening } from "./connection-opening.js";
import { GuardedConnection } from "../guards/guarded-connection.js";
import { defaultSettings, RequestRewriter } from "./request-rewriter.js";

export interface AcceptOptions {
  /** Gives the connection to the HTTP/2 library. */
  readonly inject: (connection: Duplex) => void;
  readonly log: Logger;
  /** How long a client may take to introduce itself, and to complete what it has begun to send. */
  readonly openingTimeoutMs?: number;
  /** How long to wait for the acknowledgement of our SETTINGS, when the first request came before it. */
  readonly acknowledgementTimeoutMs?: number;
  /** How long it may leave unread what the HTTP/2 library has written. */
  readonly unreadMs?: number | undefined;
}

/** Answers to PINGs that a client does not read are no reason to use memory without limit. */
const unreadAnswersBytes = 16 * 1024;

/** Takes over a connection that has just been accepted, until the HTTP/2 library has it or it is closed. */
export function acceptConnection(
  socket: Socket,
  { inject, log, openingTimeoutMs = 10_000, acknowledgementTimeoutMs = 100, unreadMs }: AcceptOptions,
): void {
  const opening = new ConnectionOpening();
  let patience: NodeJS.Timeout | undefined = setTimeout(onHandshakeTimeout, openingTimeoutMs);
  let acknowledgement: NodeJS.Timeout | undefined;

  function onData(chunk: Buffer): void {
    try {
      for (const answer of opening.read(chunk)) socket.write(answer);
    } catch (error) {
      refuse(messageOf(error));
      return;
    }
    if (socket.writableLength > unreadAnswersBytes) {
      refuse("it does not read answers");
      return;
    }
    switch (opening.verdict) {
      case "acceptable":
        handOver();
        break;
      case "repair":
        handOverRepaired();
        break;
      case "acceptable but not acknowledged":
        // Every client acknowledges as soon as it reads; a wrapper is only for one that never does.
        acknowledgement ??= setTimeout(handOverRepaired, acknowledgementTimeoutMs);
        break;
      case "undecided":
        watch();
    }
  }

  /** The time limit runs while the client owes something, from the moment when it began to. */
  function watch(): void {
    if (opening.atRest) {
      clearTimeout(patience);
      patience = undefined;
    } else {
      patience ??= setTimeout(onHandshakeTimeout, openingTimeoutMs);
    }
  }

  function onHandshakeTimeout(): void {
    refuse("it is too slow");
  }

  function refuse(reason: string): void {
    log.debug({ reason }, "connection refused");
    letGo();
    socket.destroy();
  }

  function letGo(): void {
    clearTimeout(patience);
    clearTimeout(acknowledgement);
    socket.removeListener("data", onData);
    socket.removeListener("close", letGo);
    socket.removeListener("end", onEnd);
    socket.pause();
  }

  function onEnd(): void {
    refuse("it ended before its first request");
  }

  function handOver(): void {
    letGo();
    inject(new GuardedConnection(socket, opening.bytes, { unreadMs }));
  }

  function handOverRepaired(): void {
    log.debug("requests of a client are repaired");
    letGo();
    const rewriter = new RequestRewriter({ acknowledged: opening.acknowledged });
    inject(
      new GuardedConnection(socket, opening.bytes, { unreadMs, rewrite: (chunk) => rewriter.rewrite(chunk) }),
    );
  }

  // An 'error' is always followed by 'close'; without a listener it would end the process.
  socket.on("error", (error) => {
    log.debug({ err: error.message }, "connection failed");
  });
  socket.once("close", letGo);
  socket.once("end", onEnd);
  socket.on("data", onData);
  // gRPC clients send no request before they have read the SETTINGS of the server. The library sends its own later.
  socket.write(defaultSettings());
}
