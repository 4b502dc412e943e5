import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { nodeFacts } from "../../../fakes/node-facts.js";
import { createContainer, rejectsWith, runContainer, runSandbox } from "../../../fakes/pods.js";
import { TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const location = "/var/lib/kubelet/checkpoints/checkpoint-web.tar";

function start({ experimental = true } = {}): Promise<TestShim> {
  return TestShim.start({
    prepare: ({ engine }) => {
      engine.facts = nodeFacts({ experimental });
    },
  });
}

const checkpoint = (shim: TestShim, id: string, timeout = "0", call = shim.call()): Promise<unknown> =>
  shim.rpcs.CheckpointContainer({ container_id: id, location, timeout }, call);

/** Kubernetes' test of the node compares the whole text. */
const notImplemented = /^method CheckpointContainer not implemented$/;

function reasonIn(shim: TestShim): string {
  return String(shim.log.lines.find(({ message }) => /cannot checkpoint/.test(message))?.fields["err"]);
}

describe("checkpointContainer()", () => {
  test("has the engine write it, and says in the archive which container of which pod it was", async () => {
    await using shim = await start();
    const sandbox = await runSandbox(shim);
    const id = await runContainer(shim, sandbox);
    assert.deepEqual(await checkpoint(shim, id), {});
    assert.deepEqual(shim.world.journal.argsOf("engine.createCheckpoint"), [
      [id, { checkpointId: "images", directory: "/tmp/checkpoint" }],
    ]);
    const content = shim.world.host.checkpointArchives.get(location);
    assert.equal(content?.images, "/tmp/checkpoint/images");
    const { checkpointedTime, createdTime, ...config } = content.config;
    assert.deepEqual(config, {
      id,
      name: "main",
      rootfsImage: "busybox:latest",
      rootfsImageRef: shim.engine.images.find("busybox:latest")?.id,
      rootfsImageName: "busybox:latest",
      runtime: "runc",
      restoredTime: "0001-01-01T00:00:00Z",
      restored: false,
    });
    assert.ok(!Number.isNaN(Date.parse(String(checkpointedTime))));
    assert.ok(!Number.isNaN(Date.parse(String(createdTime))));
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

  test("is unsupported without experimental mode, and asks the engine nothing", async () => {
    await using shim = await start({ experimental: false });
    const id = await runContainer(shim, await runSandbox(shim));
    await rejectsWith(checkpoint(shim, id), "unsupported", notImplemented);
    assert.match(reasonIn(shim), /not in experimental mode/);
    assert.deepEqual(shim.world.journal.names("engine.createCheckpoint"), []);
  });

  // As Docker 20.10 and 28.5 say it.
  const noCriu =
    'Cannot checkpoint container x: runc did not terminate successfully: exit status 1: CRIU version check failed: exec: "criu": executable file not found in $PATH';
  for (const [what, error, kind, message, reason] of [
    [
      "without CRIU",
      new ShimError("unknown", noCriu),
      "unknown",
      /^CRIU binary not found or too old \(<31600\)\. Failed to checkpoint container "[0-9a-f]{64}"$/,
      /exec: "criu": executable file not found/,
    ],
    [
      "with other file systems mounted",
      new ShimError("unsupported", "the Docker Engine wrote it elsewhere"),
      "unsupported",
      notImplemented,
      /wrote it elsewhere/,
    ],
    [
      "for what CRIU cannot do",
      new ShimError("unknown", "criu failed: type DUMP errno 0"),
      "unknown",
      /^checkpoint container ".*": .*type DUMP/,
      /undefined/,
    ],
  ] as const) {
    test(`is ${kind} ${what}, in the words of other runtimes, and leaves no archive`, async () => {
      await using shim = await start();
      const id = await runContainer(shim, await runSandbox(shim));
      shim.engine.failNext("createCheckpoint", error);
      await rejectsWith(checkpoint(shim, id), kind, message);
      assert.match(reasonIn(shim), reason);
      assert.equal(shim.world.host.checkpointArchives.size, 0);
    });
  }

  test("refuses a container that does not run, and unknown ids", async () => {
    await using shim = await start();
    const sandbox = await runSandbox(shim);
    const message = /it is created/;
    await rejectsWith(checkpoint(shim, await createContainer(shim, sandbox)), "precondition", message);
    for (const id of [sandbox, "f".repeat(64)]) await rejectsWith(checkpoint(shim, id), "notFound");
  });

  test("ends with its caller while the engine is at work", async () => {
    await using shim = await start();
    const id = await runContainer(shim, await runSandbox(shim));
    shim.engine.hangs = (verb) => verb === "createCheckpoint";
    const call = shim.call();
    const pending = checkpoint(shim, id, "100", call);
    await until("the engine is asked", () => shim.world.journal.names("engine.createCheckpoint").length > 0);
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(pending, "cancelled");
  });

  test("ends after the caller's timeout", async () => {
    await using shim = await start();
    const id = await runContainer(shim, await runSandbox(shim));
    shim.engine.hangs = (verb) => verb === "createCheckpoint";
    await rejectsWith(checkpoint(shim, id, "1"), "timeout", /not finished after 1s/);
  });
});
