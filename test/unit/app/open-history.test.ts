import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { historyDirectory } from "../../../src/history/history-files.js";
import type { HistoryRecord } from "../../../src/history/history-record.js";
import { readHistory } from "../../../src/history/read-history.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { silentLogger } from "../../../src/lib/log.js";
import { openHistory } from "../../../src/shim/app/open-history.js";
import type { ModelChange } from "../../../src/shim/state/read-model.js";
import { shimOfEachTest, type TestShim } from "../../fakes/services.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const shim = shimOfEachTest();
const defaults = { historyMaxBytes: 2 ** 24, historyMaxAgeMs: 2 ** 30, readOnly: false };

/** What is written while `act` runs. */
async function written(
  stateDir: string,
  of: TestShim,
  act: () => Promise<unknown>,
  config: Partial<typeof defaults> = {},
): Promise<readonly HistoryRecord[]> {
  const lifetime = new Lifetime(silentLogger());
  const { model } = of.services.state;
  await openHistory({ ...defaults, stateDir, ...config }, model, silentLogger(), lifetime);
  await act();
  await lifetime.close();
  return (await readHistory(historyDirectory(stateDir))).records;
}

describe("the history of ends", () => {
  test("has each end of a container once, with pod, exit code and how long it ran", async () => {
    await using directory = await temporaryDirectory();
    const sandboxId = await shim.runSandbox();
    const id = await shim.createContainer(sandboxId);
    await shim.startContainer(id);
    const records = await written(directory.path, shim, async () => {
      shim.engine.containers.exit(id, 137, { oomKilled: true });
      await shim.sync.refresh(id);
      await shim.sync.refresh(id);
    });
    const [record, ...others] = records;
    assert.deepEqual(others, []);
    assert.ok(record?.kind === "exit");
    const { exitCode, oomKilled, subject } = record;
    assert.deepEqual([exitCode, oomKilled], [137, true]);
    const { pod } = shim.services.state.model.requireSandbox(sandboxId);
    assert.deepEqual(subject, {
      ...{ pod: `${pod.namespace}/${pod.name}`, podUid: pod.uid, sandboxId, containerId: id },
      containerName: shim.services.state.model.requireContainer(id).identity.name,
    });
  });

  test("has the ends since the last write of the server before, which the first inspect tells", async () => {
    await using directory = await temporaryDirectory();
    const id = await shim.runContainer();
    shim.engine.containers.exit(id, 3);
    await shim.sync.refresh(id);
    const container = shim.services.state.model.requireContainer(id);
    const { sandboxId, snapshot } = container;
    const ends = async (finishedMs: number): Promise<number> => {
      const finished = BigInt(finishedMs) * 1_000_000n;
      const after = { ...snapshot, state: { ...snapshot.state, finished } };
      const model = {
        container: () => container,
        onChange: (listener: (change: ModelChange) => void) => {
          listener({ id, sandboxId, sandbox: undefined, before: undefined, after });
          return () => undefined;
        },
      };
      const lifetime = new Lifetime(silentLogger());
      await openHistory({ ...defaults, stateDir: directory.path }, model, silentLogger(), lifetime);
      await lifetime.close();
      return (await readHistory(historyDirectory(directory.path))).records.length;
    };
    assert.equal(await ends(1000), 1);
    assert.equal(await ends(2000), 1);
    assert.equal(await ends(Date.now() + 60_000), 2);
  });

  test("is not kept by a server that only reads, nor with 0 bytes", async () => {
    await using directory = await temporaryDirectory();
    for (const config of [{ readOnly: true }, { historyMaxBytes: 0 }]) {
      const id = await shim.runContainer();
      const stop = (): Promise<unknown> => shim.stopContainer(id);
      assert.deepEqual(await written(directory.path, shim, stop, config), []);
    }
  });
});
