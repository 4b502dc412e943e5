/** Addresses of local sockets, of which named pipes of Windows are one kind: Node.js connects to both by a path. */

export const pipePrefix = "//./pipe/";

/** `unix:///path`; of a named pipe `npipe:////./pipe/NAME`. */
export function formatSocketPath(path: string): string {
  return `${path.startsWith(pipePrefix) ? "npipe" : "unix"}://${path}`;
}
