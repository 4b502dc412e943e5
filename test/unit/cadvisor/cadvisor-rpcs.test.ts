import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cadvisorRpcs } from "../../../src/shim/cadvisor/cadvisor-rpcs.js";
import type { ContainerResponse, TaskResponse } from "../../../src/shim/cadvisor/describe-container.js";
import type { ValidContainerConfig } from "../../../src/domain/requests.js";
import { ShimError } from "../../../src/lib/errors.js";
import { rejectsWith } from "../../support/refusals.js";
import { imageSpec, runRequest } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";
import { containerSnapshot, idOf, sandboxSnapshot, type SnapshotChanges } from "../../fakes/snapshots.js";
import { turns, until } from "../../fakes/turns.js";

const kubelet = {
  "io.kubernetes.pod.name": "web",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": "uid-1",
};

function asked(shim: TestShim) {
  const rpcs = cadvisorRpcs({ ...shim.services, version: "1.2.3" });
  const ask = (rpc: string, request: object): Promise<unknown> => {
    const found = rpcs.get(rpc);
    assert.ok(found);
    return found.handle(request, shim.call(rpc), () => Promise.resolve());
  };
  return {
    version: () => ask("GetVersion", {}),
    container: async (id: string) => ((await ask("GetContainer", { id })) as ContainerResponse).container,
    task: async (id: string, exec_id = "") =>
      ((await ask("GetTask", { container_id: id, exec_id })) as TaskResponse).process,
  };
}

/** Of a kubelet: by the image's id, with the name beside it when the kubelet is new enough. */
function kubeletImage(shim: TestShim, user_specified_image: string): Pick<ValidContainerConfig, "image"> {
  const id = shim.engine.images.find("busybox:latest")?.id ?? "";
  return { image: { ...imageSpec(id), user_specified_image } };
}

describe("what cAdvisor asks", () => {
  test("a version, at its start", async () => {
    await using shim = await TestShim.start();
    assert.deepEqual(await asked(shim).version(), { version: "1.2.3", revision: "" });
  });

  test("a sandbox has the pod's labels, no container's name, and its kind", async () => {
    await using shim = await TestShim.start();
    const id = await shim.runSandbox(runRequest({ labels: { app: "web", ...kubelet } }));
    const { labels, image } = await asked(shim).container(id);
    assert.deepEqual(labels, { app: "web", ...kubelet, "io.cri-containerd.kind": "sandbox" });
    assert.equal(image, "registry.example/pause:1");
  });

  test("a container has the labels of its request and its kind, and no environment", async () => {
    await using shim = await TestShim.start();
    const labels = { ...kubelet, "io.kubernetes.container.name": "main" };
    const id = await shim.runContainer(undefined, "main", {
      labels,
      annotations: { secret: "annotation" },
      envs: [{ key: "PASSWORD", value: Buffer.from("secret") }],
    });
    const container = await asked(shim).container(id);
    assert.deepEqual(container.labels, { ...labels, "io.cri-containerd.kind": "container" });
    assert.equal(container.id, id);
    const spec = JSON.parse(container.spec.value.toString()) as { process: { env: unknown } };
    assert.deepEqual(spec.process.env, []);
    assert.doesNotMatch(JSON.stringify(container), /secret/);
  });

  for (const { given, expected } of [
    { given: "busybox", expected: "docker.io/library/busybox:latest" },
    { given: "registry.example/team/web:1", expected: "registry.example/team/web:1" },
    // A kubelet before 1.29 says only the id.
    { given: "", expected: "docker.io/library/busybox:latest" },
  ]) {
    test(`an image that the kubelet names by its id and "${given}" is ${expected}`, async () => {
      await using shim = await TestShim.start();
      const sandbox = await shim.runSandbox();
      // As kubelets do before each container.
      const image = imageSpec("busybox:latest");
      await shim.rpcs.ImageStatus({ image, verbose: false }, shim.call());
      const id = await shim.createContainer(sandbox, kubeletImage(shim, given));
      await shim.startContainer(id);
      shim.world.journal.clear();
      assert.equal((await asked(shim).container(id)).image, expected);
      assert.deepEqual(shim.world.journal.names(), []);
    });
  }

  test("the name of an image is kept with its container, also when its tag has moved", async () => {
    await using first = await TestShim.start();
    const id = await first.createContainer(await first.runSandbox(), kubeletImage(first, "busybox:1.36"));
    first.engine.images.add({ tags: ["busybox:1.36"] });
    await using shim = await first.restart();
    assert.equal((await asked(shim).container(id)).image, "docker.io/library/busybox:1.36");
  });

  test("an image that only an id names is asked about once, when its containers are first seen", async () => {
    await using first = await TestShim.start();
    const sandbox = await first.runSandbox();
    const run = (name: string) => first.runContainer(sandbox, name, kubeletImage(first, ""));
    const ids = await Promise.all(["a", "b", "c"].map(run));
    first.world.journal.clear();
    await using shim = await first.restart();
    await turns(50);
    for (const id of ids)
      assert.equal((await asked(shim).container(id)).image, "docker.io/library/busybox:latest");
    assert.equal(shim.world.journal.names("engine.inspectImage").length, 1);
  });

  test("makes no engine request, for anything that it asks", async () => {
    await using shim = await TestShim.start();
    const sandbox = await shim.runSandbox();
    const container = await shim.runContainer(sandbox);
    shim.world.journal.clear();
    const client = asked(shim);
    for (const id of [sandbox, container]) {
      await client.container(id);
      await client.task(id);
    }
    for (let count = 0; count < 10_000; count += 1) {
      await assert.rejects(client.container(idOf(`f${count}f`)), { kind: "notFound" });
    }
    assert.deepEqual(shim.world.journal.names(), []);
  });

  test("NOT_FOUND is for prefixes of ids, for containers outside of pods and for processes of exec", async () => {
    await using shim = await TestShim.start();
    const sandbox = await shim.runSandbox();
    const client = asked(shim);
    for (const id of ["", sandbox.slice(0, 12), idOf("ab"), "x".repeat(100_000)]) {
      await rejectsWith(client.container(id), "notFound");
      await rejectsWith(client.task(id), "notFound");
    }
    await rejectsWith(client.task(sandbox, "exec-1"), "notFound");
  });

  type State = readonly [what: string, state: SnapshotChanges["state"], task: object | undefined];
  const ended = { running: false, pid: 0 };
  const states: readonly State[] = [
    ["running", {}, { pid: 4242, status: 2, exit_status: 0 }],
    ["paused", { status: "paused" }, { pid: 4242, status: 4, exit_status: 0 }],
    ["created", { status: "created", ...ended }, undefined],
    ["running without a process yet", { pid: 0 }, undefined],
    ["ended", { status: "exited", ...ended, exitCode: 137 }, { pid: 0, status: 3, exit_status: 137 }],
    ["dead", { status: "dead", ...ended, exitCode: 1 }, { pid: 0, status: 3, exit_status: 1 }],
    ["refused", { status: "created", ...ended, exitCode: 127 }, { pid: 0, status: 3, exit_status: 127 }],
    ["being removed", { status: "removing", ...ended }, { pid: 0, status: 0, exit_status: 0 }],
  ];
  for (const [what, state, task] of states) {
    test(`the task of a container that is ${what} ${task === undefined ? "is not there yet" : "has its state"}`, async () => {
      await using shim = await TestShim.start();
      const [sandbox, id] = [idOf("a1"), idOf("c1")];
      shim.services.state.model.put(sandboxSnapshot(sandbox));
      shim.services.state.model.put(containerSnapshot(id, sandbox, { state: { ...state } }));
      const asking = asked(shim).task(id);
      if (task === undefined) await rejectsWith(asking, "notFound");
      else assert.deepEqual(await asking, { container_id: id, id, ...task });
    });
  }

  test("a sandbox is known from its creation on, and its task after its start, while no inspect is answered", async () => {
    await using shim = await TestShim.start();
    const { engine } = shim;
    let isHeld = true;
    engine.hangs = (verb) => (verb === "startContainer" || verb === "inspectContainer") && isHeld;
    const running = shim.runSandbox(runRequest({ labels: kubelet }));
    const starts = (): readonly string[] => shim.world.journal.names("engine.startContainer");
    await until("the start is under way", () => starts().length === 1);
    const [id = ""] = engine.containers.ids;
    const client = asked(shim);
    const { labels, image } = await client.container(id);
    assert.deepEqual(labels, { ...kubelet, "io.cri-containerd.kind": "sandbox" });
    assert.equal(image, "registry.example/pause:1");
    await rejectsWith(client.task(id), "notFound");
    isHeld = false;
    engine.up();
    await running;
    assert.equal((await client.task(id)).pid, engine.containers.get(id).state.pid);
  });

  test("a container of another program is waited for, and known by the engine's list while no inspect is answered", async () => {
    await using shim = await TestShim.start();
    const { engine } = shim;
    const sandbox = await shim.runSandbox();
    engine.hangs = (verb) => verb === "inspectContainer";
    const id = engine.containers.create("k8s_main_web_default_uid-1_0", {
      Image: "busybox:latest",
      Labels: {
        ...kubelet,
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.sandbox.id": sandbox,
        "io.kubernetes.container.name": "main",
      },
      HostConfig: {},
    });
    await until("the event has come", () => shim.services.state.sync.isInspecting(id));
    const { labels, image } = await asked(shim).container(id);
    assert.equal(labels["io.kubernetes.container.name"], "main");
    assert.equal(image, "docker.io/library/busybox:latest");
    await rejectsWith(asked(shim).task(id), "notFound");
    engine.up();
  });

  test("a container that the engine lists and cannot describe has the name of the list", async () => {
    await using first = await TestShim.start();
    const id = await first.runContainer(undefined, "main", { labels: kubelet });
    first.engine.inspectFailure = () => new ShimError("timeout", "inspect container: not finished after 10s");
    await using shim = await first.restart();
    assert.equal((await asked(shim).container(id)).labels["io.kubernetes.pod.name"], "web");
  });

  test("while the engine is away, known containers keep their names, and others are UNAVAILABLE", async () => {
    await using shim = await TestShim.start();
    const id = await shim.runContainer();
    const reason = new ShimError("unavailable", "connect: ECONNREFUSED");
    shim.services.state.link.set({ phase: "lost", reason });
    assert.equal((await asked(shim).container(id)).id, id);
    await rejectsWith(asked(shim).container(idOf("ab")), "unavailable", /ECONNREFUSED/);
  });
});
