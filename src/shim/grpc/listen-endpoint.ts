/** Where a server listens, as the flags write it. */
import { ShimError } from "../../lib/errors.js";

export type Endpoint =
  /** A unix socket of this absolute path. */
  | { readonly kind: "unix"; readonly path: string }
  /** A socket that systemd hands over (socket activation): `activatedDescriptor` says which. */
  | { readonly kind: "fd"; readonly name?: "cadvisor" };

/**
 * `unix:///path`, a bare `/path` (as dockershim took it) or `fd://`. Everything else is an `invalid` error of
 * one line that says what to write.
 */
export function parseEndpoint(text: string): Endpoint {
  const separator = text.indexOf("://");
  if (separator === -1) {
    if (text.startsWith("/")) return unixEndpoint(text, text);
    if (text === "") throw refused(text, "it is empty; write unix:///path or fd://");
    const reason = text.includes(":") ? "no scheme that is known" : "neither a scheme nor an absolute path";
    throw refused(text, `${reason}; write unix:///path or fd://`);
  }
  const scheme = text.slice(0, separator);
  const rest = text.slice(separator + "://".length);
  switch (scheme) {
    case "unix":
      return unixEndpoint(text, rest);
    case "fd":
      if (rest !== "") throw refused(text, "named descriptors are not supported; write fd://");
      return { kind: "fd" };
    case "tcp":
      throw refused(
        text,
        "a TCP port would give the engine to everyone who can reach it; write unix:///path",
      );
    case "npipe":
      throw refused(text, "named pipes exist on Windows only; write unix:///path");
    default:
      throw refused(text, `unknown scheme "${scheme}"; write unix:///path or fd://`);
  }
}

/** The text that `parseEndpoint` reads back as `endpoint`. */
export function formatEndpoint(endpoint: Endpoint): string {
  return endpoint.kind === "fd" ? "fd://" : `unix://${endpoint.path}`;
}

function unixEndpoint(text: string, path: string): Endpoint {
  if (!path.startsWith("/"))
    throw refused(text, "the path must be absolute, as in unix:///var/run/dockershim.sock");
  if (path.includes("\0")) throw refused(text, "the path contains a zero byte");
  if (/\/\.{0,2}$/.test(path)) throw refused(text, "the path names a directory, not a socket");
  return { kind: "unix", path };
}

function refused(text: string, reason: string): ShimError {
  return new ShimError("invalid", `endpoint ${JSON.stringify(text)}: ${reason}`);
}
