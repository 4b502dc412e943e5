/** A real engine for the tests of the engine adapter: who it is, an image on it, containers that go away again. */
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { after, before } from "node:test";
import { engineEndpoint } from "../../src/shim/app/open-engine.js";
import { dockerEndpointKind } from "../../src/shim/config/endpoints.js";
import { messageOf } from "../../src/lib/errors.js";
import { silentLogger } from "../../src/lib/log.js";
import { dockerEngine } from "../../src/shim/engine/docker-engine.js";
import { instrument, type EngineObservation } from "../../src/shim/engine/instrumented-engine.js";
import type { EngineHostDeps } from "../../src/shim/host/engine-host.js";
import type { ArchiveEntry } from "../../src/shim/pause/image-archive.js";
import { dockerEndpoint, tlsEnvironment } from "../support/docker.js";
import { anySignal, type ContractEngine, makeContainer, testLabel } from "../support/engine-contract.js";
import { testImageArchive } from "../support/test-image.js";

/** As the program connects, over the transport that the run has. */
export const endpoint = await engineEndpoint(
  { dockerEndpoint: dockerEndpointKind.parse(dockerEndpoint), dockerContext: undefined },
  tlsEnvironment,
);

/** An engine with a clean end; short deadlines, for a test that hangs is no test. */
export interface TestEngine extends ContractEngine {
  readonly observations: readonly EngineObservation[];
  /** An image archive, a different image for each `marker`. */
  archive(reference: string, marker?: string): Promise<Buffer>;
  close(): Promise<void>;
}

/** Why the tests against a real engine cannot run here, or false. */
export async function reasonToSkip(): Promise<string | false> {
  using docker = dockerEngine({ endpoint, shortTimeoutMs: 10_000 });
  try {
    await docker.connect(anySignal());
    return false;
  } catch (error) {
    const reason = `NO DOCKER ENGINE FOR THIS TEST: ${messageOf(error)}`;
    console.error(reason);
    return reason;
  }
}

/** Opened before the tests of the suite that is being defined, and closed after them. */
export function engineOfSuite(): TestEngine {
  const at = {} as TestEngine;
  before(async () => Object.assign(at, await openTestEngine()));
  after(() => at.close());
  return at;
}

const passwd: ArchiveEntry = {
  ...{ path: "etc/passwd", type: "file", mode: 0o644, content: Buffer.from("root:x:0:0::/:/bin/sh\n") },
};
const link: ArchiveEntry = { path: "etc/link", type: "symlink", mode: 0o777, target: "../etc/passwd" };

async function openTestEngine(): Promise<TestEngine> {
  const docker = dockerEngine({ endpoint, shortTimeoutMs: 30_000 });
  const observations: EngineObservation[] = [];
  const engine = instrument(docker, { log: silentLogger(), observe: (one) => observations.push(one) });
  const run = randomBytes(5).toString("hex");
  const image = `dockershim.local/engine-test-${run}:1`;
  const facts = await engine.connect(anySignal());
  const archive = (reference: string, marker = ""): Promise<Buffer> =>
    testImageArchive({
      ...{ reference, marker: `${run} ${marker}`, above: [passwd, link] },
      config: { Cmd: ["sleep", "3600"], Env: ["PATH=/bin"], Labels: { marker }, User: "0" },
    });
  await engine.loadImage(await archive(image), anySignal());
  return {
    engine,
    facts,
    observations,
    run,
    image,
    archive,
    container: (overrides) => makeContainer({ engine, run, image }, overrides),
    close: async () => {
      const left = await engine.listContainers({ labelKey: testLabel, labelValue: run }, anySignal());
      for (const { id } of left) await engine.removeContainer(id, { force: true }, anySignal());
      await engine.removeImage(image, anySignal());
      docker[Symbol.dispose]();
    },
  };
}

/** Of this host, with a directory that is surely on it. */
export function proofsOf(engine: EngineHostDeps["engine"]): EngineHostDeps {
  return { engine, mode: "auto", directory: tmpdir(), log: silentLogger() };
}
