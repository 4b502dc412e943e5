/** The program of port-forward, as containers get it. */
import { readProgram } from "../native/programs.js";
import { type ArchiveEntry, buildTar } from "./image-archive.js";

/** The number is that of its protocol (native/port-forward.c): a pod with an older one is given another. */
export const portForwardPath = "/dockershim-port-forward-2";

/** The port-forward program where containers have it. */
export function portForwardEntry(architecture: string): ArchiveEntry {
  const content = readProgram("port-forward", architecture);
  return { path: portForwardPath.slice(1), type: "file", mode: 0o755, content };
}

/** For `PUT /containers/{id}/archive?path=/` of a container whose image does not have it. */
export async function portForwardArchive(architecture: string): Promise<Buffer> {
  return buildTar([portForwardEntry(architecture)]);
}
