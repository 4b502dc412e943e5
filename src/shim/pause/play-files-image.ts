/** The image of the helper container with which `play` writes files on an engine's host. */
import { ShimError } from "../../lib/errors.js";
import { buildImageArchive } from "./image-archive.js";
import { imageArchitecture, readProgram } from "../native/programs.js";

/** An engine that has an image of this name is not given it again: what changes the image changes the tag. */
export const playFilesReference = "dockershim.local/play-files:3";

/** For `POST /images/load`. The container only waits; each play runs the program in it. */
export async function playFilesImage(architecture: string): Promise<Buffer> {
  const known = imageArchitecture(architecture);
  if (known === undefined)
    throw new ShimError("unsupported", `build image "${playFilesReference}": none for "${architecture}"`);
  const program = (name: "pause" | "helper") => ({
    ...{ path: name, type: "file" as const, mode: 0o755 },
    content: readProgram(name, known),
  });
  return buildImageArchive({
    ...{ reference: playFilesReference, architecture: known, config: { Entrypoint: ["/pause"] } },
    layers: [[program("pause"), program("helper")]],
  });
}
