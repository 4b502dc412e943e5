/** The programs of pause/bin, which this installation carries for each processor architecture. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { packageDirectory } from "../../lib/package-directory.js";
import { type ArchiveEntry, buildTar, type ImageArchitecture } from "./image-archive.js";

export type ProgramName =
  "pause" | "pod-dialer" | "port-forward" | "host-paths" | "run-programs" | "play-files";

/**
 * Where the port-forward program is in a container. The number is that of its protocol
 * (pause/port-forward.c): a pod that has the program of an older one is given another.
 */
export const portForwardPath = "/dockershim-port-forward-2";

/** `name` in the spelling of Go, the kernel or Node.js (`x64`); undefined without programs for it. */
export function imageArchitecture(name: string): ImageArchitecture | undefined {
  if (name === "amd64" || name === "x86_64" || name === "x64") return "amd64";
  if (name === "arm64" || name === "aarch64") return "arm64";
  return undefined;
}

/** Absolute path; `unsupported` when there is no such program for `architecture`. */
export function programPath(name: ProgramName, architecture: string): string {
  const known = imageArchitecture(architecture);
  if (known === undefined)
    throw new ShimError("unsupported", `find the ${name} program: none for architecture "${architecture}"`);
  return join(packageDirectory(), "pause", "bin", `${name}-${known}`);
}

/** `unsupported` as above, `internal` when the program is missing in this installation. */
export async function readProgram(name: ProgramName, architecture: string): Promise<Buffer> {
  const path = programPath(name, architecture);
  try {
    return await readFile(path);
  } catch (error) {
    throw new ShimError(
      "internal",
      `read the ${name} program "${path}": ${messageOf(error)}`,
      {},
      { cause: error },
    );
  }
}

/** The port-forward program where containers have it. */
export async function portForwardEntry(architecture: string): Promise<ArchiveEntry> {
  const content = await readProgram("port-forward", architecture);
  return { path: portForwardPath.slice(1), type: "file", mode: 0o755, content };
}

/** For `PUT /containers/{id}/archive?path=/` of a container whose image does not have it. */
export async function portForwardArchive(architecture: string): Promise<Buffer> {
  return buildTar([await portForwardEntry(architecture)]);
}
