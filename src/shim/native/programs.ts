/** The programs of native/bin, which this installation carries for each processor architecture. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { packageDirectory } from "../../lib/package-directory.js";

export type ProgramName = "pause" | "pod-dialer" | "port-forward" | "helper";

/** Processor architectures under the names that Go and OCI give them. */
export type ImageArchitecture = "amd64" | "arm64";

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
  return join(packageDirectory(), "native", "bin", `${name}-${known}`);
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
