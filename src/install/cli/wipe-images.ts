/** The images of this program, and what is left of its image volumes. */
import { messageOf } from "../../lib/errors.js";
import { stateDirectoryId } from "../../shim/state/state-directory.js";
import type { Config } from "../../shim/config/resolve.js";
import { imageVolumeLabel } from "../../shim/images/image-volume-store.js";
import { builtinPauseReference } from "../../shim/pause/pause-image.js";
import { playFilesReference } from "../../shim/pause/play-files-image.js";
import type { Engine } from "../../shim/ports/engine.js";
import type { Step } from "../steps.js";

/** Of the first screen of `npm start`. */
const demoImage = "dockershim.local/busybox:1";

function ownImages({ pauseImage }: Config): readonly string[] {
  return [...new Set([builtinPauseReference, demoImage, playFilesReference, pauseImage])];
}

export async function presentImages(
  engine: Pick<Engine, "inspectImage">,
  config: Config,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const present: string[] = [];
  for (const reference of ownImages(config))
    if ((await engine.inspectImage(reference, signal)) !== undefined) present.push(reference);
  return present;
}

/** What is left of image volumes, then the images. One that a container of another program has is kept, and named. */
export async function imageSteps(
  engine: Engine,
  config: Config,
  signal: AbortSignal,
  report: (line: string) => void,
): Promise<readonly Step[]> {
  const label = { key: imageVolumeLabel, value: stateDirectoryId(config.stateDir) };
  const filter = { labelKey: label.key, labelValue: label.value };
  const pins = await engine.listContainers(filter, signal);
  const volumes = await engine.listVolumes(label, signal);
  const images = await presentImages(engine, config, signal);
  return [
    ...pins.map(({ id }) => ({
      text: `remove  container ${id}`,
      run: () => engine.removeContainer(id, { force: true }, signal),
    })),
    ...volumes.map((name) => ({
      text: `remove  volume ${name}`,
      run: () => engine.removeVolume(name, signal),
    })),
    ...images.map((reference) => ({
      text: `remove  image ${reference}`,
      run: async () => {
        await engine.removeImage(reference, signal).catch((error: unknown) => {
          report(`keep    image ${reference}: ${messageOf(error)}`);
        });
      },
    })),
  ];
}
