/** One pod from its sandbox to its removal, through both versions of the CRI. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer, removeContainer } from "../support/docker.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";

describe("a pod's life", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  test("runtime.v1: each step is done when its call returns, and lists and statuses show it", async () => {
    const { cri } = bed.shim;
    await using pod = await bed.runPod(cri, { annotations: { "example.com/note": "kept" } });
    const sandbox = await pod.status();
    assert.equal(sandbox.state, PodSandboxState.SANDBOX_READY);
    assert.deepEqual(sandbox.metadata, pod.config.metadata);
    assert.deepEqual(sandbox.annotations, { "example.com/note": "kept" });
    assert.deepEqual(sandbox.labels, { [runLabel]: bed.run });
    assert.match(sandbox.network?.ip ?? "", /^\d+\.\d+\.\d+\.\d+$/);
    assert.ok(BigInt(sandbox.created_at) > 0n);

    const id = await pod.create({ annotations: { a: "b" } });
    const created = await pod.containerStatus(id);
    assert.equal(created.state, ContainerState.CONTAINER_CREATED);
    assert.deepEqual(created.metadata, { name: "main", attempt: 0 });
    assert.deepEqual(created.annotations, { a: "b" });
    assert.equal(created.log_path, join(String(pod.config.log_directory), "main.log"));
    await rejectsWith(
      cri.ExecSync({ container_id: id, cmd: ["true"], timeout: "5" }),
      "FAILED_PRECONDITION",
      /not running/,
    );

    await cri.StartContainer({ container_id: id });
    const running = await pod.containerStatus(id);
    assert.equal(running.state, ContainerState.CONTAINER_RUNNING);
    assert.ok(BigInt(running.started_at) >= BigInt(running.created_at));
    assert.equal(running.image?.image, bed.image);
    const listed = await cri.ListContainers({ filter: { pod_sandbox_id: pod.id } });
    assert.deepEqual(
      listed.containers.map((one) => [one.id, one.state, one.metadata?.name]),
      [[id, ContainerState.CONTAINER_RUNNING, "main"]],
    );

    const result = await pod.exec(id, "sh", "-c", "echo out; echo err >&2; exit 3");
    assert.deepEqual(result, { stdout: "out\n", stderr: "err\n", exitCode: 3 });

    await cri.UpdateContainerResources({
      container_id: id,
      linux: { memory_limit_in_bytes: String(64 << 20), cpu_shares: "512" },
    });
    const resources = (await pod.containerStatus(id)).resources?.linux;
    assert.equal(resources?.memory_limit_in_bytes, String(64 << 20));
    assert.equal(resources.cpu_shares, "512");

    await cri.StopContainer({ container_id: id, timeout: "10" });
    const stopped = await pod.containerStatus(id);
    assert.equal(stopped.state, ContainerState.CONTAINER_EXITED);
    assert.equal(stopped.exit_code, 0);
    assert.equal(stopped.reason, "Completed");
    assert.ok(BigInt(stopped.finished_at) >= BigInt(stopped.started_at));

    await cri.RemoveContainer({ container_id: id });
    await rejectsWith(cri.ContainerStatus({ container_id: id }), "NOT_FOUND");
    assert.deepEqual((await cri.ListContainers({ filter: { id } })).containers, []);

    await pod.stop();
    assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_NOTREADY);
    await pod.remove();
    await rejectsWith(cri.PodSandboxStatus({ pod_sandbox_id: pod.id }), "NOT_FOUND");
    assert.deepEqual((await cri.ListPodSandbox({ filter: { id: pod.id } })).items, []);
    assert.equal(await inspectContainer(pod.id), undefined);
    for (const part of ["sandbox", "pods", "containers"]) {
      assert.deepEqual(await readdir(join(bed.shim.stateDirectory, part)), [], part);
    }
  });

  test("names of the greatest length that are all underscores, which Kubernetes forbids, come back as they were given", async () => {
    const { cri } = bed.shim;
    const part = "_".repeat(253);
    const name = `${bed.newName()}${part}`.slice(0, 253);
    await using pod = await bed.runPod(cri, { metadata: { name, namespace: part, uid: part, attempt: 0 } });
    assert.deepEqual((await pod.status()).metadata, pod.config.metadata);
    const id = await pod.start({ metadata: { name: part, attempt: 2 }, log_path: "main.log" });
    assert.deepEqual((await pod.containerStatus(id)).metadata, { name: part, attempt: 2 });
    await pod.remove();
    for (const one of [pod.id, id]) assert.equal(await inspectContainer(one), undefined);
  });

  test("runtime.v1alpha2: the same pod through the older API, and both APIs see the same", async () => {
    const older = bed.shim.client("v1alpha2");
    assert.deepEqual(
      await older.Version({ version: "0.1.0" }),
      await bed.shim.cri.Version({ version: "v1" }),
    );
    await using pod = await bed.runPod(older);
    const id = await pod.start({ envs: [{ key: "GREETING", value: Buffer.from("hello") }] });
    assert.equal(await pod.shell(id, "echo $GREETING"), "hello");
    const { status } = await bed.shim.cri.ContainerStatus({ container_id: id });
    assert.equal(status?.state, ContainerState.CONTAINER_RUNNING);
    await older.StopContainer({ container_id: id, timeout: "10" });
    await older.RemoveContainer({ container_id: id });
    await rejectsWith(older.ContainerStatus({ container_id: id }), "NOT_FOUND");
    await rejectsWith(bed.shim.cri.ContainerStatus({ container_id: id }), "NOT_FOUND");
  });

  test("a container ends in its own way when its grace period is the largest of all", async () => {
    const { cri } = bed.shim;
    await using pod = await bed.runPod(cri);
    const id = await pod.start({
      annotations: { "io.kubernetes.pod.terminationGracePeriod": "9223372036854775807" },
      command: ["sh", "-c", "trap 'sleep 1; exit 7' TERM; while :; do sleep 0.1; done"],
    });
    await cri.StopContainer({ container_id: id, timeout: "9223372036854775807" });
    assert.equal((await pod.containerStatus(id)).exit_code, 7);
  });

  test("a command that does not exist fails StartContainer and shows why in the status", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const id = await pod.create({ command: ["/no/such/program"] });
    await rejectsWith(
      bed.shim.cri.StartContainer({ container_id: id }),
      "INVALID_ARGUMENT",
      /failed to start container/,
    );
    const status = await pod.containerStatus(id);
    assert.equal(status.state, ContainerState.CONTAINER_EXITED);
    assert.equal(status.reason, "ContainerCannotRun");
    assert.notEqual(status.exit_code, 0);
  });

  test("stops and removes succeed for five callers at once, and when the engine has lost the object", async () => {
    const { cri } = bed.shim;
    const five = (act: () => Promise<unknown>): Promise<unknown> =>
      Promise.all(Array.from({ length: 5 }, act));
    for (const isLost of [false, true]) {
      const pod = await bed.runPod(cri);
      const id = await pod.start({ command: ["sleep", "1000"] });
      if (isLost) for (const one of [id, pod.id]) await removeContainer(one);
      await five(() => cri.StopContainer({ container_id: id, timeout: "0" }));
      await five(() => cri.RemoveContainer({ container_id: id }));
      await five(() => pod.stop());
      await five(() => pod.remove());
      assert.deepEqual(await bed.ownContainers(), []);
      for (const part of ["sandbox", "pods", "containers"])
        assert.deepEqual(await readdir(join(bed.shim.stateDirectory, part)), [], part);
    }
  });
});
