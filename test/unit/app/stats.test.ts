import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Lifetime } from "../../../src/shim/lib/lifetime.js";
import { openStats } from "../../../src/shim/app/stats.js";
import type { Snapshot } from "../../../src/shim/domain/snapshot.js";
import type { Engine } from "../../../src/shim/ports/engine.js";
import type { HostAccess } from "../../../src/shim/ports/host.js";
import type { ReadModel } from "../../../src/shim/state/read-model.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { byId } from "../stats/by-id.js";
import { goldenId, layOut } from "../stats/golden-cgroup.js";

test("openStats() lets go of what has ended also while a layer is being measured", async () => {
  await using files = await layOut("v1");
  mock.timers.enable({ apis: ["setInterval"] });
  const log = recordingLog();
  const lifetime = new Lifetime(log);
  let end = (): void => undefined;
  const layer = new Promise<undefined>((resolve) => {
    end = () => {
      resolve(undefined);
    };
  });
  try {
    const container = containerSnapshot(goldenId, idOf("5a"));
    const running = new Map([[goldenId, container]]);
    const host = {
      local: true,
      cgroupDirectories: () => Promise.resolve(files),
      writableLayer: () => layer,
    } as unknown as HostAccess;
    const engine = { writableLayerBytes: () => Promise.resolve(undefined) };
    const model = {
      containers: () => [{ snapshot: container }],
      snapshot: (id: string): Snapshot | undefined => running.get(id),
    } as unknown as ReadModel;
    const { stats, useHost, counts } = openStats(
      { engine: engine as unknown as Engine, model, host: () => host, log },
      lifetime,
    );
    useHost(host);
    await byId(stats().readContainers([container], { details: false }, new AbortController().signal));
    mock.timers.tick(10_000);
    assert.ok(counts().keptFiles > 0);
    running.clear();
    mock.timers.tick(10_000);
    assert.equal(counts().keptFiles, 0);
  } finally {
    end();
    await lifetime.close();
    mock.timers.reset();
  }
});
