/**
 * A real cri-dockerd serves what this program made: its path is in DOCKERSHIM_TEST_CRI_DOCKERD. Proves rows of the
 * table "What goes back" (docs/migrate/migrating.md).
 */
import assert from "node:assert/strict";
import { lstat, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type Answer, type ContainerConfig, NamespaceMode } from "../../src/domain/cri.js";
import { ociRuntimeName } from "../../src/domain/oci-changes.js";
import { connectCri, type CriClient } from "../support/cri-client.js";
import { criDockerd, startCriDockerd } from "../support/cri-dockerd.js";
import { docker, inspectContainer } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import { type PodOverrides, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const skip = criDockerd === "" ? "no cri-dockerd in DOCKERSHIM_TEST_CRI_DOCKERD" : await reasonToSkip();

describe("the way back to cri-dockerd", { skip }, () => {
  const bed = TestBed.ofSuite();

  interface Switched {
    /** Of this program. */
    readonly directory: string;
    readonly cri: CriClient;
    readonly pod: Pod;
    readonly id: string;
  }

  /** A pod of this program, which then ends; `cri` is cri-dockerd. */
  async function switched(
    t: { after(undo: () => Promise<unknown>): void },
    config: Answer<ContainerConfig>,
    {
      runtimeHandler = "",
      pod = {},
      isReady = async () => true,
    }: {
      readonly runtimeHandler?: string;
      readonly pod?: PodOverrides;
      readonly isReady?: (cri: CriClient) => Promise<boolean>;
    } = {},
  ): Promise<Switched> {
    const own = await bed.newDirectory();
    const shim = await bed.startShim({ directory: own });
    await until("this program to be ready", () => isReady(shim.cri));
    const made = await bed.runPod(shim.cri, pod, runtimeHandler);
    const id = await made.start(config);
    await shim.stop();
    const directory = await bed.newDirectory();
    const socket = join(directory, "cri.sock");
    const server = await startCriDockerd(bed, { socket, root: join(directory, "root") });
    const cri = connectCri(socket);
    t.after(async () => {
      cri[Symbol.dispose]();
      await server.end("SIGTERM");
    });
    return { directory: own, cri, pod: made.through(cri), id };
  }

  /** Status, exec, stop and removal, as a kubelet asks for them. */
  async function servesAndRemoves({ cri, pod, id }: Switched): Promise<void> {
    assert.equal((await pod.status()).state, 0);
    assert.equal((await pod.containerStatus(id)).state, 1);
    assert.equal(await pod.shell(id, "echo ran"), "ran");
    await cri.StopContainer({ container_id: id, timeout: "0" });
    assert.equal((await pod.containerStatus(id)).state, 2);
    await cri.RemoveContainer({ container_id: id });
    await pod.stop();
    await pod.remove();
    assert.equal(await inspectContainer(id), undefined);
    assert.equal(await inspectContainer(pod.id), undefined);
  }

  test("a log in the CRI's format gets no lines, goes with the container, and a new one has a link", async (t) => {
    const command = ["sh", "-c", "while true; do echo line; sleep 0.2; done"];
    const there = await switched(t, { command });
    const { log_path: log } = await there.pod.containerStatus(there.id);
    assert.ok((await lstat(log)).isFile());
    assert.match(await readFile(log, "utf8"), /^\S+ stdout F line\n/);
    const before = (await stat(log)).size;
    const { LogPath } = (await inspectContainer(there.id)) ?? {};
    const engineBefore = (await stat(LogPath ?? "")).size;
    await until("a line in the engine's log", async () => (await stat(LogPath ?? "")).size > engineBefore);
    assert.equal((await stat(log)).size, before);
    const again = await there.pod.start({
      command,
      metadata: { name: "main", attempt: 1 },
      log_path: "again.log",
    });
    const link = (await there.pod.containerStatus(again)).log_path;
    assert.ok((await lstat(link)).isSymbolicLink());
    await there.cri.RemoveContainer({ container_id: again });
    await servesAndRemoves(there);
  });

  test("a pod with a RuntimeClass runs on, and is made again with the same runtime of the engine", async (t) => {
    // Every engine has this name beside its default.
    const handler = "io.containerd.runc.v2";
    const there = await switched(t, {}, { runtimeHandler: handler });
    assert.equal((await there.pod.status()).runtime_handler, handler);
    const second = await there.pod.start({ metadata: { name: "second", attempt: 0 } });
    await using again = await bed.runPod(there.cri, {}, handler);
    // As kubelets do.
    await mkdir(again.config.log_directory ?? "", { recursive: true });
    for (const id of [again.id, await again.start(), second])
      assert.equal((await inspectContainer(id))?.HostConfig.Runtime, handler);
    await there.cri.RemoveContainer({ container_id: second });
    await assert.rejects(bed.runPod(there.cri, {}, "no-such-handler"), /no runtime for "no-such-handler"/);
    await servesAndRemoves(there);
  });

  test("CDI devices stay; made again, those of the field are there, those of an annotation are not", async (t) => {
    const kind = `dockershim-${bed.run}.test/device`;
    const containerEdits = { deviceNodes: [{ path: "/dev/cdi-null", hostPath: "/dev/null" }] };
    const path = `/etc/cdi/dockershim-${bed.run}.json`;
    await mkdir("/etc/cdi", { recursive: true });
    t.after(() => rm(path, { force: true }));
    const specification = { cdiVersion: "0.6.0", kind, devices: [{ name: "one", containerEdits }] };
    await writeFile(path, JSON.stringify(specification));
    const device = `${kind}=one`;
    const annotations = { "cdi.k8s.io/test": device };
    const there = await switched(t, { annotations });
    const listed = "ls /dev | grep cdi-null || true";
    assert.equal(await there.pod.shell(there.id, listed), "cdi-null");
    const byField = { CDI_devices: [{ name: device }], metadata: { name: "main", attempt: 1 } };
    const byAnnotation = { annotations, metadata: { name: "main", attempt: 2 } };
    for (const [config, expected] of [
      [byField, "cdi-null"],
      [byAnnotation, ""],
    ] as const) {
      const again = await there.pod.start(config);
      assert.equal(await there.pod.shell(again, listed), expected);
      await there.cri.RemoveContainer({ container_id: again });
    }
    await servesAndRemoves(there);
  });

  test("a pod in a user namespace is served and removed, but no container starts in it", async (t) => {
    const { body } = await docker("GET", "/info");
    const { Runtimes } = JSON.parse(body.toString()) as {
      readonly Runtimes: Readonly<Record<string, unknown>>;
    };
    if (Runtimes[ociRuntimeName] === undefined) {
      t.skip(`the engine has no runtime ${ociRuntimeName}`);
      return;
    }
    const ids = [{ container_id: 0, host_id: 300_000, length: 65_536 }];
    const userns_options = { mode: NamespaceMode.POD, uids: ids, gids: ids };
    const linux = {
      security_context: { namespace_options: { pid: NamespaceMode.CONTAINER, userns_options } },
    };
    const pod = { linux: { security_context: { namespace_options: { userns_options } } } };
    const there = await switched(
      t,
      { linux },
      {
        pod,
        isReady: async (cri) => (await cri.Status({ verbose: true })).info["userNamespaces"] === '"works"',
      },
    );
    const again = there.pod.start({ metadata: { name: "main", attempt: 1 } });
    await assert.rejects(again, /no server of dockershim (listens|knows this container)/);
    await servesAndRemoves(there);
    const later = await bed.startShim({ directory: there.directory });
    await until("the root to be unmounted", async () => {
      const mounts = await readFile("/proc/self/mountinfo", "utf8");
      return ![there.id, there.pod.id].some((id) => mounts.includes(id));
    });
    await later.stop();
  });
});
