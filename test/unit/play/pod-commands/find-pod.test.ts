import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ContainerState,
  type ContainerStatus,
  type PodSandbox,
  PodSandboxState,
} from "../../../../src/domain/cri.js";
import {
  chooseContainer,
  findPod,
  findPods,
  type FoundPod,
} from "../../../../src/play/pod-commands/find-pod.js";
import { parseLabels, type PodSelection } from "../../../../src/play/pod-commands/pod-names.js";

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
  ["the first of the manifest, not an earlier sidecar", pod({}, "side", "web"), undefined, "web", "web"],
  ["the first that was created, without a manifest", pod({}, "side", "web"), undefined, undefined, "side"],
] as const) {
  test(`chooseContainer() takes ${what}`, () => {
    const known = first === undefined ? undefined : { containers: [{ name: first }] };
    const { status, notice } = chooseContainer(found, name, known);
    assert.equal(status.id, expected);
    // As kubectl, where neither the user nor the pod says which one.
    const isDefaulted = found.containers.length === 2 && known === undefined && name === undefined;
    assert.equal(notice, isDefaulted ? 'Defaulted container "side" out of: side, web' : undefined);
  });
}

test("chooseContainer() does not take a sidecar for a container that was not created yet", () =>
  assert.throws(
    () => chooseContainer(pod({}, "side"), undefined, { containers: [{ name: "web" }] }),
    /container "web" was not created yet; it has: side/,
  ));

test("chooseContainer() names the containers of the manifest, init containers last", () => {
  const known = { containers: [{ name: "web" }, { name: "side" }], initContainers: [{ name: "i" }] };
  const { notice } = chooseContainer(pod({}, "i", "web", "side"), undefined, known);
  assert.equal(notice, 'Defaulted container "web" out of: web, side, i (init)');
});

describe("findPods() and findPod()", () => {
  const { signal } = new AbortController();
  const sandbox = (name: string, owner: string, state: PodSandboxState, labels = {}): PodSandbox =>
    ({
      ...{ id: `id-${name}`, metadata: { name, namespace: "default", uid: name, attempt: 0 }, state, labels },
      ...{ annotations: { "dockershim.local/play-owner": owner }, created_at: "1" },
    }) as unknown as PodSandbox;
  const { SANDBOX_READY: ready, SANDBOX_NOTREADY: ended } = PodSandboxState;
  const client = {
    listPodSandboxes: () =>
      Promise.resolve([
        sandbox("web-1", "Deployment/web", ready, { app: "web" }),
        sandbox("web-0", "Deployment/web", ended, { app: "web", old: "" }),
        sandbox("web", "StatefulSet/other", ready, { app: "db" }),
      ]),
    listContainers: () => Promise.resolve([]),
  } as unknown as Parameters<typeof findPods>[0];
  const name = { namespace: "default", name: "web" };
  const namesOf = async (selection: Partial<PodSelection>): Promise<readonly string[]> =>
    (await findPods(client, { pods: [], namespace: undefined, labels: [], ...selection }, signal)).map(
      (found) => found.name,
    );

  test("find the pods of a workload", async () => {
    assert.deepEqual(await namesOf({ pods: [{ ...name, kind: "Deployment" }, name] }), [
      "web-0",
      "web-1",
      "web",
    ]);
    await assert.rejects(
      namesOf({ pods: [{ ...name, kind: "Job" }] }),
      /Job "default\/web": play has made no pod/,
    );
  });

  test("find the job that a CronJob has started", async () => {
    const started = sandbox("c-0", "CronJob/c", ready, { "batch.kubernetes.io/job-name": "c" });
    const listed = { ...client, listPodSandboxes: () => Promise.resolve([started]) };
    const { name: found } = await findPod(listed, { ...name, kind: "Job", name: "c" }, signal);
    assert.equal(found, "c-0");
  });

  test("say how a kind is written", async () => {
    await assert.rejects(namesOf({ pods: [{ ...name, name: "pods" }] }), /not found; leave "pods" out/);
    await assert.rejects(namesOf({ pods: [{ ...name, name: "deploy" }] }), /not found; write deploy\/NAME/);
  });

  test("take the first of a workload that is ready, and say so", async () => {
    const lines: string[] = [];
    const found = await findPod(client, { ...name, kind: "Deployment" }, signal, (line) => lines.push(line));
    assert.deepEqual([found.name, lines], ["web-1", ["Found 2 pods, using pod/web-1"]]);
  });

  for (const [labels, expected] of [
    ["app=web", ["web-0", "web-1"]],
    ["app==web,!old", ["web-1"]],
    ["app!=web", ["web"]],
    ["old", ["web-0"]],
    ["app in (db, x)", ["web"]],
    ["app notin (db),old", ["web-0"]],
    ["constructor", []],
  ] as const)
    test(`find those with ${labels}`, async () => {
      assert.deepEqual(await namesOf({ labels: parseLabels(labels) }), expected);
    });
});
