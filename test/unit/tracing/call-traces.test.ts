import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { describe, test } from "node:test";
import { Metadata } from "@grpc/grpc-js";
import { withDeadline } from "../../../src/lib/abort.js";
import type { Call } from "../../../src/lib/call.js";
import { ShimError } from "../../../src/lib/errors.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import type { WaitKind } from "../../../src/lib/waits.js";
import { openTraces } from "../../../src/shim/app/open-traces.js";
import type { EndedCall } from "../../../src/shim/ports/ended-calls.js";
import { CallTraces, type CallTracesOptions } from "../../../src/shim/tracing/call-traces.js";
import { configOf } from "../../fakes/config.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { until } from "../../fakes/turns.js";
import { startOtlpReceiver, treeOf, type OtlpReceiver } from "../../support/otlp-receiver.js";
import { json, startFakeDocker } from "../engine/fake-docker.js";
import { connectClient, startTestServer } from "../grpc/test-server.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const kubeletSpan = "b7ad6b7169203331";
const sampled = `00-${traceId}-${kubeletSpan}-01`;
const unsampled = `00-${traceId}-${kubeletSpan}-00`;

async function openTo(
  { port }: Pick<OtlpReceiver, "port">,
  options: Partial<CallTracesOptions> = {},
): Promise<{
  readonly traces: CallTraces;
  readonly log: ReturnType<typeof recordingLog>;
  [Symbol.asyncDispose](): Promise<void>;
}> {
  const log = recordingLog();
  const traces = await CallTraces.open({
    endpoint: `http://127.0.0.1:${port}`,
    samplingRatePerMillion: 0,
    resource: { "service.name": "dockershim" },
    methods: new Map([["StopContainer", "runtime.v1.RuntimeService/StopContainer"]]),
    log,
    delayMs: 1,
    ...options,
  });
  return { traces, log, [Symbol.asyncDispose]: () => traces.close() };
}

function ended(more: Partial<EndedCall> = {}): EndedCall {
  return {
    ...{ rpc: "StopContainer", code: "OK", startedAtMs: 1_700_000_000_000.25, startMs: 100, ms: 40 },
    ...{ subject: {}, spans: [], droppedSpans: 0, traceParent: sampled, traceId },
    ...more,
  };
}

function wait(what: string, kind: WaitKind, more: Partial<EndedCall["spans"][number]> = {}) {
  return { what, kind, startMs: 110, endMs: 120, children: [], ...more };
}

test("a kubelet's trace goes on into a call, its engine requests and plugins, as one tree", async () => {
  await using receiver = await startOtlpReceiver();
  await using docker = await startFakeDocker();
  const parents: (string | undefined)[] = [];
  docker.answers.set("POST /containers/create", (request, response, body) => {
    parents.push(request.headers["traceparent"]?.toString());
    json({ Id: "c1", Warnings: [] }, 201)(request, response, body);
  });
  const engine = await docker.engine();
  const lifetime = new Lifetime(recordingLog());
  const config = await configOf({ "otlp-endpoint": `127.0.0.1:${receiver.port}` });
  const traces = await openTraces(config, { version: "9.9", log: recordingLog() }, lifetime);
  assert.ok(traces);
  const handlers = {
    RunPodSandbox: async (_request: object, call: Call) => {
      await withDeadline(call.signal, 60_000, 'set up the network of pod "ns/web"', async (own) => {
        const action = 'CNI plugin "bridge" ADD for pod "ns/web"';
        await withDeadline(own, 60_000, action, () => Promise.resolve(), { kind: "plugin" });
        return engine.createContainer("k8s_web", { Image: "i", Labels: {}, HostConfig: {} }, own);
      });
      return { pod_sandbox_id: "c1" };
    },
  };
  const { traceIdOf } = traces;
  await using server = await startTestServer(handlers, { subscribers: [traces], traceIdOf });
  using kubelet = connectClient(server.path);
  const metadata = new Metadata();
  metadata.set("traceparent", sampled);
  await kubelet.call(
    "RunPodSandbox",
    { config: { metadata: { name: "web", namespace: "ns" } } },
    {},
    metadata,
  );
  await kubelet.call("RunPodSandbox", {});
  await lifetime.close();
  const { spans } = receiver;
  assert.deepEqual(treeOf(spans, kubeletSpan), [
    "runtime.v1.RuntimeService/RunPodSandbox (SERVER)",
    "  set up the network of pod (INTERNAL)",
    '    CNI plugin "bridge" ADD (INTERNAL)',
    "    create container (CLIENT)",
  ]);
  assert.equal(spans.length, 4, "a call without a trace is none");
  const create = spans.find(({ name }) => name === "create container");
  assert.deepEqual(parents, [`00-${traceId}-${create?.spanId ?? ""}-01`, undefined]);
  assert.deepEqual(new Set(spans.map((span) => span.traceId)), new Set([traceId]));
  const [root] = spans.filter(({ parentSpanId }) => parentSpanId === kubeletSpan);
  assert.deepEqual(root?.attributes, {
    "rpc.system.name": "grpc",
    "rpc.method": "runtime.v1.RuntimeService/RunPodSandbox",
    "rpc.response.status_code": "OK",
    "k8s.namespace.name": "ns",
    "k8s.pod.name": "web",
  });
  assert.equal(root.resource["service.name"], "dockershim");
  assert.equal(root.resource["service.version"], "9.9");
});

describe("CallTraces", () => {
  test("spans have the times, errors and names of the waits, and fail as otelgrpc's do", async () => {
    await using receiver = await startOtlpReceiver();
    await using bed = await openTo(receiver);
    const inner = wait("run iptables", "program", { startMs: 112, endMs: 113.5 });
    const first = wait('the lock of "k8s_x"', "lock", { children: [inner] });
    const second = wait('stop container "a\\"b"', "engine", { error: "no such container" });
    const third = wait(`the state of container ${"0f".repeat(32)}`, "wait");
    const failure = { code: "DEADLINE_EXCEEDED", message: "too late", droppedSpans: 3 };
    bed.traces.callEnded(ended({ ...failure, spans: [first, second, third] }));
    bed.traces.callEnded(ended({ code: "NOT_FOUND", message: "no such container" }));
    const spans = await receiver.received(6);
    const startedAt = 1_700_000_000_000_250_000n;
    const found = spans.map(({ name, startNanoseconds, endNanoseconds, error }) => [
      name,
      Number(startNanoseconds - startedAt) / 1e6,
      Number(endNanoseconds - startedAt) / 1e6,
      error ?? "",
    ]);
    assert.deepEqual(found.toSorted(), [
      ["lock", 10, 20, ""],
      ["run iptables", 12, 13.5, ""],
      ["runtime.v1.RuntimeService/StopContainer", 0, 40, ""],
      ["runtime.v1.RuntimeService/StopContainer", 0, 40, "too late"],
      ["stop container", 10, 20, "no such container"],
      ["the state of container", 10, 20, ""],
    ]);
    const byName = new Map(spans.map((span) => [span.name, span]));
    assert.equal(byName.get("stop container")?.attributes["dockershim.wait"], 'stop container "a\\"b"');
    const late = spans.find(({ error }) => error === "too late");
    assert.equal(late?.attributes["dockershim.dropped_spans"], "3");
  });

  test("the caller's decision counts; without a trace of the caller the rate does", async () => {
    for (const [samplingRatePerMillion, traceParent, count] of [
      [0, sampled, 1],
      [1_000_000, unsampled, 0],
      [0, undefined, 0],
      [1_000_000, undefined, 1],
      [1_000_000, `00-${"0".repeat(32)}-${kubeletSpan}-01`, 1],
    ] as const) {
      await using receiver = await startOtlpReceiver();
      await using bed = await openTo(receiver, { samplingRatePerMillion });
      const { traceParent: _parent, traceId: _trace, ...call } = ended();
      const its = bed.traces.traceIdOf(traceParent);
      bed.traces.callEnded({
        ...call,
        ...(traceParent === undefined ? {} : { traceParent }),
        ...(its === undefined ? {} : { traceId: its }),
      });
      await bed.traces.close();
      const traces = receiver.spans.map((span) => span.traceId);
      assert.deepEqual(
        traces,
        its === undefined ? [] : [its],
        `${samplingRatePerMillion} ${traceParent ?? "none"}`,
      );
      assert.equal(traces.length, count);
      assert.deepEqual(bed.traces.counts, { exported: count, dropped: 0 });
    }
  });

  test("a receiver that refuses costs spans, which are counted, and one line of the log", async () => {
    await using receiver = await startOtlpReceiver();
    await using bed = await openTo(receiver);
    receiver.refuse();
    for (const expected of [2, 4, 6]) {
      bed.traces.callEnded(ended({ spans: [wait("x", "wait")] }));
      await until("the spans are dropped", () => bed.traces.counts.dropped === expected);
    }
    receiver.accept();
    bed.traces.callEnded(ended());
    await until("a span is exported", () => bed.traces.counts.exported === 1);
    assert.deepEqual(
      bed.log.lines.map(({ level, message }) => [level, message]),
      [
        ["warn", "spans cannot be exported and are dropped"],
        ["info", "spans are exported again"],
      ],
    );
  });

  test("a receiver that is silent costs no more memory than the backlog, and a second at the end", async () => {
    const connections: Socket[] = [];
    const silent = createServer((socket) => connections.push(socket));
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const bed = await openTo({ port }, { largestBacklog: 5 });
    const call = ended({ spans: [wait("x", "wait"), wait("y", "wait")] });
    for (let index = 0; index < 10; index += 1) bed.traces.callEnded(call);
    assert.deepEqual(bed.traces.counts, { exported: 0, dropped: 27 }, "whole traces, of which one fits");
    await bed.traces.close();
    silent.close();
    for (const socket of connections) socket.destroy();
  });
});

test("close() gives up a connection that nothing answers", async () => {
  const script = `require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, function () {
    console.log(this.address().port); });`;
  const listener = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const fillers: Socket[] = [];
  try {
    const [printed] = (await once(listener.stdout, "data")) as [Buffer];
    const port = Number(printed);
    listener.kill("SIGSTOP");
    // The kernel takes as many for the listener.
    for (let index = 0; index < 2; index += 1) {
      const filler = connect(port, "127.0.0.1");
      fillers.push(filler);
      await once(filler, "connect");
    }
    const remote = `:${port.toString(16).toUpperCase().padStart(4, "0")} 02 `;
    const isConnecting = (): boolean => readFileSync("/proc/self/net/tcp", "utf8").includes(remote);
    const bed = await openTo({ port });
    bed.traces.callEnded(ended());
    await until("the connection is begun", isConnecting);
    await bed.traces.close();
    await until("no connection is pending", () => !isConnecting());
    // The process would wait for it.
    await until("nothing is being sent", () => bed.traces.counts.dropped === 1);
    assert.ok(bed.log.linesAt("warn").some(({ fields }) => /closed/i.test(String(fields["err"]))));
  } finally {
    for (const filler of fillers) filler.destroy();
    listener.kill("SIGKILL");
  }
});

test("openTraces() opens nothing unless an endpoint is given", async () => {
  const log = recordingLog();
  assert.equal(await openTraces(await configOf({}), { version: "1", log }, new Lifetime(log)), undefined);
});

test("--otlp-endpoint is host and port as in a kubelet's configuration, or a URL", async () => {
  for (const [text, expected] of [
    ["localhost:4317", { scheme: "http", host: "localhost", port: 4317 }],
    ["collector.monitoring", { scheme: "http", host: "collector.monitoring", port: 4317 }],
    ["http://[::1]:1/", { scheme: "http", host: "::1", port: 1 }],
    ["https://otlp.example", { scheme: "https", host: "otlp.example", port: 4317 }],
  ] as const)
    assert.deepEqual((await configOf({ "otlp-endpoint": text })).otlpEndpoint, expected);
  for (const text of [
    "https://a/v1/traces",
    "https://user:secret@a",
    "grpc://a:1",
    "a:0",
    "a:80",
    ":4317",
    "a b",
  ])
    await assert.rejects(configOf({ "otlp-endpoint": text }), (error) => {
      assert.ok(
        error instanceof ShimError && error.kind === "invalid" && error.message.includes("otlp-endpoint"),
      );
      return true;
    });
});
