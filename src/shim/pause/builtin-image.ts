/** The pause image that needs no registry: the programs of pause/bin, wrapped up when they are asked for. */
import { ShimError } from "../lib/errors.js";
import { buildImageArchive } from "./image-archive.js";
import { imageArchitecture, portForwardEntry, readProgram } from "./programs.js";

/**
 * The built-in image's own name. An engine that has an image of this name is not given it again: whatever changes the
 * image must change the tag.
 */
export const builtinPauseReference = "dockershim.local/pause:2";

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
    layers: [
      [
        { path: "pause", type: "file", mode: 0o755, content: await readProgram("pause", known) },
        // Not used by the pause container itself: an exec in it is the way into a pod of an engine on another host.
        await portForwardEntry(known),
      ],
    ],
  });
  return { reference: builtinPauseReference, archive };
}
