import assert from "node:assert/strict";
import { test } from "node:test";
import { answering, fieldsOf, id, play, podCalls, type Server, server } from "./replay-bed.js";

test("replay() keeps the order of a pod's calls, maps ids and directories, and removes the pod", async (t) => {
  const endpoint = server();
  const { replayed, report } = await play(t, endpoint);
  assert.deepEqual(report.differences, []);
  assert.deepEqual(
    endpoint.asked.map(([rpc]) => rpc).filter((rpc) => rpc !== "ImageStatus" && rpc !== "StopContainer"),
    "RunPodSandbox CreateContainer StartContainer ContainerStatus StopPodSandbox RemovePodSandbox".split(" "),
  );
  const requests = new Map(endpoint.asked);
  const created = requests.get("CreateContainer") as {
    pod_sandbox_id: string;
    config: { image: { image: string }; mounts: object[]; envs: { value: Buffer }[] };
  };
  assert.equal(created.pod_sandbox_id, id("c"));
  assert.equal(created.config.image.image, "busybox");
  assert.deepEqual(created.config.mounts, [{ host_path: "/present", container_path: "/p" }]);
  assert.equal(String(created.config.envs[0]?.value), "redacted:1");
  assert.deepEqual(requests.get("StartContainer"), { container_id: id("d") });
  const { config } = requests.get("RunPodSandbox") as { config: { linux: object; log_directory: string } };
  assert.deepEqual(config.linux, { cgroup_parent: "" });
  assert.ok(!config.log_directory.startsWith("/var/log"));
  assert.deepEqual(replayed.missingPaths, ["/absent"]);
  assert.deepEqual(replayed.left, []);
  assert.deepEqual(replayed.notPlayed, {
    "of a pod from before the recording, or one that was not made here": 1,
    "RemoveImage of an image that the replay has not pulled": 1,
  });
});

test("replay() reports answers that differ, and names images that are missing", async (t) => {
  const { report } = await play(t, server(2));
  assert.deepEqual(fieldsOf(report), ["ContainerStatus status.state"]);
  const { replayed } = await play(t, answering(server(), { ImageStatus: { image: null } }));
  assert.deepEqual(replayed.missingImages, ["busybox"]);
});

for (const [what, when, calls] of [
  [
    "its pods at an interrupt",
    "StartContainer",
    [...podCalls, { at: 1000, ms: 1, rpc: "Version", request: {} }],
  ],
  ["the pod that is made while it is interrupted", "RunPodSandbox", podCalls.slice(0, 1)],
] as const)
  test(`replay() removes ${what}`, async (t) => {
    const endpoint = server();
    const stop = new AbortController();
    const interrupting: Server = {
      ...endpoint,
      ask: async (rpc, request, signal) => {
        if (rpc === when) stop.abort();
        const answer = await endpoint.ask(rpc, request);
        if (when === "RunPodSandbox") signal?.throwIfAborted();
        return answer;
      },
    };
    await play(t, interrupting, { calls, signal: stop.signal }).catch((error: unknown) => {
      assert.match(String(error), /all pods were removed/);
    });
    const found = endpoint.asked.map(([rpc]) => rpc).filter((rpc) => rpc.endsWith("PodSandbox"));
    assert.deepEqual(found, ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
  });

test("replay() changes no pod that it has not made, also where the recorded call failed", async (t) => {
  const endpoint = server();
  const request = { pod_sandbox_id: id("e"), container_id: id("e") };
  const error = { code: 4, message: "deadline" };
  const calls = ["StopPodSandbox", "RemovePodSandbox", "RemoveContainer", "ExecSync", "ContainerStatus"].map(
    (rpc, at) => ({ at, ms: 0, rpc, request, error }),
  );
  const { replayed } = await play(t, endpoint, { calls });
  const rpcs = endpoint.asked.map(([rpc]) => rpc);
  assert.deepEqual(rpcs, ["ContainerStatus"]);
  assert.deepEqual(Object.values(replayed.notPlayed), [4]);
});
