import assert from "node:assert/strict";
import { test } from "node:test";
import type { RecordedCall } from "../../../../src/compare/record/recording.js";
import {
  answering,
  container,
  fieldsOf,
  id,
  play,
  pod,
  podCalls,
  type Server,
  server,
} from "./replay-bed.js";

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
  const withUrls: Server = {
    ...endpoint,
    ask: async (rpc, request) => ({ ...(await endpoint.ask(rpc, request)), url: "http://127.0.0.1:2/x" }),
  };
  const failing = answering(withUrls, { Attach: { error: { code: 2, message: "no" } } });
  const { replayed, report } = await play(t, failing, { calls });
  const found = othersAsked(endpoint).filter(([rpc]) => rpc !== "ImageStatus");
  assert.deepEqual(found, [
    ["Exec", { container_id: id("d"), cmd: ["sh"] }],
    ["PortForward", { pod_sandbox_id: id("c") }],
    ["RuntimeConfig", {}],
  ]);
  assert.deepEqual(fieldsOf(report), ["Attach error"]);
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

for (const [what, { lines, removed, notPlayed, failedLists }] of [
  [
    "only images that it has pulled itself",
    {
      lines: ["PullImage new", "PullImage old", "RemoveImage old", "RemoveImage absent", "RemoveImage n"],
      removed: ["n"],
      notPlayed: 2,
      failedLists: 0,
    },
  ],
  [
    "no image that it may not have pulled, because the list before the pull failed",
    {
      lines: ["PullImage old", "RemoveImage old", "PullImage other", "RemoveImage other"],
      removed: ["other"],
      notPlayed: 1,
      failedLists: 1,
    },
  ],
] as const)
  test(`replay() removes ${what}`, async (t) => {
    const calls = lines.map((line, index): RecordedCall => {
      const [rpc = "", image] = line.split(" ");
      return { at: index * 10, ms: 1, rpc, request: { image: { image } }, response: {} };
    });
    const endpoint = imageServer(["old"]);
    let lists = 0;
    const failing: Server = {
      ...endpoint,
      ask: (rpc, request) =>
        rpc === "ListImages" && ++lists <= failedLists
          ? Promise.resolve({ error: { code: 2, message: "busy" } })
          : endpoint.ask(rpc, request),
    };
    const { replayed } = await play(t, failing, { calls });
    assert.deepEqual(
      endpoint.asked.filter(([rpc]) => rpc === "RemoveImage").map(([, request]) => request),
      removed.map((image) => ({ image: { image } })),
    );
    const reason = "RemoveImage of an image that the replay has not pulled";
    assert.deepEqual(replayed.notPlayed, { [reason]: notPlayed });
  });

test("replay() compares lists of images by those that recorded containers use", async (t) => {
  const image = { id: id("1"), repo_tags: ["busybox:1"], size: "5" };
  const listed: RecordedCall = {
    ...{ at: 300, ms: 1, rpc: "ListImages", request: {} },
    response: { images: [image, { id: id("2"), repo_tags: ["other"] }] },
  };
  const withImages = (images: readonly object[]): Server => answering(server(), { ListImages: { images } });
  const calls = [...podCalls.slice(0, 3), listed];
  const same = await play(t, withImages([{ ...image, size: "6", repo_tags: ["x"] }]), { calls });
  assert.deepEqual(same.report.differences, []);
  const missing = await play(t, withImages([{ id: id("3") }]), { calls });
  assert.deepEqual(fieldsOf(missing.report), ["ListImages images[]"]);
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
  const listing = (labels: object): Server =>
    answering(server(), { ListContainers: { containers: [{ id: id("d"), labels }] } });
  const same = await play(t, listing({ app: "a" }), { calls });
  assert.deepEqual(same.report.differences, []);
  assert.deepEqual(same.replayed.imageLabels, ["maintainer"]);
  const other = await play(t, listing({ app: "b" }), { calls });
  assert.deepEqual(fieldsOf(other.report), ["ListContainers containers[].labels[]"]);
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
  const listing = answering(server(), { ListPodSandbox: { items: [item("c")] } });
  const { replayed, report } = await play(t, listing, { calls });
  assert.deepEqual(report.differences, []);
  assert.equal(report.rpcs["ListPodSandbox"]?.equal, 1);
  assert.deepEqual(replayed.notPlayed, { "GetContainerEvents is not played": 1 });
});
