import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { readdirSync } from "node:fs";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import type { ResourceReading } from "../../../src/domain/resource-reading.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import type { PodParts, PodReading, StatsSource } from "../../../src/shim/ports/stats.js";
import { CgroupStats } from "../../../src/shim/stats/cgroup-stats.js";
import { DescriptorCache } from "../../../src/shim/stats/descriptor-cache.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../fakes/snapshots.js";
import { byId, goldenId, layOut, type LaidOut } from "./golden-cgroup.js";

const signal = new AbortController().signal;
const light = { details: false };
const sandboxId = idOf("5a");

/** The fallback; records what it is asked for. */
class Elsewhere implements StatsSource {
  /** The ids of each call. */
  readonly asked: (readonly string[])[] = [];
  constructor(private readonly reading: ResourceReading) {}

  readContainers(containers: readonly Snapshot[]): ReturnType<StatsSource["readContainers"]> {
    this.asked.push(containers.map(({ id }) => id));
    return Readable.from(containers.map(({ id }) => [id, this.reading] as const));
  }

  readPods(pods: readonly PodParts[]): ReturnType<StatsSource["readPods"]> {
    this.asked.push(pods.map(({ sandbox }) => sandbox.id));
    const reading: PodReading = { resources: this.reading, interfaces: undefined, containers: new Map() };
    return Readable.from(pods.map(({ sandbox }) => [sandbox.id, reading] as const));
  }

  failureOf(): undefined {
    return undefined;
  }

  forgetAllBut(): void {}

  close(): void {}
}

const nothing: ResourceReading = {
  ...{ timestamp: 1n, cpu: undefined, nanoCores: undefined, memory: undefined, ioPressure: undefined },
  tasks: 7,
};

/** Containers with these directories; all processes are this one, whose network is laid out below the root. */
function hostOf(files: ReadonlyMap<string, LaidOut>, descriptorLimit?: number) {
  const log = recordingLog();
  const elsewhere = new Elsewhere(nothing);
  /** Containers whose cgroup was looked for. */
  const located: string[] = [];
  const stats = new CgroupStats({
    host: {
      cgroupDirectories: ({ id }) => {
        located.push(id);
        return Promise.resolve(files.get(id));
      },
      networkNamespace: ({ state }) =>
        state.pid === 4242 ? { netns: "/proc/4242/ns/net", netnsIdentity: "a pod's" } : undefined,
    },
    elsewhere,
    log,
    files: new DescriptorCache(descriptorLimit),
    procRoot: [...files.values()][0]?.root ?? "/none",
  });
  return { stats, elsewhere, log, located };
}

/** A pod with a cgroup of its own. */
function podOf(sandboxId: string, containers: readonly string[]): PodParts {
  return {
    sandbox: sandboxSnapshot(sandboxId),
    containers: containers.map((id) => containerSnapshot(id, sandboxId)),
    hostNetwork: true,
    hasOwnCgroup: true,
  };
}

const podsNamed = (...names: readonly string[]): PodParts[] =>
  names.map((name) => podOf(idOf(`5${name}`), [idOf(`c${name}`)]));

/** Cgroups of everything in these pods, by id. */
async function layOutPods(pods: readonly PodParts[]) {
  const files = new Map<string, LaidOut>();
  for (const { sandbox, containers } of pods) {
    for (const { id } of [sandbox, ...containers]) files.set(id, await layOut("v1", id));
  }
  const all = [...files.values()];
  return {
    files,
    end: (id: string): Promise<void> => rm(files.get(id)?.root ?? "", { recursive: true }),
    /** From then on the files of this cgroup cannot be read. */
    spoil: async (id: string): Promise<void> => {
      const stat = `${files.get(id)?.directories.get("memory") ?? ""}/memory.stat`;
      await rm(stat);
      await mkdir(stat);
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const one of all) await one[Symbol.asyncDispose]();
    },
  };
}

/** Of each pod its id, its processes, and the containers that were read. */
const shown = (readings: ReadonlyMap<string, PodReading>) =>
  [...readings].map(([id, { resources, containers }]) => [id, resources?.tasks, [...containers.keys()]]);

const descriptors = (): number => readdirSync("/proc/self/fd").length;

describe("CgroupStats", () => {
  test("finds a container's cgroup once, and anew after it was started again", async () => {
    await using files = await layOut("v1");
    const { stats, elsewhere, located } = hostOf(new Map([[goldenId, files]]));
    const container = containerSnapshot(goldenId, sandboxId);
    for (let round = 0; round < 3; round += 1) {
      const readings = await byId(stats.readContainers([container], light, signal));
      assert.equal(readings.get(goldenId)?.tasks, 4);
    }
    assert.deepEqual(located, [goldenId]);
    const again = containerSnapshot(goldenId, sandboxId, { state: { started: 5n, pid: 4243 } });
    await byId(stats.readContainers([again], light, signal));
    assert.equal(located.length, 2);
    assert.deepEqual(elsewhere.asked, []);
    stats.close();
  });

  test("asks the fallback only for containers whose cgroup is out of reach", async () => {
    await using files = await layOut("v2");
    const { stats, elsewhere } = hostOf(new Map([[goldenId, files]]));
    const far = idOf("fa");
    const both = [containerSnapshot(far, sandboxId), containerSnapshot(goldenId, sandboxId)];
    const readings = await byId(stats.readContainers(both, light, signal));
    assert.deepEqual(elsewhere.asked, [[far]]);
    assert.equal(readings.get(far)?.tasks, 7);
    assert.equal(readings.get(goldenId)?.tasks, 4);
    stats.close();
  });

  test("leaves out ended and unreadable containers, and logs that once", async () => {
    const { sandbox, containers } = podOf(goldenId, [idOf("e0"), idOf("b0")]);
    await using laidOut = await layOutPods([{ ...podOf(goldenId, []), containers }]);
    await laidOut.end(idOf("e0"));
    await laidOut.spoil(idOf("b0"));
    const { stats, log } = hostOf(laidOut.files);
    for (let round = 0; round < 2; round += 1) {
      const readings = await byId(stats.readContainers([sandbox, ...containers], light, signal));
      assert.deepEqual([...readings.keys()], [goldenId]);
    }
    assert.equal(log.lines.filter(({ level }) => level === "warn").length, 1);
    stats.close();
  });

  test("reads a pod from its own cgroup, and from its containers where it has none", async () => {
    await using laidOut = await layOutPods([podOf(sandboxId, [goldenId])]);
    const { stats } = hostOf(laidOut.files);
    const pod = (hasOwnCgroup: boolean): PodParts => ({ ...podOf(sandboxId, [goldenId]), hasOwnCgroup });
    const own = (await byId(stats.readPods([pod(true)], light, signal))).get(sandboxId);
    assert.equal(own?.resources?.tasks, 5);
    assert.equal(own.resources.cpu?.usageNanoseconds, 1_176_771_702);
    const sum = (await byId(stats.readPods([pod(false)], light, signal))).get(sandboxId);
    assert.equal(sum?.resources?.tasks, 8);
    assert.equal(sum.resources.cpu?.usageNanoseconds, 2 * 1_142_346_587);
    assert.ok((sum.resources.nanoCores ?? -1) >= 0);
    assert.deepEqual([...sum.containers.keys()], [goldenId]);
    stats.close();
  });

  test("reads a pod when its reading is taken", async () => {
    const pods = podsNamed("a", "b");
    await using laidOut = await layOutPods(pods);
    const { stats, located } = hostOf(laidOut.files);
    const readings = stats.readPods(pods, light, signal)[Symbol.asyncIterator]();
    assert.deepEqual(located, []);
    for (const [index, { sandbox }] of pods.entries()) {
      const { value } = (await readings.next()) as IteratorYieldResult<readonly [string, PodReading]>;
      assert.equal(value[0], sandbox.id);
      assert.equal(located.length, 2 * (index + 1));
    }
    assert.equal((await readings.next()).done, true);
    stats.close();
  });

  test("reads nothing more when the call was cancelled", async () => {
    const pods = podsNamed("a", "b");
    await using laidOut = await layOutPods(pods);
    const { stats, located } = hostOf(laidOut.files);
    const containers = pods.flatMap((pod) => pod.containers);
    for (const read of ["readPods", "readContainers"] as const) {
      stats.forgetAllBut(() => false);
      const call = new AbortController();
      const all =
        read === "readPods"
          ? stats[read](pods, light, call.signal)
          : stats[read](containers, light, call.signal);
      const readings: AsyncIterator<unknown> = all[Symbol.asyncIterator]();
      assert.equal((await readings.next()).done, false);
      const before = located.length;
      call.abort(new Error("cancelled"));
      await assert.rejects(() => readings.next(), /cancelled/);
      assert.equal(located.length, before);
    }
    stats.close();
  });

  test("reads the other pods when one has ended, cannot be read, or was closed while one was waited for", async () => {
    const pods = podsNamed("a", "b", "c", "d");
    const [ended, broken, closed, good] = pods as [PodParts, PodParts, PodParts, PodParts];
    await using laidOut = await layOutPods(pods);
    await laidOut.end(ended.sandbox.id);
    await laidOut.spoil(idOf("cb"));
    const { stats, log } = hostOf(laidOut.files);
    for (let round = 0; round < 2; round += 1) {
      const read = new Map<string, PodReading>();
      for await (const [id, reading] of stats.readPods(pods, light, signal)) {
        read.set(id, reading);
        stats.forgetAllBut((known) => known !== closed.sandbox.id);
      }
      assert.deepEqual(shown(read), [
        [ended.sandbox.id, undefined, [idOf("ca")]],
        [broken.sandbox.id, 5, []],
        [closed.sandbox.id, 5, [idOf("cc")]],
        [good.sandbox.id, 5, [idOf("cd")]],
      ]);
    }
    assert.equal(log.lines.filter(({ level }) => level === "warn").length, 1);
    stats.close();
  });

  test("asks the fallback once for all pods, and once for all containers of pods in reach", async () => {
    const far = podsNamed("a", "b");
    const half = ["c", "d"].map((name) => podOf(idOf(`5${name}`), [idOf(`c${name}`), idOf(`e${name}`)]));
    const near = podOf(idOf("5e"), [idOf("ce")]);
    await using laidOut = await layOutPods([...half, near]);
    for (const id of ["ec", "ed"]) laidOut.files.delete(idOf(id));
    const { stats, elsewhere } = hostOf(laidOut.files);
    const [one, ...others] = far;
    const readings = await byId(stats.readPods([one!, ...half, ...others, near], light, signal));
    assert.deepEqual(elsewhere.asked, [[idOf("ec"), idOf("ed")], far.map(({ sandbox }) => sandbox.id)]);
    assert.deepEqual(shown(readings), [
      [near.sandbox.id, 5, [idOf("ce")]],
      ...half.map(({ sandbox, containers }) => [sandbox.id, 5, containers.map(({ id }) => id)]),
      ...far.map(({ sandbox }) => [sandbox.id, 7, []]),
    ]);
    stats.close();
  });

  test("reads the network of the proven pause process, and none of the host's", async () => {
    await using pause = await layOut("v2", sandboxId);
    await mkdir(`${pause.root}/4242/net`, { recursive: true });
    await mkdir(`${pause.root}/99/net`, { recursive: true });
    for (const pid of ["4242", "99"]) await writeFile(`${pause.root}/${pid}/net/dev`, pause.golden.netDev);
    const { stats } = hostOf(new Map([[sandboxId, pause]]));
    const names = async (pid: number, hostNetwork: boolean): Promise<readonly string[] | undefined> => {
      const sandbox = sandboxSnapshot(sandboxId, { state: { pid } });
      const parts = { sandbox, containers: [], hostNetwork, hasOwnCgroup: false };
      const reading = (await byId(stats.readPods([parts], light, signal))).get(sandboxId);
      return reading?.interfaces?.map(({ name }) => name);
    };
    assert.deepEqual(await names(4242, false), ["eth0"]);
    assert.equal(await names(4242, true), undefined);
    assert.equal(await names(99, false), undefined, "not proven to be the sandbox's");
    stats.close();
  });

  for (const limit of [0, 1]) {
    test(`reads the network of pods when ${limit} descriptors may be kept`, async () => {
      await using pause = await layOut("v1", sandboxId);
      await mkdir(`${pause.root}/4242/net`, { recursive: true });
      await writeFile(`${pause.root}/4242/net/dev`, pause.golden.netDev);
      const { stats } = hostOf(new Map([[sandboxId, pause]]), limit);
      const before = descriptors();
      const pod = { containers: [], hostNetwork: false, hasOwnCgroup: false };
      const sandbox = sandboxSnapshot(sandboxId, { state: { pid: 4242 } });
      for (let round = 0; round < 2; round += 1) {
        const reading = (await byId(stats.readPods([{ ...pod, sandbox }], light, signal))).get(sandboxId);
        assert.equal(reading?.interfaces?.length, 1);
        assert.equal(descriptors() - before, limit);
        assert.equal(stats.counts.keptFiles, limit);
      }
      stats.close();
      assert.equal(descriptors(), before);
    });
  }

  test("keeps no file open that only metrics need", async () => {
    await using files = await layOut("v1");
    const { stats } = hostOf(new Map([[goldenId, files]]));
    const containers = [containerSnapshot(goldenId, sandboxId)];
    await byId(stats.readContainers(containers, light, signal));
    const kept = descriptors();
    assert.ok(stats.counts.keptFiles > 0);
    const readings = await byId(stats.readContainers(containers, { details: true }, signal));
    assert.ok((readings.get(goldenId)?.memory?.highestUsage ?? 0) > 0);
    assert.equal(descriptors(), kept);
    stats.close();
    assert.equal(stats.counts.keptFiles, 0);
  });

  test("closes all files of containers that do not run any more", async () => {
    await using laidOut = await layOutPods([podOf(sandboxId, [goldenId])]);
    const [root = ""] = [...laidOut.files.values()].map((files) => files.root);
    await mkdir(`${root}/4242/net`, { recursive: true });
    const before = descriptors();
    const { stats } = hostOf(laidOut.files);
    const parts: PodParts = { ...podOf(sandboxId, [goldenId]), hostNetwork: false };
    await Promise.all([1, 2, 3].map(() => byId(stats.readPods([parts], { details: true }, signal))));
    const all = descriptors();
    assert.ok(all >= before + 12, `${before} ${all}`);
    stats.forgetAllBut((id) => id === goldenId);
    const kept = descriptors();
    assert.ok(kept < all && kept > before, `${before} ${kept} ${all}`);
    stats.close();
    assert.equal(descriptors(), before);
    await byId(stats.readPods([parts], light, signal));
    assert.equal(descriptors(), before, "a call that comes after the close keeps nothing");
  });
});
