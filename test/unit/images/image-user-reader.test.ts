import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { ImageUserReader, ImageUsersCache } from "../../../src/shim/images/image-user-reader.js";
import { ScratchContainers, scratchLabel } from "../../../src/shim/images/scratch-containers.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { turns } from "../../fakes/turns.js";

const never = new AbortController().signal;

async function setUp() {
  const engine = new FakeEngine();
  const imageId = engine.images.add({ tags: ["web:1"] });
  const cache = new ImageUsersCache();
  const log = recordingLog();
  const containers = new ScratchContainers({ engine, log, timeoutMs: 5_000, stateDirectoryId: "here" });
  const reader = new ImageUserReader({ engine, scratch: containers, cache, log, timeoutMs: 5_000 });
  // Reading takes until its caller leaves.
  engine.hangs = (verb) => verb === "readContainerFile";
  const scratch = async (): Promise<number> =>
    (await engine.listContainers({ labelKey: scratchLabel }, never)).length;
  return { engine, containers, reader, imageId, scratch };
}

describe("ImageUserReader, while it reads for a call", () => {
  test("has no volumes made for what the image declares as such", async () => {
    const { engine, containers, reader } = await setUp();
    const imageId = engine.images.add({ tags: ["db:1"] });
    const inspect = engine.inspectImage.bind(engine);
    engine.inspectImage = async (...args) => ({ ...(await inspect(...args))!, volumes: ["/etc"] });
    const reading = reader.read(imageId, never);
    reading.catch(() => undefined);
    await turns(50);
    const bodies = engine.calls.filter(({ verb }) => verb === "createContainer");
    await containers.stop();
    assert.match(JSON.stringify(bodies), /"Type":"tmpfs","Source":"","Target":"\/etc"/);
  });

  test("settled() waits until the scratch container is gone, also after the caller has left", async () => {
    const { containers, reader, imageId, scratch } = await setUp();
    const caller = new AbortController();
    const reading = reader.read(imageId, caller.signal);
    await turns(50);
    assert.equal(await scratch(), 1);
    let settled = false;
    const settling = containers.settled(imageId, never).then(() => (settled = true));
    await turns(50);
    assert.equal(settled, false);
    caller.abort(new ShimError("cancelled", "the caller left"));
    await assert.rejects(reading, { kind: "cancelled" });
    await settling;
    assert.equal(await scratch(), 0);
  });

  test("stop() ends the reading, removes the scratch container, and lets no other begin", async () => {
    const { containers, reader, imageId, scratch } = await setUp();
    const reading = reader.read(imageId, never);
    reading.catch(() => undefined);
    reader.prepare(imageId);
    await turns(50);
    assert.equal(await scratch(), 1);
    await containers.stop();
    await assert.rejects(reading, { kind: "cancelled" });
    assert.equal(await scratch(), 0);
    await assert.rejects(reader.read(imageId, never), { kind: "cancelled" });
    assert.equal(await scratch(), 0);
  });
});
