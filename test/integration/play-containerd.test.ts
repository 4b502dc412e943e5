/** `dockershim play` and `dockershim pod`, the programs, against a real containerd. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe } from "node:test";
import { diskDirectory } from "../../scripts/setup/namespaces.mjs";
import { Containerd, containerdPrograms } from "../support/containerd.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { testImageArchive } from "../support/test-image.js";
import { playScenarios, playsAtOnce } from "./play-scenarios.js";

await inNamespaces(import.meta.url, containerdPrograms, () => {
  describe("play on containerd", { concurrency: playsAtOnce }, () => {
    const run = randomBytes(4).toString("hex");
    const image = `dockershim.test/busybox:${run}`;
    let containerd: Containerd;
    let directory: string;
    before(async () => {
      directory = await mkdtemp(join(tmpdir(), "play-"));
      containerd = await Containerd.start(await mkdtemp(join(diskDirectory, "c-")));
      await containerd.load(await testImageArchive({ reference: image, marker: run }));
    });
    after(async () => {
      await containerd[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    });
    playScenarios(() => ({
      endpoint: containerd.endpoint,
      ...{ image, run },
      newDirectory: () => mkdtemp(join(directory, "d-")),
    }));
  });
});
