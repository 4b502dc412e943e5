/** Addresses to listen on and to connect to. */
import { BlockList, isIP } from "node:net";
import { isAbsolute, normalize } from "node:path/posix";
import { formatSocketPath, pipePrefix } from "../../lib/unix-socket.js";
import { ShimError } from "../../lib/errors.js";
import type { ValueKind } from "./option.js";

export interface UnixEndpoint {
  readonly kind: "unix";
  /** Absolute and normalised. */
  readonly path: string;
}

/** The first socket that systemd passes (`LISTEN_FDS`). */
export interface SystemdEndpoint {
  readonly kind: "systemd";
}

export interface TcpEndpoint {
  readonly kind: "tcp";
  /** A host name or an IP address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** The engine of another host, by the program `ssh` and that host's `docker system dial-stdio`. */
export interface SshEndpoint {
  readonly kind: "ssh";
  readonly user?: string;
  readonly host: string;
  readonly port?: number;
  /** Of the socket there; undefined: as the docker command there finds it. */
  readonly path?: string;
}

export type ListenEndpoint = UnixEndpoint | SystemdEndpoint;
export type DockerEndpoint = UnixEndpoint | TcpEndpoint | SshEndpoint;
/** An endpoint for clients on this host. `host` is a loopback IP address. */
export type LocalEndpoint = UnixEndpoint | TcpEndpoint;

/** An IP address and a port. With port 0 the system chooses a port. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/** Longest path of a unix socket on Linux in bytes, without the final NUL. */
const longestSocketPath = 107;

function refuse(reason: string): never {
  throw new ShimError("invalid", reason);
}

function splitScheme(text: string): { readonly scheme: string; readonly rest: string } {
  const [, scheme, rest] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/s.exec(text) ?? [];
  return scheme === undefined
    ? { scheme: "", rest: text }
    : { scheme: scheme.toLowerCase(), rest: rest ?? "" };
}

function parseSocketPath(path: string): UnixEndpoint {
  if (path === "") refuse("names no socket");
  if (!isAbsolute(path)) {
    // The first directory of unix://var/run/x.sock stands where a host would.
    const meant = path.includes("/") ? `: did you mean "unix:///${path}"?` : ', as in "unix:///run/x.sock"';
    refuse(`the path of the socket must be absolute${meant}`);
  }
  if (/[\0\n]/.test(path) || path.endsWith("/")) refuse("is not the path of a socket");
  const normalized = normalize(path);
  if (Buffer.byteLength(normalized) > longestSocketPath) {
    refuse(`the path of a socket has at most ${longestSocketPath} bytes`);
  }
  return { kind: "unix", path: normalized };
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  return port <= 65_535 ? port : refuse("the port must be from 0 to 65535");
}

/** `host`, `host:port`, `[v6]` and `[v6]:port`; a bare IPv6 address is a host. */
function splitHostAndPort(text: string): { readonly host: string; readonly port?: number } {
  if (isIP(text) === 6) return { host: text };
  const [whole, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/s.exec(text) ?? [];
  if (whole === undefined) return refuse("is not an address");
  if (bracketed !== undefined && isIP(bracketed) !== 6) refuse("only an IPv6 address stands in brackets");
  const host = bracketed ?? plain ?? "";
  return port === undefined ? { host } : { host, port: parsePort(port) };
}

function formatHostAndPort(address: BindAddress): string {
  return `${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}`;
}

/** `unix:///path`, or a bare absolute path (deprecated by the kubelet, which reads it so): what to connect to. */
export function parseUnixEndpoint(text: string, allowed = '"unix:///path"'): UnixEndpoint {
  const { scheme, rest } = splitScheme(text);
  if (scheme !== "unix" && (scheme !== "" || !isAbsolute(rest))) refuse(`must be ${allowed}`);
  return parseSocketPath(rest);
}

/** As `parseUnixEndpoint`, or `fd://`. */
export const listenEndpointKind: ValueKind<ListenEndpoint> = {
  placeholder: "endpoint",
  parse(text) {
    const { scheme, rest } = splitScheme(text);
    if (scheme !== "fd") return parseUnixEndpoint(text, '"unix:///path" or "fd://"');
    return rest === "" ? { kind: "systemd" } : refuse('only "fd://" without a name is supported');
  },
  format: (value) => (value.kind === "unix" ? `unix://${value.path}` : "fd://"),
};

/** Names that ssh cannot take for one of its options. */
const sshWord = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;
const sshUser = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
/** What no shell of the other host, which gets it as a word, takes for more than a path. */
const sshPath = /^(\/[A-Za-z0-9._+-]+)+$/;

function parseSshEndpoint(rest: string): SshEndpoint {
  const [, user, address = "", tail = ""] = /^(?:([^@]*)@)?([^@/]*)(\/.*)?$/s.exec(rest) ?? [];
  const path = tail === "/" ? "" : tail;
  if (path !== "" && !sshPath.test(path)) refuse("is not the path of a socket");
  if (user?.includes(":") === true) refuse("a password cannot be given: ssh asks its agent and key files");
  if (user !== undefined && !sshUser.test(user)) refuse("names no user");
  const { host, port } = splitHostAndPort(address);
  if (!sshWord.test(host) && isIP(host) === 0) refuse('must be "ssh://[user@]host[:port][/path]"');
  if (port === 0) refuse("the port must be from 1 to 65535");
  return {
    kind: "ssh",
    ...(user === undefined ? {} : { user }),
    host,
    ...(port === undefined ? {} : { port }),
    ...(path === "" ? {} : { path }),
  };
}

/** A named pipe of Windows. For Node.js it is a path as that of a unix socket. */
function parsePipe(rest: string): UnixEndpoint {
  const path = rest.replaceAll("\\", "/");
  if (!path.startsWith(pipePrefix) || path.length === pipePrefix.length)
    refuse('a named pipe must be "npipe:////./pipe/NAME"');
  return { kind: "unix", path };
}

function formatDockerEndpoint(endpoint: DockerEndpoint): string {
  if (endpoint.kind === "unix") return formatSocketPath(endpoint.path);
  if (endpoint.kind === "tcp") return `tcp://${formatHostAndPort(endpoint)}`;
  const { user, host, port, path = "" } = endpoint;
  const shown = host.includes(":") ? `[${host}]` : host;
  return `ssh://${user === undefined ? "" : `${user}@`}${shown}${port === undefined ? "" : `:${port}`}${path}`;
}

/** What the docker command takes for a host, or a socket, that is not named. */
const dockerHost = "127.0.0.1";
const dockerSocket = "/var/run/docker.sock";

/**
 * As the docker command: `unix://[/path]`, `[tcp://][host][:port]` with the default port 2375,
 * `ssh://[user@]host[:port][/path]`, or on Windows `npipe:////./pipe/NAME`. Without `tcp://` a port is needed: a
 * word alone is rather a mistake. The endpoint does not say whether TLS is used.
 */
export const dockerEndpointKind: ValueKind<DockerEndpoint> = {
  placeholder: "endpoint",
  parse(text) {
    const { scheme, rest } = splitScheme(text);
    if (scheme === "unix") return parseSocketPath(rest || dockerSocket);
    if (scheme === "ssh") return parseSshEndpoint(rest);
    if (scheme === "npipe") return parsePipe(rest);
    if (scheme === "" && isAbsolute(rest)) refuse('the path of a socket must begin with "unix://"');
    const isPlain = scheme === "" && /:\d+$/.test(rest) && isIP(rest) === 0;
    if (scheme !== "tcp" && scheme !== "http" && !isPlain)
      return refuse('must be "unix:///path", "tcp://host:port" or "ssh://user@host"');
    const [address = "", ...path] = rest.split("/");
    if (path.some((part) => part !== "")) refuse("a path behind the port is not supported");
    const { host: given, port = 2375 } = splitHostAndPort(address);
    const host = given || dockerHost;
    if (!/^[A-Za-z0-9._:%-]+$/.test(host)) refuse("names no host");
    if (port === 0) refuse("the port must be from 1 to 65535");
    return { kind: "tcp", host, port };
  },
  format: formatDockerEndpoint,
};

/** `IP` (a port that the system chooses), `IP:port` or `[IPv6]:port`; empty is 127.0.0.1. No host names. */
export const bindAddressKind: ValueKind<BindAddress> = {
  placeholder: "IP[:port]",
  parse(text) {
    if (text === "") return { host: "127.0.0.1", port: 0 };
    const { host, port = 0 } = splitHostAndPort(text);
    if (isIP(host) === 0) refuse('must be an IP address with or without a port, such as "127.0.0.1:10250"');
    return { host, port };
  },
  format: formatHostAndPort,
};

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/**
 * `127.0.0.1:9090`, `[::1]:9090` or `unix:///path`. Other addresses are refused, because the server has no
 * authentication and no encryption. With port 0 the system chooses a port.
 */
export const localEndpointKind: ValueKind<LocalEndpoint> = {
  placeholder: "endpoint",
  parse(text) {
    const { scheme, rest } = splitScheme(text);
    if (scheme === "unix") return parseSocketPath(rest);
    if (scheme !== "") return refuse('must be "127.0.0.1:9090", "[::1]:9090" or "unix:///path"');
    if (isAbsolute(rest)) return refuse('the path of a socket begins with "unix://"');
    const { host, port } = splitHostAndPort(rest);
    const family = isIP(host);
    if (family === 0)
      refuse('must be an IP address with a port, such as "127.0.0.1:9090", or "unix:///path"');
    if (!loopback.check(host, family === 4 ? "ipv4" : "ipv6")) {
      refuse("only loopback addresses (127.0.0.0/8, ::1): the server has no authentication");
    }
    if (port === undefined) return refuse("names no port");
    return { kind: "tcp", host, port };
  },
  format: (value) => (value.kind === "unix" ? `unix://${value.path}` : formatHostAndPort(value)),
};

/** The gRPC endpoint of an OTLP receiver, as a collector has it. */
export interface OtlpEndpoint {
  readonly scheme: "http" | "https";
  /** A host name or an IP address without brackets. */
  readonly host: string;
  readonly port: number;
}

const otlpPort = 4317;

/** `host[:port]`, as a kubelet's configuration has it, `http://host[:port]`, or with TLS `https://host[:port]`. */
export const otlpEndpointKind: ValueKind<OtlpEndpoint> = {
  placeholder: "host[:port]",
  parse(text) {
    const { scheme, rest } = splitScheme(text);
    if (scheme !== "" && scheme !== "http" && scheme !== "https")
      return refuse('must be "host:port", "http://host:port" or "https://host:port"');
    const [address = "", ...path] = rest.split("/");
    if (path.some((part) => part !== ""))
      refuse("a path behind the port is not supported: OTLP goes over gRPC");
    if (address.includes("@"))
      refuse("credentials cannot be given here: OTEL_EXPORTER_OTLP_HEADERS has them");
    const { host, port = otlpPort } = splitHostAndPort(address);
    if (!/^[A-Za-z0-9._:-]+$/.test(host)) refuse("names no host");
    if (port === 0) refuse("the port must be from 1 to 65535");
    // OpenTelemetry's exporter takes it, as a port that a URL need not name, for that of TLS.
    if (port === 80 && scheme !== "https") refuse("port 80 is not supported");
    return { scheme: scheme === "https" ? scheme : "http", host, port };
  },
  format: ({ scheme, ...address }) => `${scheme}://${formatHostAndPort(address)}`,
};
