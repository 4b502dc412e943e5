import assert from "node:assert/strict";
import { test } from "node:test";
import type { RecordedCall } from "../../../../src/compare/record/recording.js";
import { container, id, play, pod, podCalls, type Server, server } from "./replay-bed.js";

/** What the endpoint was asked beside the life of the pod itself. */
function othersAsked(endpoint: Server): readonly (readonly [string, unknown])[] {
  const usual =
    /^(RunPodSandbox|CreateContainer|StartContainer|ContainerStatus|StopContainer|.*ePodSandbox)$/;
  return endpoint.asked.filter(([rpc]) => !usual.test(rpc) && rpc !== "StopPodSandbox");
}

test("replay() asks for the URLs of Exec, Attach and PortForward of its own pods, and compares success", async (t) => {
  const ask = (rpc: string, request: Readonly<Record<string, unknown>>, at: number): RecordedCall => ({
    ...{ at, ms: 1, rpc, request },
    response: { url: "http://127.0.0.1:1/redacted:7" },
  });
  const calls = [
    ...podCalls.slice(0, 3),
    ask("Exec", { container_id: container, cmd: ["sh"] }, 200),
    ask("Attach", { container_id: container }, 210),
    ask("PortForward", { pod_sandbox_id: pod }, 220),
    ask("Exec", { container_id: id("f") }, 230),
    ask("RuntimeConfig", {}, 240),
  ];
  const endpoint = server();
  const failing: Server = {
    ...endpoint,
    ask: async (rpc, request) =>
      rpc === "Attach"
        ? { error: { code: 2, message: "no" } }
        : rpc === "Exec"
          ? { ...(await endpoint.ask(rpc, request)), url: "http://127.0.0.1:2/x" }
          : endpoint.ask(rpc, request),
  };
  const { replayed, report } = await play(t, failing, { calls });
  assert.deepEqual(
    othersAsked(endpoint).filter(([rpc]) => rpc !== "ImageStatus"),
    [
      ["Exec", { container_id: id("d"), cmd: ["sh"] }],
      ["PortForward", { pod_sandbox_id: id("c") }],
      ["RuntimeConfig", {}],
    ],
  );
  assert.deepEqual(
    report.differences.map(({ rpc, field }) => [rpc, field]),
    [["Attach", "error"]],
  );
  assert.deepEqual(Object.values(replayed.notPlayed), [1]);
});

/** A server with the images `present`, by id, where a pull of "new" brings the image "n". */
function imageServer(present: readonly string[]): Server {
  const images = new Map(present.map((name) => [name, name]));
  const asked: Server["asked"] = [];
  return {
    asked,
    ask: (rpc, request) => {
      asked.push([rpc, request as Record<string, unknown>]);
      const name = (request as { image?: { image: string } }).image?.image ?? "";
      if (rpc === "PullImage") images.set(name, name === "new" ? "n" : name).set("n", "n");
      const answers: Record<string, object> = {
        ListImages: { images: [...images.values()].map((one) => ({ id: one })) },
        ImageStatus: { image: images.has(name) ? { id: images.get(name) } : null },
        PullImage: { image_ref: images.get(name) },
      };
      return Promise.resolve(answers[rpc] ?? {});
    },
  };
}

test("replay() removes only images that it has pulled itself", async (t) => {
  const call = (rpc: string, image: string, at: number): RecordedCall => ({
    ...{ at, ms: 1, rpc, request: { image: { image } }, response: {} },
  });
  const calls = [
    call("PullImage", "new", 0),
    call("PullImage", "old", 10),
    call("RemoveImage", "old", 20),
    call("RemoveImage", "absent", 30),
    call("RemoveImage", "n", 40),
  ];
  const endpoint = imageServer(["old"]);
  const { replayed } = await play(t, endpoint, { calls });
  assert.deepEqual(
    endpoint.asked.filter(([rpc]) => rpc === "RemoveImage").map(([, request]) => request),
    [{ image: { image: "n" } }],
  );
  assert.deepEqual(replayed.notPlayed, { "RemoveImage of an image that the replay has not pulled": 2 });
});

test("replay() removes no image that it may not have pulled, because the list before the pull failed", async (t) => {
  const call = (rpc: string, image: string, at: number): RecordedCall => ({
    ...{ at, ms: 1, rpc, request: { image: { image } }, response: {} },
  });
  const calls = [
    call("PullImage", "old", 0),
    call("RemoveImage", "old", 10),
    call("PullImage", "other", 20),
    call("RemoveImage", "other", 30),
  ];
  const endpoint = imageServer(["old"]);
  let lists = 0;
  const failing: Server = {
    ...endpoint,
    ask: (rpc, request) => {
      if (rpc !== "ListImages" || ++lists > 1) return endpoint.ask(rpc, request);
      return Promise.resolve({ error: { code: 2, message: "busy" } });
    },
  };
  const { replayed } = await play(t, failing, { calls });
  assert.deepEqual(
    endpoint.asked.filter(([rpc]) => rpc === "RemoveImage").map(([, request]) => request),
    [{ image: { image: "other" } }],
  );
  assert.deepEqual(replayed.notPlayed, { "RemoveImage of an image that the replay has not pulled": 1 });
});

test("replay() compares lists of images by those that recorded containers use", async (t) => {
  const image = { id: id("1"), repo_tags: ["busybox:1"], size: "5" };
  const listed: RecordedCall = {
    ...{ at: 300, ms: 1, rpc: "ListImages", request: {} },
    response: { images: [image, { id: id("2"), repo_tags: ["other"] }] },
  };
  const endpoint = server();
  const { ask } = endpoint;
  const withImages = (images: readonly object[]): Server => ({
    ...endpoint,
    ask: (rpc, request) => (rpc === "ListImages" ? Promise.resolve({ images }) : ask(rpc, request)),
  });
  const calls = [...podCalls.slice(0, 3), listed];
  const same = await play(t, withImages([{ ...image, size: "6", repo_tags: ["x"] }]), { calls });
  assert.deepEqual(same.report.differences, []);
  const missing = await play(t, withImages([{ id: id("3") }]), { calls });
  assert.deepEqual(
    missing.report.differences.map(({ rpc, field }) => [rpc, field]),
    [["ListImages", "images[]"]],
  );
});

test("replay() leaves out labels that no request had, and names them", async (t) => {
  const [run, create] = podCalls;
  const withLabels = (labels: object): RecordedCall => ({
    ...{ at: 140, ms: 5, rpc: "ListContainers", request: {} },
    response: { containers: [{ id: container, labels }] },
  });
  const config = { ...(create?.request?.["config"] as object), labels: { app: "a" } };
  const calls = [
    run,
    { ...create, request: { ...create?.request, config } },
    withLabels({ app: "a", maintainer: "x" }),
  ] as readonly RecordedCall[];
  const endpoint = server();
  const { ask } = endpoint;
  const listing = (labels: object): Server => ({
    ...endpoint,
    ask: (rpc, request) =>
      rpc === "ListContainers"
        ? Promise.resolve({ containers: [{ id: id("d"), labels }] })
        : ask(rpc, request),
  });
  const same = await play(t, listing({ app: "a" }), { calls });
  assert.deepEqual(same.report.differences, []);
  assert.deepEqual(same.replayed.imageLabels, ["maintainer"]);
  const other = await play(t, listing({ app: "b" }), { calls });
  assert.deepEqual(
    other.report.differences.map(({ field }) => field),
    ["containers[].labels[]"],
  );
});

test("replay() asks for a list that was answered as a stream, and leaves out the stream of events", async (t) => {
  const item = (letter: string): object => ({ id: id(letter), metadata: { name: "p" } });
  const calls: readonly RecordedCall[] = [
    ...podCalls.slice(0, 1),
    {
      ...{ at: 200, ms: 1, rpc: "StreamPodSandboxes", request: {} },
      responses: [{ pod_sandboxes: [item("9")] }, { pod_sandboxes: [item("a")] }],
    },
    { at: 210, ms: 1, rpc: "GetContainerEvents", request: {}, responses: [] },
  ];
  const endpoint = server();
  const { ask } = endpoint;
  const listing: Server = {
    ...endpoint,
    ask: (rpc, request) =>
      rpc === "ListPodSandbox" ? Promise.resolve({ items: [item("c")] }) : ask(rpc, request),
  };
  const { replayed, report } = await play(t, listing, { calls });
  assert.deepEqual(report.differences, []);
  assert.equal(report.rpcs["ListPodSandbox"]?.equal, 1);
  assert.deepEqual(replayed.notPlayed, { "GetContainerEvents is not played": 1 });
});
