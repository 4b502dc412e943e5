/** The pause image: pulled with the node's credentials, or built in. */
import type { Logger } from "../lib/log.js";
import type { Config } from "../config/resolve.js";
import { RegistryCredentialStore } from "../engine/registry/registry-credentials.js";
import { PauseImages } from "../pause/pause-image.js";
import type { Engine } from "../ports/engine.js";
import { pullForPause } from "../cri/image/pull-image.js";
import type { PauseImageSource } from "../cri/services.js";
import type { EngineLink } from "../state/engine-link.js";

/** Where a kubelet with dockershim looked for the node's registry credentials first. */
const kubeletDirectory = "/var/lib/kubelet";

export function createPauseImages(
  config: Config,
  engine: Engine,
  link: EngineLink,
  log: Logger,
): PauseImageSource {
  const { pauseImage: reference, builtinPauseImage, dockerConfigDir, imagePullProgressDeadlineMs } = config;
  const credentials = new RegistryCredentialStore({ directory: dockerConfigDir ?? kubeletDirectory, log });
  const pullDeps = { engine, credentials, progressDeadlineMs: imagePullProgressDeadlineMs, log };
  const images = new PauseImages(
    {
      inspectImage: (name, signal) => engine.inspectImage(name, signal),
      loadImage: (archive, signal) => engine.loadImage(archive, signal),
      pull: (name, signal) => pullForPause(name, pullDeps, signal),
      get architecture() {
        return link.facts?.architecture ?? "amd64";
      },
      now: () => performance.now(),
      log,
    },
    { reference, builtin: builtinPauseImage === "forbid" ? "forbidden" : "fallback" },
  );
  return {
    ensure: (signal) => images.ensure(signal),
    invalidate: () => {
      images.invalidate();
    },
    isPinned: (names) => images.isPinned(names),
    reference,
  };
}
