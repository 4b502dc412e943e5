import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { StatsSources } from "../../../src/shim/stats/stats-sources.js";
import type { Engine } from "../../../src/shim/ports/engine.js";
import type { HostAccess } from "../../../src/shim/ports/host.js";
import { fakeReach } from "../../fakes/reach.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { byId, goldenId, layOut } from "./golden-cgroup.js";
import { withResolvers } from "../../fakes/turns.js";

test("StatsSources closes the files of ended containers also while a layer is being measured", async () => {
  await using files = await layOut("v1");
  mock.timers.enable({ apis: ["setInterval"] });
  const log = recordingLog();
  const { promise: layer, resolve: end } = withResolvers<undefined>();
  let stats: StatsSources | undefined;
  try {
    const container = containerSnapshot(goldenId, idOf("5a"));
    const running = new Map([[goldenId, container]]);
    const host = {
      reach: fakeReach(true),
      cgroupDirectories: () => Promise.resolve(files),
      writableLayer: () => layer,
    } as unknown as HostAccess;
    const engine = { writableLayerBytes: () => Promise.resolve(undefined) };
    stats = new StatsSources({
      engine: engine as unknown as Engine,
      host: () => host,
      running: () => [container],
      isRunning: (id) => running.has(id),
      startVerb: () => {
        throw new Error("no layer is measured here");
      },
      log,
    });
    stats.useHost(host);
    await byId(stats.source.readContainers([container], { details: false }, new AbortController().signal));
    mock.timers.tick(10_000);
    assert.ok(stats.counts.keptFiles > 0);
    running.clear();
    mock.timers.tick(10_000);
    assert.equal(stats.counts.keptFiles, 0);
  } finally {
    end(undefined);
    await stats?.stop();
    mock.timers.reset();
  }
});
