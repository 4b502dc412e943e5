import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { markOf } from "../../../../src/lib/linux/process-mark.js";
import { rejectsWith } from "../../../support/refusals.js";
import { TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const location = "/var/lib/kubelet/checkpoints/checkpoint-web.tar";

const start = (): Promise<TestShim> => TestShim.start();

const checkpoint = (shim: TestShim, id: string, timeout = "0", call = shim.call()): Promise<unknown> =>
  shim.rpcs.CheckpointContainer({ container_id: id, location, timeout }, call);

/** Kubernetes' test of the node compares the whole text. */
const notImplemented = /^method CheckpointContainer not implemented$/;

function reasonIn(shim: TestShim): string {
  return String(shim.log.lines.find(({ message }) => /cannot checkpoint/.test(message))?.fields["err"]);
}

describe("checkpointContainer()", () => {
  test("has the node write it, and says in the archive which container of which pod it was", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    assert.deepEqual(await checkpoint(shim, id), {});
    assert.deepEqual(shim.world.journal.argsOf("host.archiveCheckpoint"), [[id, location]]);
    const content = shim.world.host.checkpointArchives.get(location);
    assert.ok(content !== undefined);
    const { checkpointedTime, createdTime, ...config } = content.config;
    const rootfsImageRef = shim.engine.images.find("busybox:latest")?.id;
    assert.deepEqual(config, {
      ...{ id, name: "main", runtime: "runc", restoredTime: "0001-01-01T00:00:00Z", restored: false },
      ...{ rootfsImage: "busybox:latest", rootfsImageRef, rootfsImageName: "busybox:latest" },
    });
    for (const time of [checkpointedTime, createdTime]) assert.ok(!Number.isNaN(Date.parse(String(time))));
    assert.deepEqual(content.annotations, {
      "io.kubernetes.cri.container-type": "container",
      "io.kubernetes.cri.container-name": "main",
      "io.kubernetes.cri.image-name": "busybox",
      "io.kubernetes.cri.sandbox-id": sandbox,
      "io.kubernetes.cri.sandbox-name": "web",
      "io.kubernetes.cri.sandbox-namespace": "default",
      "io.kubernetes.cri.sandbox-uid": "uid-1",
    });
  });

  // As runc 1.1 and 1.3 say it.
  const noCriu =
    'runc checkpoint: CRIU version check failed: exec: "criu": executable file not found in $PATH';
  for (const [what, kind, said, message, reason] of [
    [
      "without CRIU",
      "unknown",
      noCriu,
      /^CRIU binary not found or too old \(<31600\)\. Failed to checkpoint container "[0-9a-f]{64}"$/,
      /exec: "criu": executable file not found/,
    ],
    [
      "with the OCI runtime out of reach",
      "unsupported",
      'no program "runc" here',
      notImplemented,
      /no program "runc" here/,
    ],
    ["for what it cannot do", "unknown", "type DUMP", /^checkpoint container ".*": .*type DUMP/, /undefined/],
  ] as const) {
    test(`is ${kind} ${what}, in the words of other runtimes, and leaves no archive`, async () => {
      await using shim = await start();
      const id = await shim.runContainer();
      shim.world.journal.failNext("host.archiveCheckpoint", new ShimError(kind, said));
      await rejectsWith(checkpoint(shim, id), kind, message);
      assert.match(reasonIn(shim), reason);
      assert.equal(shim.world.host.checkpointArchives.size, 0);
    });
  }

  test("refuses a container that does not run, and unknown ids", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    const message = /it is created/;
    await rejectsWith(checkpoint(shim, await shim.createContainer(sandbox)), "precondition", message);
    for (const id of [sandbox, "f".repeat(64)]) await rejectsWith(checkpoint(shim, id), "notFound");
  });

  test("is on record while CRIU is at work, for the next process, and not afterwards", async () => {
    await using shim = await start();
    const id = await shim.runContainer();
    const { containers } = shim.services.records;
    const seen: unknown[] = [];
    shim.world.host.archiveCheckpoint = () => {
      seen.push(containers.get(id)?.checkpoint);
      return seen.length === 1 ? Promise.resolve() : Promise.reject(new Error("no criu"));
    };
    const { startTime } = markOf(process.pid) ?? {};
    const noted = { location, server: { pid: process.pid, startTime } };
    await checkpoint(shim, id);
    assert.deepEqual([seen, containers.get(id)], [[noted], undefined]);
    await containers.merge(id, { unified: { "memory.high": "1" } });
    await rejectsWith(checkpoint(shim, id), "internal");
    assert.deepEqual(seen[1], noted);
    const { checkpoint: left, cgroup } = containers.get(id) ?? {};
    assert.deepEqual([left, cgroup?.unified], [undefined, { "memory.high": "1" }]);
  });

  test("ends with its caller, and after its timeout, while CRIU is at work", async () => {
    await using shim = await start();
    const id = await shim.runContainer();
    let asked: object = {};
    shim.world.host.archiveCheckpoint = (_container, _location, _content, limits) => {
      asked = limits;
      return new Promise((_, reject) => {
        limits.signal.addEventListener("abort", () => {
          reject(ShimError.from(limits.signal.reason));
        });
      });
    };
    const call = shim.call();
    const pending = checkpoint(shim, id, "100", call);
    await until("CRIU is at work", () => "timeoutMs" in asked && asked.timeoutMs === 100_000);
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(pending, "cancelled");
    await rejectsWith(checkpoint(shim, id, "1"), "timeout", /not finished after 1s/);
  });
});
