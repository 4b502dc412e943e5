/** The programs of native/bin, which this program carries for each processor architecture. */
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { ownFiles } from "../../lib/own-files.js";

export type ProgramName = "pause" | "pod-dialer" | "port-forward" | "oci-runtime" | "helper";

/** Processor architectures under the names that Go and OCI give them. */
export type ImageArchitecture = "amd64" | "arm64";

/** `name` in the spelling of Go, the kernel or Node.js (`x64`); undefined without programs for it. */
export function imageArchitecture(name: string): ImageArchitecture | undefined {
  if (name === "amd64" || name === "x86_64" || name === "x64") return "amd64";
  if (name === "arm64" || name === "aarch64") return "arm64";
  return undefined;
}

/**
 * The absolute path of a program for a start. The executable of `npm run package` writes it to `directory`. `unsupported` when
 * there is no such program for `architecture`.
 */
export function programPath(name: ProgramName, architecture: string, directory: string): string {
  return ownFiles().program(programFile(name, architecture), directory);
}

/** `unsupported` as above, `internal` when the program is missing in this installation. */
export function readProgram(name: ProgramName, architecture: string): Buffer {
  const path = programFile(name, architecture);
  try {
    return ownFiles().read(path);
  } catch (error) {
    throw new ShimError(
      "internal",
      `read the ${name} program "${path}": ${messageOf(error)}`,
      {},
      { cause: error },
    );
  }
}

/** Where it is among the files of this program. `unsupported` as above. */
export function programFile(name: ProgramName, architecture: string): string {
  const known = imageArchitecture(architecture);
  if (known === undefined)
    throw new ShimError("unsupported", `find the ${name} program: none for architecture "${architecture}"`);
  return join("native", "bin", `${name}-${known}`);
}
