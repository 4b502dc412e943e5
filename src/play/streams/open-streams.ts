/** Opens the connection of a URL that Exec, Attach or PortForward answered. */
import { request } from "node:http";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { linkAbort, withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { beginningOf } from "../../lib/streams.js";
import type { Address, Dial } from "../cri/dial.js";
import { SpdyClient } from "./spdy-client.js";

const connectTimeoutMs = 30_000;
const refusalBytes = 4096;

/** Rejects with `unavailable` when the server cannot be reached, with `unsupported` when it refuses. */
export async function openStreams(
  url: string,
  protocol: string,
  dial: Dial,
  signal: AbortSignal,
): Promise<SpdyClient> {
  const target = parseUrl(url);
  return withDeadline(signal, connectTimeoutMs, `connect to ${target.origin}`, async (limit) => {
    const socket = await connectTo(target, dial, limit);
    return upgrade(target, socket, protocol, limit);
  });
}

/** cri-dockerd answers `//127.0.0.1:40000/exec/TOKEN`, which is its plain HTTP. */
function parseUrl(text: string): URL {
  const base = "http://localhost";
  const url = URL.canParse(text, base) && /^(?:[a-z]+:)?\/\//i.test(text) ? new URL(text, base) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new ShimError(
    "unsupported",
    `open the stream at "${shownText(text)}": the CRI server answered no URL of HTTP; set its stream server's address`,
  );
}

async function connectTo(url: URL, dial: Dial, signal: AbortSignal): Promise<Duplex> {
  const isTls = url.protocol === "https:";
  const address: Address = {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
  };
  const socket = await dial(address, signal);
  if (!isTls) return socket;
  // The certificate of a server on this host is its own; the address came over the server's private socket.
  const isHere = /^(127\.|::1$|localhost$)/.test(address.host);
  return connectTls({ socket, host: address.host, rejectUnauthorized: !isHere });
}

function upgrade(url: URL, socket: Duplex, protocol: string, signal: AbortSignal): Promise<SpdyClient> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      method: "POST",
      host: url.hostname,
      path: `${url.pathname}${url.search}`,
      headers: {
        Host: url.host,
        Connection: "Upgrade",
        Upgrade: "SPDY/3.1",
        "X-Stream-Protocol-Version": protocol,
        "Content-Length": "0",
      },
      createConnection: () => socket,
    });
    const fail = (error: ShimError): void => {
      link[Symbol.dispose]();
      socket.destroy();
      reject(error);
    };
    const link = linkAbort(signal, () => fail(ShimError.from(signal.reason)));
    outgoing.once("error", (error) =>
      fail(
        new ShimError(
          "unavailable",
          `open the stream at ${url.origin}: ${error.message}`,
          {},
          { cause: error },
        ),
      ),
    );
    outgoing.once("response", (answer) => {
      // The status says enough without it.
      void beginningOf(answer, refusalBytes, { orPart: true }).then((text) => {
        const reason = `${answer.statusCode ?? 0} ${shownText(text.trim())}`.trim();
        fail(new ShimError("unsupported", `open the stream at ${url.origin}: the server answered ${reason}`));
      });
    });
    outgoing.once("upgrade", (answer, _socket, head) => {
      const chosen = answer.headers["x-stream-protocol-version"];
      if (chosen !== protocol) {
        const what = typeof chosen === "string" ? shownText(chosen) : "no protocol";
        fail(new ShimError("unsupported", `open the stream at ${url.origin}: the server chose ${what}`));
        return;
      }
      link[Symbol.dispose]();
      resolve(new SpdyClient(socket, head));
    });
    outgoing.end();
  });
}
