/** What a container has written to its termination message file. */
import type { PlayFiles } from "./files.js";
import type { PodKey } from "./manifest.js";
import type { ObservedContainer } from "./next-step.js";
import { describeExit } from "./next-step.js";
import type { Directories } from "./pod-files.js";
import { terminationMessageFile } from "./pod-files.js";

/** As much of it as Kubernetes shows. */
const maxBytes = 4096;

/** How a container ended, with its own last words: `exit code 3: no such table`. */
export async function exitWithMessage(
  container: ObservedContainer,
  key: PodKey,
  directories: Directories,
  files: Pick<PlayFiles, "readTail">,
): Promise<string> {
  const path = terminationMessageFile(directories, key, container.name, container.attempt);
  const message = (await files.readTail(path, maxBytes)).trim();
  return describeExit(message === "" ? container : { ...container, message });
}
