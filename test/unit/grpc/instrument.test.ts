import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Metadata } from "@grpc/grpc-js";
import { sleep, withDeadline } from "../../../src/lib/abort.js";
import type { Call } from "../../../src/lib/call.js";
import { ShimError } from "../../../src/lib/errors.js";
import type { EndedCall } from "../../../src/shim/ports/ended-calls.js";
import type { Observation } from "../../../src/shim/grpc/instrument.js";
import { ofImage } from "../../../src/shim/grpc/request-subject.js";
import type { LogRecord } from "./recording-logger.js";
import { until } from "../../support/wait.js";
import { connectClient, startTestServer, type Message } from "./test-server.js";

/** The log lines of a call, without times. */
async function logOf(rpc: string, request: Message, error?: Error, answer = {}): Promise<LogRecord[]> {
  const handler = (): Promise<object> =>
    error === undefined ? Promise.resolve(answer) : Promise.reject(error);
  await using server = await startTestServer({ [rpc]: handler });
  using client = connectClient(server.path);
  await client.call(rpc, request).catch(() => undefined);
  return server.records
    .filter((record) => "rpc" in record)
    .map((record) => {
      if ("ms" in record) assert.equal(typeof record["ms"], "number");
      return Object.fromEntries(
        Object.entries(record).filter(([key]) => key !== "ms" && key !== "stack"),
      ) as LogRecord;
    });
}

const config = {
  metadata: { name: "web", namespace: "default", uid: "u", attempt: 0 },
  labels: { secret: "s3cret" },
};

describe("the log of a call", () => {
  const secret = Buffer.from("s3cret");
  const created = {
    pod_sandbox_id: "s1",
    sandbox_config: config,
    config: { metadata: { name: "app" }, image: { image: "nginx" }, envs: [{ key: "k", value: secret }] },
  };
  const pod = "default/web";
  /** The level, and what the lines say beyond RPC and number. */
  type Row = readonly [rpc: string, request: Message, answer: object, level: string, subject: object];
  const rows: readonly Row[] = [
    ["RunPodSandbox", { config }, {}, "info", { pod }],
    ["ContainerStatus", { container_id: "c1" }, {}, "debug", { containerId: "c1" }],
    ["CreateContainer", created, {}, "info", { pod, sandboxId: "s1", container: "app" }],
    // The URL of a session is a secret, and so are command and output.
    ["Exec", { container_id: "c1", cmd: ["s3cret"] }, { url: "/exec/s3cret" }, "info", { containerId: "c1" }],
    ["ExecSync", { container_id: "c1", cmd: ["s3cret"] }, { stdout: secret }, "debug", { containerId: "c1" }],
  ];
  for (const [rpc, request, answer, level, subject] of rows) {
    test(`has ${rpc} at ${level}, entry and exit, with its subject and nothing else`, async () => {
      assert.deepEqual(await logOf(rpc, request, undefined, answer), [
        { rpc, req: 1, ...subject, level, msg: "started" },
        { rpc, req: 1, ...subject, code: "OK", level, msg: "answered" },
      ]);
    });
  }

  test("has images without credentials", () => {
    for (const [image, shown] of [
      ["u:s3cret@r:5/a@sha256:00", "(removed)@r:5/a@sha256:00"],
      ["a@sha256:00", "a@sha256:00"],
    ] as const)
      assert.deepEqual(ofImage({ image: { image } }), { image: shown });
  });

  const failures: readonly (readonly [rpc: string, error: Error, level: string, code: string])[] = [
    ["RunPodSandbox", new ShimError("conflict", "taken", { sandboxId: "s2" }), "warn", "ALREADY_EXISTS"],
    ["ContainerStatus", new ShimError("notFound", "none"), "debug", "NOT_FOUND"],
    ["StartContainer", new ShimError("notFound", "none"), "warn", "NOT_FOUND"],
    ["StartContainer", new TypeError("x is not a function"), "error", "INTERNAL"],
    ["StartContainer", new ShimError("unavailable", "engine is away"), "warn", "UNAVAILABLE"],
    ["ListContainers", new ShimError("unavailable", "engine is away"), "debug", "UNAVAILABLE"],
    ["StartContainer", new ShimError("cancelled", "left"), "info", "CANCELLED"],
  ];
  for (const [rpc, error, level, code] of failures) {
    test(`has ${rpc} that ends in ${code} at ${level}`, async () => {
      const [, line] = await logOf(rpc, {}, error);
      assert.deepEqual([line?.level, line?.["code"], line?.["err"]], [level, code, error.message]);
      if (error instanceof ShimError && "sandboxId" in error.fields) assert.equal(line?.["sandboxId"], "s2");
    });
  }

  test("has the stack of a bug", async () => {
    const bug = new TypeError("x is not a function");
    await using server = await startTestServer({ Version: () => Promise.reject(bug) });
    using client = connectClient(server.path);
    await assert.rejects(client.call("Version", {}));
    assert.equal(server.records.find(({ level }) => level === "error")?.["stack"], bug.stack);
  });
});

describe("observe", () => {
  test("hears of every call, also of those that fail or have no handler", async () => {
    const observed: Observation[] = [];
    await using server = await startTestServer(
      { Version: () => Promise.resolve({}), Status: () => Promise.reject(new ShimError("timeout", "late")) },
      { observe: (observation) => observed.push(observation) },
    );
    using client = connectClient(server.path);
    for (const rpc of ["Version", "Status", "Attach"]) await client.call(rpc, {}).catch(() => undefined);
    const seen = observed.map(({ rpc, code }) => `${rpc} ${code}`);
    assert.deepEqual(seen, ["Version OK", "Status DEADLINE_EXCEEDED", "Attach UNIMPLEMENTED"]);
    assert.ok(observed.every(({ ms }) => ms >= 0));
  });

  test("may fail without harm to the call", async () => {
    const observe = (): void => {
      throw new Error("metrics are broken");
    };
    const handlers = { Version: () => Promise.resolve({ version: "1" }) };
    await using server = await startTestServer(handlers, { observe });
    using client = connectClient(server.path);
    assert.equal((await client.call("Version", {}))["version"], "1");
  });
});

describe("subscribers of ended calls", () => {
  const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

  test("hear of calls that change something and of exec probes, with subject, waits and trace context", async () => {
    const calls: EndedCall[] = [];
    const handlers = {
      StopContainer: async (_request: object, call: Call) => {
        if (call.subject !== undefined) call.subject.podUid = "u";
        const refuse = (): Promise<object> => Promise.reject(new ShimError("conflict", "not now"));
        return withDeadline(call.signal, 60_000, "stop it", refuse, { kind: "engine" });
      },
      ExecSync: () => Promise.resolve({}),
      Version: () => Promise.resolve({}),
    };
    await using server = await startTestServer(handlers, {
      subscribers: [{ callEnded: (call) => calls.push(call) }],
    });
    using client = connectClient(server.path);
    const metadata = new Metadata();
    metadata.set("traceparent", traceParent);
    await assert.rejects(client.call("StopContainer", { container_id: "c1" }, {}, metadata));
    metadata.set("traceparent", "00-not-a-trace");
    await client.call("ExecSync", { container_id: "c2" }, {}, metadata);
    await client.call("Version", {});
    assert.deepEqual(
      calls.map(({ rpc, code, message, subject, traceParent: parent }) => [
        rpc,
        code,
        message,
        subject,
        parent,
      ]),
      [
        ["StopContainer", "ALREADY_EXISTS", "not now", { containerId: "c1", podUid: "u" }, traceParent],
        ["ExecSync", "OK", undefined, { containerId: "c2" }, undefined],
      ],
    );
    const [stop] = calls;
    assert.deepEqual(
      stop?.spans.map(({ what, kind, error, children }) => [what, kind, error, children]),
      [["stop it", "engine", "not now", []]],
    );
    assert.ok(stop.ms >= 0 && stop.startedAtMs > 1.7e12 && stop.droppedSpans === 0);
  });

  test("hear neither secrets of registries nor commands of exec probes, which errors name", async () => {
    const calls: EndedCall[] = [];
    const failing = (words: string) => (_request: object, call: Call) =>
      withDeadline(call.signal, 60_000, "ask the engine", () =>
        Promise.reject(new ShimError("unknown", words)),
      );
    const handlers = {
      ExecSync: failing('exec: "s3cret": executable file not found'),
      StartContainer: failing('Get "https://user:s3cret@registry/v2/": Authorization: Bearer s3cret.token'),
    };
    await using server = await startTestServer(handlers, {
      subscribers: [{ callEnded: (call) => calls.push(call) }],
    });
    using client = connectClient(server.path);
    for (const rpc of ["ExecSync", "StartContainer"]) await assert.rejects(client.call(rpc, {}), /s3cret/);
    assert.doesNotMatch(JSON.stringify(calls), /s3cret/);
    const [exec, other] = calls;
    assert.deepEqual([exec?.message, exec?.spans[0]?.error], [undefined, "failed"]);
    assert.match(other?.message ?? "", /^Get "https:/);
  });

  test("may fail without harm to the call, and without them nothing is traced", async () => {
    const subjects: unknown[] = [];
    const handlers = {
      StopContainer: (_request: object, call: Call) => {
        subjects.push(call.subject);
        return Promise.resolve({});
      },
    };
    const broken = {
      callEnded: () => {
        throw new Error("the journal is broken");
      },
    };
    for (const subscribers of [[broken], []]) {
      await using server = await startTestServer(handlers, { subscribers });
      using client = connectClient(server.path);
      await client.call("StopContainer", { container_id: "c1" });
      const errors = server.records.filter(({ level }) => level === "error").map(({ err }) => err);
      assert.deepEqual(
        errors,
        subscribers.map(() => "the journal is broken"),
      );
    }
    assert.deepEqual(subjects, [{ containerId: "c1" }, undefined]);
  });
});

describe("a call that takes long", () => {
  const start = async (_request: object, call: Call): Promise<object> => {
    await withDeadline(call.signal, 60_000, 'start container "x"', (signal) => sleep(60_000, signal));
    return {};
  };
  const wait = /^start container "x" \(\d+ m?s\)$/;

  test("is logged once with what it waits for, and told to verbose Status", async () => {
    let underWay: ReturnType<NonNullable<Call["underWay"]>> | undefined;
    const handlers = {
      StartContainer: start,
      Status: (_request: object, call: Call) => {
        underWay = call.underWay?.();
        return Promise.resolve({});
      },
    };
    await using server = await startTestServer(handlers, { slowMs: 3 });
    using client = connectClient(server.path);
    const slow = client.start("StartContainer", { container_id: "c1" });
    const lines = (): readonly LogRecord[] => server.records.filter(({ msg }) => msg === "call is slow");
    await until("the call to be slow", () => Promise.resolve(lines().length > 0));
    await client.call("Status", {});
    const [oldest] = underWay ?? [];
    assert.equal(oldest?.rpc, "StartContainer");
    assert.match(oldest.waitsFor.join(), wait);
    slow.cancel();
    await assert.rejects(slow.answer);
    await until("the call to end", () =>
      Promise.resolve(server.records.some(({ msg }) => msg === "cancelled")),
    );
    assert.deepEqual(
      lines().map(({ level, containerId }) => [level, containerId]),
      [["warn", "c1"]],
    );
    assert.match((lines()[0]?.["waitsFor"] as string[]).join(), wait);
  });

  test("ends with what it waited for when the deadline of its caller passes", async () => {
    await using server = await startTestServer({ StartContainer: start });
    using client = connectClient(server.path);
    await assert.rejects(client.call("StartContainer", {}, { deadline: Date.now() + 100 }));
    const failed = (): LogRecord | undefined => server.records.find(({ msg }) => msg === "failed");
    await until("the call to end", () => Promise.resolve(failed() !== undefined));
    assert.equal(failed()?.["code"], "DEADLINE_EXCEEDED");
    assert.match(
      String(failed()?.["err"]),
      /^StartContainer: the deadline of the caller has passed; it waited for: start container "x" \(\d+ ms\)$/,
    );
  });
});
