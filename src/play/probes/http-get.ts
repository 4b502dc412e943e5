/** HTTP requests of probes and hooks, as the kubelet makes them. */
import { type ClientRequest, request, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { linkAbort } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { addressText, type Dial } from "../cri/dial.js";
import type { Container, LifecycleHandler } from "../manifests/pod-schema.js";

export type HttpGet = NonNullable<LifecycleHandler["httpGet"]>;

/** The release whose kubelet play follows. */
const kubernetesVersion = "1.36";

export function userAgent(purpose: "probe" | "lifecycle"): string {
  return `kube-${purpose}/${kubernetesVersion}`;
}

export interface HttpTarget {
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
  /** With its query, as it is sent. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
}

/** `host` is for a handler without one. Throws `invalid` for a port that the container does not have. */
export function httpTarget(
  handler: HttpGet,
  container: Pick<Container, "ports">,
  host: string,
  purpose: "probe" | "lifecycle",
): HttpTarget {
  return {
    scheme: handler.scheme === "HTTPS" ? "https" : "http",
    host: handler.host === undefined || handler.host === "" ? host : handler.host,
    port: portNumber(handler.port, container),
    path: requestPath(handler.path ?? ""),
    headers: requestHeaders(handler.httpHeaders ?? [], purpose),
  };
}

/** A port by number, by the name of one of the container's ports, or by a number in text. */
export function portNumber(port: number | string, { ports = [] }: Pick<Container, "ports">): number {
  const number =
    typeof port === "number"
      ? port
      : (ports.find(({ name }) => name === port)?.containerPort ?? Number(port));
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new ShimError("invalid", `port ${JSON.stringify(port)}: the container has no port of that name`);
}

/** Without scheme, host and fragment, which the field may have by mistake. */
function requestPath(text: string): string {
  const path = text.replace(/^([A-Za-z][A-Za-z0-9+.-]*:)?\/\/[^/?#]*/, "").replace(/#.*$/s, "");
  const absolute = path.startsWith("/") ? path : `/${path}`;
  // Characters that a request line cannot have; those that are escaped already stay.
  return absolute.replaceAll(/[^\x21-\x7e]+/gu, (part) =>
    [...Buffer.from(part)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );
}

function requestHeaders(
  given: readonly { readonly name: string; readonly value: string }[],
  purpose: "probe" | "lifecycle",
): Readonly<Record<string, string | readonly string[]>> {
  const headers = new Map<string, { readonly name: string; readonly values: string[] }>();
  for (const { name, value } of given) {
    const entry = headers.get(name.toLowerCase()) ?? { name, values: [] };
    // As UTF-8, like the kubelet: Node.js sends each character of a header as one byte.
    entry.values.push(Buffer.from(value).toString("latin1"));
    headers.set(name.toLowerCase(), entry);
  }
  const accept = headers.get("accept");
  if (accept === undefined) headers.set("accept", { name: "Accept", values: ["*/*"] });
  else if (accept.values[0] === "") headers.delete("accept");
  const agent = headers.get("user-agent");
  if (agent === undefined) headers.set("user-agent", { name: "User-Agent", values: [userAgent(purpose)] });
  else if (agent.values[0] === "") headers.delete("user-agent");
  const host = headers.get("host");
  if (host?.values[0] === "") headers.delete("host");
  return Object.fromEntries(
    [...headers.values()].map(({ name, values }) => [name, values.length === 1 ? (values[0] ?? "") : values]),
  );
}

/** `http://10.0.0.1:80/healthz` */
export function urlText({ scheme, path, ...address }: HttpTarget): string {
  return `${scheme}://${addressText(address)}${path}`;
}

/** `isRedirect`: it leads to another host, or nowhere. `destroy()` ends the connection. */
export interface HttpAnswer {
  readonly message: IncomingMessage;
  readonly status: number;
  readonly isRedirect: boolean;
}

const followedStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const mostRequests = 10;

/** Follows redirects on the same host. Rejects with `unavailable` or `unsupported` (out of reach). */
export async function getFrom(target: HttpTarget, dial: Dial, signal: AbortSignal): Promise<HttpAnswer> {
  let next = target;
  for (let requests = 1; ; requests += 1) {
    const message = await getOnce(next, dial, signal);
    const status = message.statusCode ?? 0;
    const isRedirect = status >= 300 && status < 400;
    const followed = followedStatuses.has(status) ? redirected(next, message.headers.location) : undefined;
    if (followed === undefined || followed.host !== target.host) return { message, status, isRedirect };
    message.destroy();
    if (requests >= mostRequests)
      throw new ShimError("unavailable", `get ${urlText(target)}: stopped after ${mostRequests} redirects`);
    next = followed;
  }
}

function redirected(from: HttpTarget, location: string | undefined): HttpTarget | undefined {
  const base = urlText(from);
  if (location === undefined || location === "" || !URL.canParse(location, base)) return undefined;
  const url = new URL(location, base);
  const scheme = url.protocol === "https:" ? "https" : url.protocol === "http:" ? "http" : undefined;
  if (scheme === undefined) return undefined;
  const isRelative = !/^([A-Za-z][A-Za-z0-9+.-]*:)?\/\//.test(location);
  return {
    scheme,
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? (scheme === "https" ? 443 : 80) : Number(url.port),
    path: `${url.pathname}${url.search}`,
    headers: isRelative
      ? from.headers
      : Object.fromEntries(Object.entries(from.headers).filter(([name]) => name.toLowerCase() !== "host")),
  };
}

async function getOnce(target: HttpTarget, dial: Dial, signal: AbortSignal): Promise<IncomingMessage> {
  const { scheme, host, port, path, headers } = target;
  const failed = (error: unknown): ShimError => {
    if (signal.aborted) return ShimError.from(signal.reason);
    const { kind } = ShimError.from(error, "unavailable");
    return new ShimError(kind, `get ${urlText(target)}: ${messageOf(error)}`, {}, { cause: error });
  };
  let socket: Duplex;
  try {
    socket = await dial({ host, port }, signal);
  } catch (error) {
    throw failed(error);
  }
  const transport = scheme === "https" ? connectTls({ socket, rejectUnauthorized: false }) : socket;
  return new Promise((resolve, reject) => {
    let outgoing: ClientRequest;
    try {
      outgoing = request({
        path,
        setHost: false,
        headers: { Host: addressText({ host, port }), ...headers, Connection: "close" },
        createConnection: () => transport,
      });
    } catch (error) {
      // A header that HTTP cannot have.
      socket.destroy();
      reject(failed(error));
      return;
    }
    const link = linkAbort(signal, () => {
      socket.destroy();
      reject(ShimError.from(signal.reason));
    });
    outgoing.once("error", (error) => {
      link[Symbol.dispose]();
      socket.destroy();
      reject(failed(error));
    });
    outgoing.once("response", (message) => {
      message.once("close", () => {
        link[Symbol.dispose]();
        socket.destroy();
      });
      // An error without a listener would end the process; the readers of the body see it.
      message.on("error", () => undefined);
      resolve(message);
    });
    outgoing.end();
  });
}
