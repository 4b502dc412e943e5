/** The file of `play --timeline`. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { dirname, extname } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import { Timeline } from "../view/timeline.js";
import { renderTimeline } from "../view/timeline-svg.js";
import { wrongFlag } from "../../cli/flag-values.js";

/** Before anything is made: the picture is written at the end. Throws `invalid`. */
export async function checkTimelineFile(path: string): Promise<void> {
  const refuse = (reason: string): never => {
    throw wrongFlag("--timeline", path, reason);
  };
  if (extname(path).toLowerCase() !== ".svg")
    refuse("is not an SVG file: give a name that ends with .svg, such as start.svg");
  const directory = dirname(path);
  try {
    if (!(await stat(directory)).isDirectory()) refuse(`"${directory}" is not a directory`);
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (error instanceof ShimError) throw error;
    refuse(hasCode(error, "ENOENT") ? `there is no directory "${directory}"` : messageOf(error));
  }
  const present = await stat(path).catch(() => undefined);
  if (present !== undefined && !present.isFile()) refuse("exists and is not a file");
}

/** Writes the picture at the end. */
export function drawTimeline(kubelet: Kubelet, path: string | undefined): AsyncDisposable {
  const timeline = new Timeline(() => Date.now());
  const listening = kubelet.listen(timeline);
  return {
    [Symbol.asyncDispose]: async () => {
      listening[Symbol.dispose]();
      if (path === undefined) return;
      const options = { mode: 0o644, temporaryPrefix: ".timeline-" };
      await writeFileAtomically(path, renderTimeline(timeline.data), options);
    },
  };
}
