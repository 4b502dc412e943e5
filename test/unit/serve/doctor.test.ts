import assert from "node:assert/strict";
import { test } from "node:test";
import { pendingReach } from "../../../src/domain/reach.js";
import { describeReach } from "../../../src/shim/serve/doctor-reach.js";
import { describeOpenFiles } from "../../../src/shim/serve/doctor-ulimits.js";
import { fakeReach } from "../../fakes/reach.js";

test("describeReach() names each job, and for those out of reach the reason and what is lost", () => {
  const { jobs } = fakeReach(false);
  const files = { reached: true } as const;
  const cgroups = pendingReach("cgroups", "no container of a pod runs yet");
  const text = describeReach({ jobs: { ...jobs, files, cgroups } });
  assert.match(text, /^files {15}in reach: the engine finds a directory/);
  assert.match(text, /^processes {11}out of reach: the engine is elsewhere\n {20}A timed out exec /m);
  const pending =
    /^cgroups {13}not known yet: no container of a pod runs yet\n {20}if out of reach: Limits /m;
  assert.match(text, pending);
  assert.equal(text.split("\n").length, 10);
});

test("describeOpenFiles() calls a low limit a problem where --default-ulimits does not replace it", () => {
  const low = { soft: 1024, hard: 524_288 };
  const nofile = { Name: "nofile", Soft: 65_536, Hard: 524_288 };
  const own = /1024 soft, 524288 hard\.\n.*by --default-ulimits: 65536 soft, 524288 hard\.\n$/;
  for (const [limits, ulimits, exitCode, shown] of [
    [low, [], 1, /1024 soft, 524288 hard\.\n.*see --default-ulimits\.\n$/],
    [{ soft: 4096, hard: 4096 }, [], 0, /4096 soft/],
    [low, [nofile], 0, own],
    [undefined, [], 0, /not known/],
  ] as const) {
    const described = describeOpenFiles(limits, ulimits);
    assert.equal(described.exitCode, exitCode);
    assert.match(described.text, shown);
  }
});
