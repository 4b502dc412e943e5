import assert from "node:assert/strict";
import { test } from "node:test";
import { fromDockerLabels, madeLabels } from "../../../src/domain/labels.js";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import { planSandbox } from "../../../src/shim/plan/sandbox-plan.js";
import { containerContext, createRequest, runRequest, sandboxContext } from "./builders.js";

const compose = /^com\.docker\.compose\./;
const project = "com.docker.compose.project";
const metadata = { name: "web.v1", namespace: "shop", uid: "u1", attempt: 0 };

test("with composeLabels, a pod's containers have its name as project and theirs as service", () => {
  const sandbox = planSandbox(runRequest({ metadata }), sandboxContext({ composeLabels: true })).body;
  assert.equal(sandbox.Labels[project], "shop_web-v1");
  assert.equal(sandbox.Labels["com.docker.compose.service"], "POD");
  const container = planContainer(createRequest({}, { metadata }), containerContext({ composeLabels: true }));
  assert.equal(container.body.Labels[project], "shop_web-v1");
  assert.equal(container.body.Labels["com.docker.compose.service"], "c1");
});

test("clients of the CRI do not see these labels, but those that they gave themselves", () => {
  const seen = (labels: Record<string, string>): readonly string[] => {
    const { Labels } = planSandbox(runRequest({ labels }), sandboxContext({ composeLabels: true })).body;
    return Object.entries(fromDockerLabels(madeLabels(Labels)).labels)
      .filter(([key]) => compose.test(key))
      .map(([key, value]) => `${key}=${value}`);
  };
  assert.deepEqual(seen({}), []);
  assert.deepEqual(seen({ [project]: "mine" }), [`${project}=mine`]);
});

test("without composeLabels there are none", () => {
  const { Labels } = planSandbox(runRequest(), sandboxContext()).body;
  assert.deepEqual(
    Object.keys(Labels).filter((key) => compose.test(key)),
    [],
  );
});
