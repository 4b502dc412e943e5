import assert from "node:assert/strict";
import { test } from "node:test";
import { renderListing } from "../../../../src/play/cli/play-list.js";

test("play ls has a line for each pod, and for a workload without pods", () => {
  const pod = { key: { namespace: "n", name: "d-0", uid: "u" }, workload: "n Deployment/d" };
  const other = { key: { namespace: "default", name: "p", uid: "v" }, workload: "default Pod/p" };
  const table = renderListing({
    isSupervisorAlive: true,
    plays: [
      {
        ...{ id: "1", files: ["d.yaml"], namespaces: ["n"], workloads: ["n Deployment/d", "n Job/j"] },
        pods: [{ ...pod, keptBy: "supervisor", process: "process 7" }],
      },
    ],
    otherPods: [{ ...other, keptBy: "none" }],
  });
  const found = table.split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(found, [
    ["POD", "OF", "KEPT BY", "FILES"],
    ["n/d-0", "Deployment/d", "supervisor (process 7)", "d.yaml"],
    ["n/-", "Job/j", "-", "d.yaml"],
    ["default/p", "Pod/p", "none", "-"],
    [""],
  ]);
});
