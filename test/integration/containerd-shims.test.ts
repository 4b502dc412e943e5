/** One process of containerd's shim for all containers of a pod. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, test } from "node:test";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import {
  createContainer,
  dockerJson,
  inspectContainer,
  pidOfContainer,
  reasonForNoAnnotations,
  startContainer,
} from "../support/docker.js";
import { onEngineHost, signalOnEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { containerdShimOf } from "../support/processes.js";
import { long, reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const skip = (await reasonToSkip()) || (await reasonForNoAnnotations());
const named = (name: string, attempt = 0) => ({
  metadata: { name, attempt },
  log_path: `${name}.${attempt}.log`,
});
const memoryLimit = 16n * 1024n ** 2n;

async function assertRuns(pod: Pod, id: string, shim: number): Promise<void> {
  assert.equal(await containerdShimOf(id), shim);
  assert.equal((await pod.exec(id, "sh", "-c", "echo out; exit 3")).exitCode, 3);
}

describe("containers of a pod", { skip }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  test("have ends, signals, execs and statistics of their own", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const shim = await containerdShimOf(pod.id);
    const stays = await pod.start(named("stays"));
    const command = ["sh", "-c", "exit 7"];
    const ends = await pod.start({ ...named("ends"), command });
    const starves = await pod.start({
      ...named("starves"),
      command: ["sh", "-c", "x=a; while :; do x=$x$x$x; done"],
      linux: { resources: { memory_limit_in_bytes: String(memoryLimit) } },
    });
    const killed = await pod.start(named("killed"));
    await signalOnEngineHost(await pidOfContainer(killed), "SIGKILL");
    const execRuns = pod.exec(stays, "sh", "-c", "sleep 2; echo still");

    assert.equal((await pod.untilExited(ends)).exit_code, 7);
    const { exit_code, reason } = await pod.untilExited(starves);
    assert.deepEqual([exit_code, reason], [137, "OOMKilled"]);
    assert.deepEqual([(await pod.untilExited(killed)).exit_code], [137]);
    assert.equal((await execRuns).stdout, "still\n");

    const restarted = await pod.start(named("ends", 1));
    // By the engine's own API, one by one.
    await dockerJson("POST", `/containers/${restarted}/pause`);
    await assertRuns(pod, stays, shim);
    await dockerJson("POST", `/containers/${restarted}/unpause`);
    await dockerJson("POST", `/containers/${restarted}/restart?t=1`);
    for (const id of [stays, restarted]) {
      await assertRuns(pod, id, shim);
      const { stats } = await bed.shim.cri.ContainerStats({ container_id: id });
      assert.notEqual(stats?.memory?.working_set_bytes?.value ?? "0", "0");
    }
    await bed.shim.cri.StopContainer({ container_id: stays, timeout: "10" });
    assert.equal((await pod.containerStatus(stays)).exit_code, 0);
    await assertRuns(pod, restarted, shim);
    assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
  });

  test("that start and end at the same time all run, and leave its shim to the others", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const shim = await containerdShimOf(pod.id);
    const command = ["sh", "-c", "exit $((RANDOM % 2 + 4))"];
    await Promise.all(
      Array.from({ length: long ? 24 : 8 }, async (_, index) => {
        const id = await pod.start({ ...named(`c${index}`), command });
        assert.ok([4, 5].includes((await pod.untilExited(id)).exit_code));
        await bed.shim.cri.RemoveContainer({ container_id: id });
      }),
    );
    await assertRuns(pod, await pod.start(), shim);
  });

  test("go on when the sandbox ends first, and are removed with it in any order", async () => {
    const { cri } = bed.shim;
    await using pod = await bed.runPod(cri);
    const shim = await containerdShimOf(pod.id);
    const [one, other] = [await pod.start(named("one")), await pod.start(named("other"))];
    await signalOnEngineHost(await pidOfContainer(pod.id), "SIGKILL");
    await until(
      "the sandbox to be not ready",
      async () => (await pod.status()).state === PodSandboxState.SANDBOX_NOTREADY,
    );
    for (const id of [one, other]) await assertRuns(pod, id, shim);
    await cri.RemoveContainer({ container_id: one });
    await assertRuns(pod, other, shim);
    await pod.stop();
    assert.equal((await pod.containerStatus(other)).state, ContainerState.CONTAINER_EXITED);
    await untilGone(shim);
  });

  test("end with a shim process that is killed, and no others; the pod is removed and runs again", async () => {
    const { cri } = bed.shim;
    const bystander = await bed.runPod(cri);
    const lives = await bystander.start();
    const pod = await bed.runPod(cri);
    const id = await pod.start();
    const pid = await pidOfContainer(id);
    await signalOnEngineHost(await containerdShimOf(pod.id), "SIGKILL");
    assert.equal((await pod.untilExited(id)).exit_code, 137);
    await until(
      "the sandbox to be not ready",
      async () => (await pod.status()).state === PodSandboxState.SANDBOX_NOTREADY,
    );
    await untilGone(pid);
    await pod.stop();
    await pod.remove();
    // The same name: the group of the new sandbox is another one.
    const { pod_sandbox_id } = await cri.RunPodSandbox({ config: pod.config });
    const { container_id } = await cri.CreateContainer({
      pod_sandbox_id,
      config: bed.containerConfig(),
      sandbox_config: pod.config,
    });
    await cri.StartContainer({ container_id });
    assert.equal(await containerdShimOf(container_id), await containerdShimOf(pod_sandbox_id));
    await cri.StopPodSandbox({ pod_sandbox_id });
    await cri.RemovePodSandbox({ pod_sandbox_id });
    await assertRuns(bystander, lives, await containerdShimOf(bystander.id));
    await bystander[Symbol.asyncDispose]();
  });

  test("that another program made without the annotation have shims of their own, in the same pod", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const shim = await containerdShimOf(pod.id);
    const ours = await pod.start(named("ours"));
    const { Name = "", Config } = (await inspectContainer(ours)) ?? {};
    const theirs = await createContainer(Name.replace("/k8s_ours_", "k8s_theirs_"), {
      Image: bed.image,
      Cmd: ["sleep", "1000"],
      Labels: { ...Config?.Labels, "io.kubernetes.container.name": "theirs", [runLabel]: bed.run },
      HostConfig: { NetworkMode: `container:${pod.id}` },
    });
    await startContainer(theirs);
    await until(
      "the container in the list",
      async () => (await bed.shim.cri.ListContainers({ filter: { id: theirs } })).containers.length === 1,
    );
    assert.notEqual(await containerdShimOf(theirs), shim);
    await assertRuns(pod, theirs, await containerdShimOf(theirs));
    await assertRuns(pod, ours, shim);
  });
});

describe("an annotation of a pod", { skip }, () => {
  const bed = TestBed.ofSuite({ shim: { flags: ["--allowed-annotations=io."] } });

  test("does not put its containers into the shim process of another pod", async () => {
    const { cri } = bed.shim;
    await using victim = await bed.runPod(cri);
    for (const key of ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"]) {
      const annotations = { [key]: victim.id };
      await using pod = await bed.runPod(cri, { annotations });
      const shim = await containerdShimOf(pod.id);
      assert.notEqual(shim, await containerdShimOf(victim.id));
      await assertRuns(pod, await pod.start({ annotations }), shim);
    }
  });
});

describe("without --one-containerd-shim-per-pod", { skip }, () => {
  const bed = TestBed.ofSuite({ shim: { flags: ["--one-containerd-shim-per-pod=false"] } });

  test("each container has a shim process of its own", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const ids = [pod.id, await pod.start(named("a")), await pod.start(named("b"))];
    const shims = await Promise.all(ids.map(containerdShimOf));
    assert.equal(new Set(shims).size, 3);
  });
});

async function untilGone(pid: number): Promise<void> {
  await until(`process ${pid} to end`, () => !existsSync(onEngineHost(`/proc/${pid}`)));
}
