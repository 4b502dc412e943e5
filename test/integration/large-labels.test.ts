/** Pods and images whose labels and annotations are as large as tenants can make them. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { removeImage } from "../support/docker.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

/** JSON makes six bytes of each character. */
const annotation = "\u0001".repeat(255 * 1024);
const megabyte = 1024 * 1024;

describe("labels and annotations of any size", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let shim: ShimProcess;
  const image = "dockershim.test/large-labels:1";
  before(() => {
    ({ shim } = bed);
  });
  after(() => assert.doesNotMatch(shim.log, /engine link broken|engine lost/));

  test("a pod with 255 KiB of annotations runs and has them, and the link stays as it was", async () => {
    await using pod = await bed.runPod(shim.cri, { annotations: { note: annotation } });
    await pod.start();
    assert.equal((await pod.status()).annotations["note"], annotation);
    await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
    assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_NOTREADY);
    assert.doesNotMatch(shim.log, /engine link broken/);
  });

  test("containers of an image with 6 MiB of labels run, are known by their pod, stopped and removed", async () => {
    const Labels = Object.fromEntries(
      Array.from({ length: 6 }, (_, number) => [`note-${String(number)}`, "x".repeat(megabyte)]),
    );
    await bed.load({ reference: image, marker: "large", config: { Labels } });
    const pod = await bed.runPod(shim.cri);
    const other = await bed.runPod(shim.cri);
    const hash = { "io.kubernetes.container.hash": "1234", other: "lost" };
    const id = await pod.start({ image: { image }, annotations: hash, labels: { app: "lost" } });
    const status = await pod.containerStatus(id);
    assert.equal(status.state, ContainerState.CONTAINER_RUNNING);
    assert.deepEqual(status.annotations, { "io.kubernetes.container.hash": "1234" });
    assert.match(shim.log, /container description too large/);
    // What a program that starts now sees, it has from the list.
    await shim.kill();
    shim = await bed.startShim({ directory: shim.socket.replace(/\/[^/]*$/, "") });
    const listed = await shim.cri.ListContainers({ filter: { pod_sandbox_id: pod.id } });
    assert.deepEqual(
      listed.containers.map((container) => [container.id, container.state]),
      [[id, ContainerState.CONTAINER_RUNNING]],
    );
    const { images } = await shim.cri.ListImages({});
    assert.ok(images.some(({ repo_tags }) => repo_tags.includes(image)));
    const found = await shim.cri.ImageStatus({ image: { image } });
    assert.deepEqual(found.image?.repo_tags, [image]);
    const run = await shim.cri.ExecSync({ container_id: id, cmd: ["echo", "x".repeat(1000)] });
    assert.equal(run.exit_code, 0);
    await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
    await shim.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
    assert.deepEqual((await shim.cri.ListContainers({ filter: { pod_sandbox_id: pod.id } })).containers, []);
    const { status: alive } = await shim.cri.PodSandboxStatus({ pod_sandbox_id: other.id });
    assert.equal(alive?.state, PodSandboxState.SANDBOX_READY);
    await shim.cri.RemoveImage({ image: { image } });
    assert.equal((await shim.cri.ImageStatus({ image: { image } })).image, null);
    await removeImage(image);
  });
});
