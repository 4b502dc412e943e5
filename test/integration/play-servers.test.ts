/**
 * `dockershim play` and `dockershim pod`, the programs, on the engine of the tests: through this program, and
 * through cri-dockerd where DOCKERSHIM_TEST_CRI_DOCKERD has its path. DOCKERSHIM_TEST_PLAY_ENDPOINT names any
 * other CRI server, whose image dockershim.test/busybox:play is made by hand.
 */
import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe } from "node:test";
import { builtinPauseImage } from "../../src/shim/pause/pause-image.js";
import { criDockerd, startCriDockerd } from "../support/cri-dockerd.js";
import { loadImage } from "../support/docker.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { playScenarios, playsAtOnce } from "./play-scenarios.js";

const reason = await reasonToSkip();

/** Defines the tests; `serve` answers the endpoint. */
function onEngine(what: string, skip: string | false, serve: (bed: TestBed) => Promise<string>): void {
  describe(what, { skip, concurrency: playsAtOnce }, () => {
    const bed = TestBed.ofSuite();
    let endpoint = "";
    before(async () => {
      endpoint = await serve(bed);
    });
    playScenarios(() => ({
      ...{ endpoint, image: bed.image, run: bed.run },
      newDirectory: () => bed.newDirectory(),
    }));
  });
}

onEngine("play on this program", reason, async (bed) => (await bed.startShim()).endpoint);

const noProgram = criDockerd === "" ? "no cri-dockerd in DOCKERSHIM_TEST_CRI_DOCKERD" : reason;
onEngine("play on cri-dockerd", noProgram, async (bed) => {
  await loadImage((await builtinPauseImage(process.arch)).archive);
  const directory = await bed.newDirectory();
  const socket = join(directory, "cri.sock");
  await startCriDockerd(bed, { socket, root: join(directory, "root") });
  return `unix://${socket}`;
});

const endpoint = process.env["DOCKERSHIM_TEST_PLAY_ENDPOINT"] ?? "";
const noServer = endpoint === "" ? "no CRI server in DOCKERSHIM_TEST_PLAY_ENDPOINT" : false;
describe("play on a given server", { skip: noServer, concurrency: playsAtOnce }, () => {
  let directory = "";
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "play-"));
  });
  after(() => rm(directory, { recursive: true, force: true }));
  const run = randomBytes(4).toString("hex");
  playScenarios(() => ({
    ...{ endpoint, run, image: "dockershim.test/busybox:play" },
    newDirectory: async () => {
      const path = await mkdtemp(join(directory, "d-"));
      await chmod(path, 0o777); // Root of a container may be another user on the host.
      return path;
    },
  }));
});
