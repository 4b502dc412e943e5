import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { OrphanedNetworks } from "../../../src/network/orphans/orphaned-networks.js";
import {
  removeOrphanedNetworks,
  isKnownEngine,
  knownSandboxes,
  sandboxesOfKnownEngine,
} from "../../../src/shim/recovery/remove-orphaned-networks.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { rejectsWith } from "../../support/refusals.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;

test("isKnownEngine() remembers the first engine of a state directory and knows no other", async () => {
  await using at = await temporaryDirectory();
  for (const id of ["ONE", "ONE", "OTHER", "ONE"])
    assert.equal(await isKnownEngine(at.path, id), id === "ONE");
});

describe("what a state directory knows of sandboxes", () => {
  const id = (letter: string): string => letter.repeat(64);

  async function stateDirectory(path: string): Promise<FakeEngine> {
    for (const [directory, name] of [
      ["pods", `${id("a")}.json`],
      ["pods", ".dockershim-0123456789abcdef"],
      ["sandbox", id("b")],
    ] as const) {
      await mkdir(join(path, directory), { recursive: true });
      await writeFile(join(path, directory, name), "whatever");
    }
    const engine = new FakeEngine();
    engine.images.add({ tags: ["pause"] });
    return engine;
  }

  test("knownSandboxes() has all containers, and ours by the names of records and checkpoints, readable or not", async () => {
    await using at = await temporaryDirectory();
    const engine = await stateDirectory(at.path);
    const container = engine.containers.create("x", { Image: "pause", Labels: {}, HostConfig: {} });
    const { livingIds, ownIds } = await knownSandboxes(at.path, engine, never);
    assert.deepEqual([...livingIds], [container]);
    assert.deepEqual([...ownIds].sort(), [id("a"), id("b")]);
    const text = await readFile(join(at.path, "sandbox", id("b")), "utf8");
    assert.equal(text, "whatever", "nothing was cleaned up");
  });

  test("sandboxesOfKnownEngine() tells nothing on another engine than before", async () => {
    await using at = await temporaryDirectory();
    const engine = await stateDirectory(at.path);
    engine.facts = { ...engine.facts, engineId: "ONE" };
    assert.notEqual(await sandboxesOfKnownEngine(at.path, engine, never), undefined);
    engine.facts = { ...engine.facts, engineId: "OTHER" };
    assert.equal(await sandboxesOfKnownEngine(at.path, engine, never), undefined);
  });

  for (const [what, from, to] of [
    ["came", "ONE", "OTHER"],
    ["went", "OTHER", "ONE"],
  ] as const) {
    test(`sandboxesOfKnownEngine() takes the list of no other engine that ${what} meanwhile`, async () => {
      await using at = await temporaryDirectory();
      const engine = await stateDirectory(at.path);
      assert.equal(await isKnownEngine(at.path, "ONE"), true);
      engine.facts = { ...engine.facts, engineId: from };
      const list = engine.listContainers.bind(engine);
      engine.listContainers = (filter, signal) => {
        engine.facts = { ...engine.facts, engineId: to };
        return list(filter, signal);
      };
      assert.equal(await sandboxesOfKnownEngine(at.path, engine, never), undefined);
    });
  }

  test("removeOrphanedNetworks() ends when the engine has been exchanged since its caller looked", async () => {
    await using at = await temporaryDirectory();
    const engine = await stateDirectory(at.path);
    assert.equal(await isKnownEngine(at.path, "ONE"), true);
    engine.facts = { ...engine.facts, engineId: "OTHER" };
    const networks = {
      clean: async (known: () => Promise<unknown>) => (await known(), assert.fail("it was cleaned")),
    } as unknown as OrphanedNetworks;
    const cleaning = removeOrphanedNetworks(networks, at.path, engine, recordingLog(), never);
    await rejectsWith(cleaning, "precondition");
  });
});
