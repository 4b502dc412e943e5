/** URLs and HTTP requests of the streaming server: their session and protocol, and refusals. */
import { STATUS_CODES, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import type { Duplex } from "node:stream";
import type { StreamingSession } from "../ports/streaming.js";

export const pathOfKind: Readonly<Record<StreamingSession["kind"], string>> = {
  exec: "exec",
  attach: "attach",
  portForward: "portforward",
};

const loopback = "127.0.0.1";

/** The beginning of every URL; with the loopback address for "all addresses", also of IPv6. */
export function urlBase(
  address: { readonly host: string; readonly port: number },
  scheme: "http" | "https",
): string {
  const { host, port } = address;
  const reachable = host === "0.0.0.0" || /^[0:]+$/.test(host) ? loopback : host;
  // The zone of a link-local address begins with a percent sign, which a URL writes as %25.
  const shown = isIPv6(reachable) ? `[${reachable.replace("%", "%25")}]` : reachable;
  return `${scheme}://${shown}:${port}`;
}

export interface Target {
  readonly kind: StreamingSession["kind"];
  readonly token: string;
}

/** The session of `/exec/TOKEN`, `/attach/TOKEN` or `/portforward/TOKEN`; a query is ignored. */
export function parseTarget(url: string | undefined): Target | undefined {
  const [, path, token] =
    /^(?:https?:\/\/[^/?#]*)?\/(exec|attach|portforward)\/([\w-]{1,128})(?:\?.*)?$/.exec(url ?? "") ?? [];
  if (path === undefined || token === undefined) return undefined;
  for (const kind of ["exec", "attach", "portForward"] as const)
    if (pathOfKind[kind] === path) return { kind, token };
  return undefined;
}

/** An HTTP answer instead of a session. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export const notFound: Refusal = { status: 404, message: "unknown, used or expired token" };
export const methodNotAllowed: Refusal = {
  status: 405,
  message: "only GET and POST are served here",
  headers: { allow: "GET, POST" },
};
export const notAnUpgrade: Refusal = {
  status: 400,
  message: "unable to upgrade: the request must ask for an upgrade to SPDY/3.1 or to websocket",
};

/** The values of a list header, in one or several lines. */
export function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return (typeof value === "string" ? [value] : (value ?? []))
    .flatMap((line) => line.split(","))
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** The requested protocol; old clients and proxies send its name in any case. */
export function wantedTransport({ upgrade }: IncomingHttpHeaders): "spdy" | "websocket" | undefined {
  const names = listOf(upgrade).map((name) => name.toLowerCase());
  if (names.includes("websocket")) return "websocket";
  return names.includes("spdy/3.1") ? "spdy" : undefined;
}

const versionHeader = "x-stream-protocol-version";

/** The first of `supported` that the client of an upgrade to SPDY offers. */
export function negotiateSpdy<Protocol extends string>(
  headers: IncomingHttpHeaders,
  supported: readonly Protocol[],
): Protocol | Refusal {
  const offered = listOf(headers[versionHeader]);
  if (offered.length === 0) {
    return { status: 400, message: "unable to upgrade: X-Stream-Protocol-Version is required" };
  }
  return supported.find((protocol) => offered.includes(protocol)) ?? noCommonProtocol(offered, supported);
}

/** The client's first supported subprotocol, in the order of its preference; "" when it sends none. */
export function negotiateWebSocket<Protocol extends string>(
  headers: IncomingHttpHeaders,
  supported: readonly Protocol[],
): Protocol | Refusal {
  const listed = listOf(headers["sec-websocket-protocol"]);
  const offered = listed.length === 0 ? [""] : listed;
  for (const name of offered) {
    const protocol = supported.find((candidate) => candidate === name);
    if (protocol !== undefined) return protocol;
  }
  return noCommonProtocol(offered, supported);
}

function noCommonProtocol(offered: readonly string[], supported: readonly string[]): Refusal {
  const named = supported.filter((protocol) => protocol !== "");
  // The client's list may be long, and is quoted in part.
  const client = offered.slice(0, 8).join(", ").slice(0, 256);
  return {
    status: 403,
    message: `unable to upgrade: no common protocol: client supports ${client}, server accepts ${named.join(", ")}`,
    headers: { "x-accepted-stream-protocol-versions": named.join(", ") },
  };
}

/** Answers a request that asked for an upgrade, and closes its connection. */
export function refuseUpgrade(socket: Duplex, refusal: Refusal): void {
  const body = `${refusal.message}\n`;
  const headers = Object.entries({ ...refusalHeaders(body), ...refusal.headers });
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  socket.once("finish", () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

export function refusalHeaders(body: string): Readonly<Record<string, string>> {
  return {
    connection: "close",
    "content-type": "text/plain; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
  };
}

export function isServedMethod({ method }: IncomingMessage): boolean {
  return method === "GET" || method === "POST";
}
