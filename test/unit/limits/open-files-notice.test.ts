import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { OpenFilesNotice, readOpenFileLimits } from "../../../src/shim/limits/open-files-notice.js";
import type { DockerUlimit } from "../../../src/domain/create-body.js";
import type { OpenFileLimits } from "../../../src/shim/ports/host.js";
import { FakeHost } from "../../fakes/fake-host.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { TestShim } from "../../fakes/services.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../fakes/snapshots.js";
import { turns } from "../../fakes/turns.js";

const low: OpenFileLimits = { soft: 1024, hard: 524_288 };
const nofile: DockerUlimit = { Name: "nofile", Soft: 65_536, Hard: 524_288 };

function notice(limits: OpenFileLimits | undefined, defaultUlimits: readonly DockerUlimit[] = []) {
  const host = new FakeHost();
  host.fileLimits = limits;
  let looks = 0;
  const open = host.openFileLimits.bind(host);
  host.openFileLimits = (snapshot) => {
    looks += 1;
    return open(snapshot);
  };
  const log = recordingLog();
  const told = new OpenFilesNotice({ host: () => host, defaultUlimits, log });
  const warnings = () => log.lines.filter(({ level }) => level === "warn");
  return { host, told, warnings, looks: () => looks };
}

const sandbox = sandboxSnapshot(idOf("5a"));

describe("OpenFilesNotice", () => {
  test("warns once of a low limit, and again when the engine comes back with another one", async () => {
    const { host, told, warnings, looks } = notice(low);
    told.observe(sandbox);
    await turns(5);
    told.observe(sandbox);
    told.engineFound();
    told.observe(sandbox);
    await turns(5);
    assert.equal(looks(), 2);
    const found = warnings().map(({ fields }) => [fields["soft"], fields["hard"]]);
    assert.deepEqual(found, [[1024, 524_288]]);
    host.fileLimits = { soft: 512, hard: 512 };
    told.engineFound();
    told.observe(sandbox);
    await turns(5);
    assert.equal(warnings().length, 2);
  });

  test("says nothing of higher limits, and where --default-ulimits decides", async () => {
    for (const { told, warnings } of [notice({ soft: 1025, hard: 4096 }), notice(low, [nofile])]) {
      told.observe(sandbox);
      await turns(5);
      assert.deepEqual(warnings(), []);
    }
  });

  test("looks at running sandboxes alone, and gives up after five that are out of reach", async () => {
    const { told, looks } = notice(undefined);
    told.observe(containerSnapshot(idOf("c1"), sandbox.id));
    told.observe({ ...sandbox, state: { ...sandbox.state, running: false } });
    assert.equal(looks(), 0);
    for (let count = 0; count < 9; count += 1) {
      told.observe(sandbox);
      await turns(2);
    }
    assert.equal(looks(), 5);
  });
});

test("readOpenFileLimits() reads those of a running pause container", async () => {
  await using shim = await TestShim.start();
  const { engine, world } = shim;
  const { signal } = new AbortController();
  assert.equal(await readOpenFileLimits(engine, world.host, signal), undefined);
  await shim.runSandbox();
  world.host.fileLimits = low;
  assert.deepEqual(await readOpenFileLimits(engine, world.host, signal), low);
});
