import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { RecordedCall } from "../../../../src/compare/record/recording.js";
import { readRecordedPods } from "../../../../src/migrate/rehearse/recorded-pods.js";

async function* calls(...recorded: readonly Partial<RecordedCall>[]): AsyncGenerator<RecordedCall> {
  for (const call of recorded) yield { at: 0, ms: 1, rpc: "", ...call };
}

const run = (name: string): Partial<RecordedCall> => ({
  rpc: "RunPodSandbox",
  request: { config: { metadata: { name, namespace: "default", uid: name } } },
  response: { pod_sandbox_id: `s-${name}` },
});
const create = (pod: string, name: string): Partial<RecordedCall> => ({
  rpc: "CreateContainer",
  request: {
    pod_sandbox_id: `s-${pod}`,
    config: {
      metadata: { name },
      envs: [
        { key: "A", value: { base64: "Yg==" } },
        { key: "B", value: { omitted: 9 } },
        { key: "C", value: "redacted:1" },
      ],
    },
  },
  response: { container_id: `c-${name}` },
});
const on = (rpc: string, id: string): Partial<RecordedCall> => ({
  rpc,
  request: rpc.includes("Sandbox") ? { pod_sandbox_id: id } : { container_id: id },
  response: {},
});

describe("readRecordedPods()", () => {
  test("gives the pods and containers that are there at the end, and whether they run", async () => {
    const made = ["web", "stopped", "removed"].map(run);
    const containers = ["a", "b", "c"].map((name) => create("web", name));
    const later = [
      ...[on("StartContainer", "c-a"), on("StartContainer", "c-b"), on("StopContainer", "c-b")],
      ...[
        on("RemoveContainer", "c-c"),
        on("StopPodSandbox", "s-stopped"),
        on("RemovePodSandbox", "s-removed"),
      ],
    ];
    const { pods } = await readRecordedPods(calls(...made, ...containers, ...later));
    const rows = pods.map(({ config, containers: left }) => [
      config.metadata?.name,
      left.map((one) => `${one.config.metadata?.name ?? ""} ${one.started}`),
    ]);
    assert.deepEqual(rows, [["web", ["a true", "b false"]]]);
  });

  test("fills in defaults and bytes, as the server got them", async () => {
    const { pods } = await readRecordedPods(calls(run("web"), create("web", "a")));
    const [pod] = pods;
    assert.ok(pod);
    assert.equal(pod.config.metadata?.attempt, 0);
    assert.equal(pod.config.linux, null);
    const [container] = pod.containers;
    assert.ok(container);
    assert.deepEqual(container.config.mounts, []);
    const envs = container.config.envs.map(({ key, value }) => `${key}=${String(value)}`);
    assert.deepEqual(envs, ["A=b", "B=", "C=redacted:1"]);
  });

  test("leaves out calls that failed, and counts pods that were only listed", async () => {
    const failed = { ...run("failed"), error: { code: 2, message: "no" } };
    const list = {
      rpc: "ListPodSandbox",
      response: { items: [{ id: "s-web" }, { id: "s-old" }, { id: "s-gone" }] },
    };
    const { pods, unmade } = await readRecordedPods(
      calls(run("web"), failed, list, on("RemovePodSandbox", "s-gone")),
    );
    assert.equal(pods.length, 1);
    assert.equal(unmade, 1);
  });

  test("keeps the last answers about each pod and container, none from before its last change", async () => {
    const status = (at: number, attempt: number): Partial<RecordedCall> => ({
      ...{ ...on("ContainerStatus", "c-a"), at },
      response: { status: { state: attempt } },
    });
    const start = { ...on("StartContainer", "c-a"), at: 10, ms: 5 };
    const list = { rpc: "ListPodSandbox", at: 30, response: { items: [{ id: "s-web", state: 7 }] } };
    const made = [run("web"), create("web", "a")];
    // This one began during the start.
    const { pods } = await readRecordedPods(calls(...made, status(5, 1), start, status(12, 2), list));
    assert.deepEqual(pods[0]?.answers, { listed: { id: "s-web", state: 7 } });
    assert.deepEqual(pods[0].containers[0]?.answers, {});
    const later = await readRecordedPods(calls(...made, start, status(16, 3), status(20, 4)));
    assert.deepEqual(later.pods[0]?.containers[0]?.answers, { status: { status: { state: 4 } } });
  });

  test("says who answered", async () => {
    const version = { runtime_name: "docker", runtime_api_version: "v1" };
    assert.equal((await readRecordedPods(calls(run("web")), version)).server, "cri-dockerd");
    const own = { ...version, runtime_api_version: "1.51.0" };
    const status = { rpc: "Status", response: { features: { x: true } } };
    assert.equal((await readRecordedPods(calls(run("web"), status), own)).server, "dockershim");
  });

  test("refuses requests that are not those of the CRI, and passes over entries that are none", async () => {
    const { metadata } = run("web").request?.["config"] as { metadata: object };
    const entries = (rpc: string, field: string): Partial<RecordedCall> => ({
      ...{ rpc, response: { [field]: [null, 5] } },
    });
    const lists = [entries("ListPodSandbox", "items"), entries("ListContainers", "containers")];
    assert.equal((await readRecordedPods(calls(run("web"), ...lists))).pods.length, 1);
    for (const broken of [
      { ...run("web"), request: { config: "x" } },
      { ...run("web"), request: { config: { metadata, port_mappings: "x" } } },
      { ...create("web", "a"), request: { pod_sandbox_id: "s-web", config: { metadata, envs: [null] } } },
    ])
      await assert.rejects(readRecordedPods(calls(run("web"), broken)), {
        kind: "invalid",
        message:
          /^the recording has a request of \w+ that cannot be read: encode message: \S+ is not a (message|list); record again$/,
      });
  });

  test("refuses more pods than a node has", async () => {
    const many = Array.from({ length: 501 }, (_, at) => run(`p${at}`));
    await assert.rejects(readRecordedPods(calls(...many)), { kind: "exhausted" });
    const containers = Array.from({ length: 5_001 }, (_, at) => create("web", `c${at}`));
    await assert.rejects(readRecordedPods(calls(run("web"), ...containers)), /more than 5000 containers/);
  });
});
