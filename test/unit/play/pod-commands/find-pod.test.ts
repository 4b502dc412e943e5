import assert from "node:assert/strict";
import { test } from "node:test";
import { ContainerState, type ContainerStatus } from "../../../../src/domain/cri.js";
import { chooseContainer, type FoundPod } from "../../../../src/play/pod-commands/find-pod.js";

const status = (name: string): ContainerStatus =>
  ({
    ...{ id: name, metadata: { name, attempt: 0 }, state: ContainerState.CONTAINER_RUNNING },
    ...{ created_at: "1", finished_at: "0", exit_code: 0 },
  }) as unknown as ContainerStatus;

function pod(annotations: Readonly<Record<string, string>>, ...names: readonly string[]): FoundPod {
  const sandbox = { annotations } as unknown as FoundPod["sandbox"];
  const key = { namespace: "default", name: "p" };
  return { ...key, sandbox, isReady: true, isPlayed: true, containers: names.map(status) };
}

const annotated = { "kubectl.kubernetes.io/default-container": "third" };
for (const [what, found, name, first, expected] of [
  ["the named container", pod(annotated, "side", "web", "third"), "side", "web", "side"],
  ["that of the annotation", pod(annotated, "side", "web", "third"), undefined, "web", "third"],
  [
    "the first of the manifest, not a sidecar that started before",
    pod({}, "side", "web"),
    undefined,
    "web",
    "web",
  ],
  ["the first that was created, without a manifest", pod({}, "side", "web"), undefined, undefined, "side"],
] as const) {
  test(`chooseContainer() takes ${what}`, () => {
    assert.equal(chooseContainer(found, name, first).id, expected);
  });
}

test("chooseContainer() does not take a sidecar for a container that was not created yet", () => {
  assert.throws(
    () => chooseContainer(pod({}, "side"), undefined, "web"),
    /container "web" was not created yet; it has: side/,
  );
});
