/** `dockershim play --detach` and `--watch`, the program, against a shim with a real engine. */
import assert from "node:assert/strict";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { defaultDirectories } from "../../src/play/pod-config/pod-paths.js";
import { PlayStore } from "../../src/play/store/play-store.js";
import { ContainerState } from "../../src/domain/cri.js";
import { PlayFiles } from "../support/play-files.js";
import type { Exit } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

describe("play that leaves pods, or watches files", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  const files = PlayFiles.ofSuite(bed);
  let path = "";
  before(async () => {
    path = await files.manifest("");
  });

  const play = (...flags: readonly string[]): Promise<Exit> => files.play(...flags, path);
  const write = (replicas: number, seconds = 1000): Promise<void> =>
    writeFile(
      path,
      `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kept-${bed.run}}
spec:
  replicas: ${replicas}
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  selector: {matchLabels: {app: kept}}
  template:
    metadata: {labels: {app: kept}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: "${bed.image}"
        command: [sleep, "${seconds}"]
`,
    );
  /** Attempts of the running containers, by pod. */
  async function running(): Promise<Readonly<Record<string, number>>> {
    const { containers } = await bed.shim.cri.ListContainers({
      filter: { state: { state: ContainerState.CONTAINER_RUNNING } },
    });
    const own = containers.filter(({ labels }) =>
      (labels["io.kubernetes.pod.name"] ?? "").startsWith(`kept-${bed.run}-`),
    );
    return Object.fromEntries(
      own.map(({ labels, metadata }) => [
        (labels["io.kubernetes.pod.name"] ?? "").slice(`kept-${bed.run}-`.length),
        metadata?.attempt ?? 0,
      ]),
    );
  }
  async function kill(pod: string): Promise<void> {
    const { containers } = await bed.shim.cri.ListContainers({});
    const found = containers.find(
      ({ labels, state }) =>
        labels["io.kubernetes.pod.name"] === `kept-${bed.run}-${pod}` &&
        state === ContainerState.CONTAINER_RUNNING,
    );
    await bed.shim.cri.StopContainer({ container_id: found?.id ?? "", timeout: "0" });
  }
  const runs = (expected: Readonly<Record<string, number>>): Promise<unknown> =>
    until("the pods run", async () => {
      const actual = await running();
      return JSON.stringify(actual, Object.keys(actual).sort()) === JSON.stringify(expected);
    });
  /** The process of the supervisor. */
  async function supervisor(): Promise<number | undefined> {
    for (const entry of await readdir("/proc")) {
      if (!/^\d+$/.test(entry)) continue;
      const words = (await readFile(`/proc/${entry}/cmdline`, "utf8").catch(() => "")).split("\0");
      if (words.includes("--supervise") && words.includes(`--endpoint=${bed.shim.endpoint}`))
        return Number(entry);
    }
    return undefined;
  }

  test("the supervisor restarts containers, also after it was killed, until --down", async () => {
    await write(2);
    const left = await play("--detach");
    assert.equal(left.code, 0, left.stderr);
    assert.match(left.stderr, /the pods are left to the supervisor/);
    await runs({ 0: 0, 1: 0 });
    await kill("0");
    await runs({ 0: 1, 1: 0 });

    const pid = await supervisor();
    assert.ok(pid !== undefined);
    process.kill(pid, "SIGKILL");
    await until("it has ended", async () => (await supervisor()) !== pid);
    await kill("1");
    // Its remains are no reason not to start another one; the changed file has fewer pods.
    await write(1);
    const again = await play("--detach");
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr, /kept-\S+-1: removed/);
    await runs({ 0: 1 });
    await kill("0");
    await runs({ 0: 2 });

    const down = await play("--down");
    assert.equal(down.code, 0, down.stderr);
    await runs({});
    await until("the supervisor has ended", async () => (await supervisor()) === undefined);
    const store = new PlayStore(join(defaultDirectories.state, "plays.d"), bed.shim.endpoint);
    assert.deepEqual(
      (await readdir(store.directory)).filter((name) => name !== "supervisor.log"),
      [],
    );
  });

  test("an attached play takes the pods from the supervisor, which takes them back with its files at its end or kill", async () => {
    await write(1);
    assert.equal((await play("--detach")).code, 0);
    await write(1, 1001);
    const again = await play("--wait");
    assert.equal(again.code, 0, again.stderr);
    await runs({ 0: 1 });
    await kill("0");
    await runs({ 0: 2 });

    await write(1, 1002);
    const attached = files.start(path);
    try {
      await runs({ 0: 3 });
      const store = new PlayStore(join(defaultDirectories.state, "plays.d"), bed.shim.endpoint);
      const isStored = async (): Promise<boolean> =>
        (await store.list((line) => assert.fail(line))).some(({ files }) =>
          files.some(({ text }) => text.includes("1002")),
        );
      await until("its files are stored", isStored);
    } finally {
      await attached.end("SIGKILL");
    }
    await kill("0");
    await runs({ 0: 4 });
    assert.equal((await play("--down")).code, 0);
  });

  test("--watch applies what changes, keeps what runs when a file is broken, and leaves it at the end", async () => {
    await write(1);
    const watch = files.start("--watch", path);
    try {
      await runs({ 0: 0 });
      await write(2);
      await runs({ 0: 0, 1: 0 });
      await writeFile(path, "kind: [");
      await write(1, 1001);
      await runs({ 0: 1 });
    } finally {
      const { stderr } = await watch.end("SIGINT");
      assert.match(stderr, /the pods run on, but nothing restarts them now/);
    }
    await runs({ 0: 1 });
    assert.equal((await play("--down")).code, 0);
  });
});
