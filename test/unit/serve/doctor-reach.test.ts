import assert from "node:assert/strict";
import { test } from "node:test";
import { describeReach } from "../../../src/shim/serve/doctor-reach.js";
import { pendingReach } from "../../../src/domain/reach.js";
import { fakeReach } from "../../fakes/reach.js";

test("describeReach() names each job, and for those out of reach the reason and what is lost", () => {
  const { jobs } = fakeReach(false);
  const files = { reached: true } as const;
  const cgroups = pendingReach("cgroups", "no container of a pod runs yet");
  const text = describeReach({ jobs: { ...jobs, files, cgroups } });
  assert.match(text, /^files {15}in reach: the engine finds a directory/);
  assert.match(text, /^processes {11}out of reach: the engine is elsewhere\n {20}A timed out exec /m);
  assert.match(
    text,
    /^cgroups {13}not known yet: no container of a pod runs yet\n {20}if out of reach: Limits /m,
  );
  assert.equal(text.split("\n").length, 10);
});
