/** The pause image that needs no registry: the programs of pause/bin, wrapped up when they are asked for. */
import { access, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, ShimError } from "../base/errors.js";
import { buildImageArchive, type ImageArchitecture } from "./image-archive.js";

/**
 * The built-in image's own name. An engine that has an image of this name is not given it again: whatever changes the
 * image must change the tag.
 */
export const builtinPauseReference = "dockershim.local/pause:1";

export interface BuiltinImage {
  readonly reference: string;
  /** For `POST /images/load`. */
  readonly archive: Buffer;
}

/**
 * The built-in pause image for an engine of `architecture`, named as Go (`amd64`) or as the kernel (`x86_64`) does.
 * Throws `unsupported` when there is no program for it, `internal` when the program is missing in this installation.
 */
export async function builtinPauseImage(architecture: string): Promise<BuiltinImage> {
  const known = imageArchitecture(architecture);
  if (known === undefined) {
    throw new ShimError(
      "unsupported",
      `build pause image: no built-in one for architecture "${architecture}"`,
    );
  }
  const archive = await buildImageArchive({
    reference: builtinPauseReference,
    architecture: known,
    config: {
      Entrypoint: ["/pause"],
      // As the pause images of Kubernetes. It suffices: a process may wait for any child of its own, and orphans are
      // handed to PID 1 as children whatever their user; signals come from root. A pod's run_as_user overrides it.
      User: "65535:65535",
      // No labels: Docker copies an image's labels to its containers, where they would look like labels of the pod.
    },
    layers: [[{ path: "pause", type: "file", mode: 0o755, content: await readProgram(`pause-${known}`) }]],
  });
  return { reference: builtinPauseReference, archive };
}

function imageArchitecture(name: string): ImageArchitecture | undefined {
  if (name === "amd64" || name === "x86_64") return "amd64";
  if (name === "arm64" || name === "aarch64") return "arm64";
  return undefined;
}

async function readProgram(name: string): Promise<Buffer> {
  const root = await findPackageDirectory(dirname(fileURLToPath(import.meta.url)));
  const path = join(root, "pause", "bin", name);
  try {
    return await readFile(path);
  } catch (error) {
    throw new ShimError(
      "internal",
      `read pause program "${path}": ${messageOf(error)}`,
      {},
      { cause: error },
    );
  }
}

/** `start` or the nearest directory above it that has a package.json: the same from src/ and from dist/src/. */
export async function findPackageDirectory(start: string): Promise<string> {
  for (let directory = start; ; directory = dirname(directory)) {
    try {
      await access(join(directory, "package.json"));
      return directory;
    } catch (error) {
      if (dirname(directory) !== directory) continue;
      throw new ShimError("internal", `find package.json above "${start}": not found`, {}, { cause: error });
    }
  }
}
