/**
 * --adopted-logs=convert: the log of a container as dockershim and cri-dockerd made it, rotated as a kubelet
 * rotates, with the shim killed before each of its steps. Every line stands once in the files of the log, in
 * order.
 */
import assert from "node:assert/strict";
import { lstat, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ContainerState } from "../../src/domain/cri.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { createContainer, inspectContainer, removeContainer, startContainer } from "../support/docker.js";
import { needsEngineHost } from "../support/engine-host.js";
import type { ShimOptions, ShimProcess } from "../support/shim-process.js";
import { long, reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { outputOf } from "./log-support.js";

const killPoints = fileURLToPath(new URL("../support/kill-points.mjs", import.meta.url));
const floodLines = 4_000;
const slowLines = 150;
/** Most lines at once, the rest while the shim is killed and started. It runs until the test stops it. */
const script = [
  `i=0; while [ $i -lt ${String(floodLines)} ]; do echo $i; i=$((i+1)); done`,
  `while [ $i -lt ${String(floodLines + slowLines)} ]; do echo $i; i=$((i+1)); sleep 0.02; done`,
  "exec sleep 1000",
].join("\n");
const output = Array.from({ length: floodLines + slowLines }, (_, line) => `${String(line)}\n`).join("");
/** Steps of the shim that are killed; each is tried with DOCKERSHIM_TEST_LONG. */
const stride = long ? 1 : 10;
const mostSteps = 200;

describe("--adopted-logs=convert", { skip: (await reasonToSkip()) || needsEngineHost("files") }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let orders: string;
  let options: Partial<ShimOptions>;
  let sandbox: string;
  before(async () => {
    orders = await bed.newDirectory();
    options = {
      directory: await bed.newDirectory(),
      flags: ["--adopted-logs=convert"],
      nodeFlags: ["--import", killPoints],
      environment: { DOCKERSHIM_TEST_KILL_POINTS: orders },
    };
    shim = await bed.startShim(options);
    // So that the image is there.
    await (await bed.runPod(shim.cri))[Symbol.asyncDispose]();
    sandbox = await makeSandbox();
  });

  const labels = (container: string, type: string): Readonly<Record<string, string>> => ({
    [runLabel]: bed.run,
    "io.kubernetes.pod.name": "old",
    "io.kubernetes.pod.namespace": "old-ns",
    "io.kubernetes.pod.uid": `uid-${bed.run}`,
    "io.kubernetes.container.name": container,
    "io.kubernetes.docker.type": type,
  });

  async function makeSandbox(): Promise<string> {
    const id = await createContainer(`k8s_POD_old_old-ns_uid-${bed.run}_0`, {
      Image: builtinPauseReference,
      Labels: labels("POD", "podsandbox"),
    });
    await startContainer(id);
    return id;
  }

  /** With its log as cri-dockerd leaves it: a link to Docker's file. */
  async function makeContainer(name: string): Promise<{ readonly id: string; readonly path: string }> {
    const directory = join(options.directory ?? "", "logs-of-pod", name);
    const path = join(directory, "0.log");
    await mkdir(directory, { recursive: true });
    const id = await createContainer(`k8s_${name}_old_old-ns_uid-${bed.run}_0`, {
      Image: bed.image,
      Entrypoint: ["sh", "-c", script],
      Labels: {
        ...labels(name, "container"),
        "io.kubernetes.sandbox.id": sandbox,
        "io.kubernetes.container.logpath": path,
      },
      HostConfig: { NetworkMode: "none", LogConfig: { Type: "json-file", Config: {} } },
    });
    await startContainer(id);
    await symlink((await inspectContainer(id))?.LogPath ?? assert.fail("no log path"), path);
    await until("the flood", async () =>
      (await readFile(path, "utf8")).includes(`"${String(floodLines)}\\n"`) ? true : undefined,
    );
    await untilRunning(id);
    return { id, path };
  }

  async function untilRunning(id: string): Promise<void> {
    await until("the container in the list", async () => {
      const { containers } = await shim.cri.ListContainers({ filter: { id } });
      return containers[0]?.state === ContainerState.CONTAINER_RUNNING ? true : undefined;
    });
  }

  /** One look of a kubelet's log manager at a log that is too large. False when it has to look again. */
  async function rotateOnce(id: string, path: string, rotated: string): Promise<boolean> {
    const there = await lstat(path).catch(() => undefined);
    if (there !== undefined) await rename(path, rotated);
    try {
      await shim.cri.ReopenContainerLog({ container_id: id });
      return true;
    } catch {
      if (there !== undefined) await rename(rotated, path).catch(() => undefined);
      return false;
    }
  }

  async function isConverted(id: string): Promise<true | undefined> {
    const text = await readFile(join(shim.stateDirectory, "logs", `${id}.json`), "utf8").catch(() => "{}");
    return (JSON.parse(text) as { history?: unknown }).history === null ? true : undefined;
  }

  /** All files of the log, in the order in which a kubelet has made them. */
  async function wholeLog(path: string): Promise<string> {
    const directory = join(path, "..");
    const names = (await readdir(directory)).sort();
    assert.deepEqual(
      names.filter((name) => !name.startsWith("0.log")),
      [],
    );
    const ordered = [...names.filter((name) => name !== "0.log"), "0.log"];
    for (const name of ordered) assert.ok((await lstat(join(directory, name))).isFile(), `${name} is a file`);
    return (await Promise.all(ordered.map((name) => readFile(join(directory, name), "utf8")))).join("");
  }

  /** Rotates twice, kills the shim before step `index` of that. Whether it was killed. */
  async function convertAndKill(index: number): Promise<boolean> {
    const { id, path } = await makeContainer(`c${String(index)}`);
    await writeFile(join(orders, "order"), `${String(index)} ${id}`);
    const killed = { yes: false };
    let rotations = 0;
    const watch = shim.exited.then(() => (killed.yes = true));
    const settled = async (): Promise<void> => {
      await Promise.race([watch, until("the conversion", () => isConverted(id))]);
    };
    if (await rotateOnce(id, path, `${path}.20260102-150405`)) {
      rotations = 1;
      await settled();
    } else {
      await until("the kill, as the log was not rotated", () => killed.yes);
    }
    await rm(join(orders, "order"), { force: true });
    if (killed.yes) {
      await shim.kill();
      shim = await bed.startShim(options);
      await untilRunning(id);
    }
    for (; rotations < 2; rotations += 1)
      await until("the rotation", () => rotateOnce(id, path, `${path}.20260102-15050${String(rotations)}`));
    await until("the conversion", () => isConverted(id));
    const last = ` ${String(floodLines + slowLines - 1)}\n`;
    await until("the last line", async () => (await wholeLog(path)).includes(last));
    await shim.cri.StopContainer({ container_id: id, timeout: "0" });
    await until("the container's end", async () => {
      const { containers } = await shim.cri.ListContainers({ filter: { id } });
      return containers[0]?.state === ContainerState.CONTAINER_EXITED ? true : undefined;
    });
    const log = await wholeLog(path);
    assert.equal(outputOf(log, "stdout"), output, `killed before step ${String(index)}`);
    await removeContainer(id);
    return killed.yes;
  }

  test("a kill before each step of the conversion: every line once, in order", async (context) => {
    let index = 0;
    while (await convertAndKill(index)) {
      index += stride;
      assert.ok(index < mostSteps, "it comes to an end");
    }
    assert.ok(index > 5);
    context.diagnostic(`killed up to step ${String(index)}`);
  });

  test("without the flag ReopenContainerLog names it, and the link stays", async () => {
    await using keeping = await bed.startShim();
    const { id, path } = await makeContainer("kept");
    await until("the container", async () => {
      const { containers } = await keeping.cri.ListContainers({ filter: { id } });
      return containers[0];
    });
    await assert.rejects(keeping.cri.ReopenContainerLog({ container_id: id }), {
      code: 9,
      message: /only the engine can rotate it.*--adopted-logs=convert/,
    });
    assert.ok((await lstat(path)).isSymbolicLink());
    await removeContainer(id);
  });
});
