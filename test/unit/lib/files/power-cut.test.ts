/** What a power cut leaves of the files of the program, in every state in which a disk may come back. */
import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { CheckpointDirectory } from "../../../../checkpoints/directory-store.js";
import { ResultCache, type CacheEntry } from "../../../../src/network/libcni/cache.js";
import { writeFileAtomically } from "../../../../src/lib/files/atomic-file.js";
import { Flusher } from "../../../../src/lib/files/flusher.js";
import { LogRecords, newRecord } from "../../../../src/shim/logs/log-record.js";
import { PodRecords, type PodRecord } from "../../../../src/shim/state/pod-records.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { temporaryDirectory } from "../temporary-directory.js";
import { HeldFlushes } from "./held-flushes.js";
import { podRecord, recordedId as id } from "../../../fakes/pod-record.js";
import { UnflushedDisk, type Files } from "./unflushed-disk.js";

const isLong = process.env["DOCKERSHIM_TEST_LONG"] === "1";
/** Of each directory, after each event. */
const mostStates = isLong ? 4_096 : 8;
const never = 3_600_000;
const live = new AbortController().signal;

const record = podRecord({ network: { plugin: "cni", state: "settingUp", ips: [] } });
const entry: CacheEntry = {
  containerId: id,
  ifName: "eth0",
  networkName: "net",
  netns: "/proc/1/ns/net",
  config: "{}",
  cniArgs: [],
  capabilityArgs: {},
  phase: "adding",
};

/** What the next start finds in a directory. */
interface Found {
  /** What the program reads, undefined when it takes the file for lost. */
  readonly value: string | undefined;
  /** Files that it could not read: it names them in the log, or hands them to the tear-down. */
  readonly reported: number;
}

interface Place {
  /** Below the root. */
  readonly directory: string;
  readonly file: string;
  /** May be lost once it was replaced: the names of replacements are not flushed. */
  readonly isLostByReplacement: boolean;
  load(root: string): Promise<Found>;
}

const checkpoints: Place = {
  directory: "sandbox",
  file: id,
  isLostByReplacement: false,
  async load(root) {
    const log = recordingLog();
    const directory = join(root, "sandbox");
    const store = await CheckpointDirectory.open({ directory, quarantineDirectory: join(root, "q"), log });
    assert.ok((await store.list()).every((one) => one === id));
    const found = await store.get(id);
    return { value: found?.name, reported: store.corruptCount };
  },
};
const pods: Place = {
  directory: "pods",
  file: `${id}.json`,
  isLostByReplacement: true,
  async load(root) {
    const log = recordingLog();
    const store = await PodRecords.open(join(root, "pods"), log);
    const { phase, network } = store.get(id) ?? {};
    const value = phase === undefined ? undefined : `${phase} ${network?.state ?? ""}`;
    return { value, reported: log.lines.length };
  },
};
const cache: Place = {
  directory: "results",
  file: `net-${id}-eth0`,
  isLostByReplacement: true,
  async load(root) {
    const store = new ResultCache(root, recordingLog(), []);
    await store.open();
    const { entries, corrupt } = await store.find(id);
    return { value: entries[0] && versionOf(entries[0]), reported: corrupt.length };
  },
};
const logs: Place = {
  directory: "logs",
  file: `${id}.json`,
  isLostByReplacement: true,
  async load(root) {
    const log = recordingLog();
    const store = await LogRecords.open(join(root, "logs"), log, join(root, "q"));
    return { value: store.get(id)?.sink.size.toString(), reported: log.lines.length };
  },
};
const settings: Place = {
  directory: "settings",
  file: "engine-id",
  isLostByReplacement: false,
  async load(root) {
    const value = await readFile(join(root, "settings", "engine-id"), "utf8").catch(() => undefined);
    await rm(join(root, "settings"), { recursive: true });
    return { value, reported: 0 };
  },
};
const places = [checkpoints, pods, cache, logs, settings];

function versionOf({ phase, result }: CacheEntry): string {
  return `${phase ?? ""} ${JSON.stringify(result ?? null)}`;
}

/** A promise of the program about one place, from the event with that number on. */
interface Promised {
  readonly place: Place;
  readonly from: number;
  /** `begun`: this value may be found from now on, undefined: it is being removed. `kept`: one of these is found. */
  readonly begun?: string | undefined;
  readonly kept?: readonly string[];
}

describe("a power cut", () => {
  let temporary: Awaited<ReturnType<typeof temporaryDirectory>>;
  let disk: UnflushedDisk;
  let root: string;
  /** So that the thousand starts need not wait for the disk. */
  let flushes: HeldFlushes;
  const promises: Promised[] = [];

  before(async () => {
    temporary = await temporaryDirectory();
    root = join(temporary.path, "before");
    for (const { directory } of places) await mkdir(join(root, directory), { recursive: true });
    disk = await UnflushedDisk.record(root);
    await lifeOfPod();
    disk[Symbol.dispose]();
    flushes = await HeldFlushes.start();
  });
  after(async () => {
    flushes[Symbol.dispose]();
    await temporary[Symbol.asyncDispose]();
  });

  async function lifeOfPod(): Promise<void> {
    const log = recordingLog();
    const flusher = new Flusher(log, never);
    const checkpointStore = await CheckpointDirectory.open({
      directory: join(root, "sandbox"),
      quarantineDirectory: join(root, "q"),
      log,
      flusher,
    });
    const podRecords = await PodRecords.open(join(root, "pods"), log, { flusher });
    const results = new ResultCache(root, log, [], flusher);
    const logRecords = await LogRecords.open(join(root, "logs"), log, join(root, "q"));
    const begun = (place: Place, value: string | undefined): void => {
      promises.push({ place, from: disk.length, begun: value });
    };
    const kept = (place: Place, ...values: readonly string[]): void => {
      promises.push({ place, from: disk.length, kept: values });
    };
    const setRecord = async (phase: PodRecord["phase"], state: PodRecord["network"]["state"]) => {
      begun(pods, `${phase} ${state}`);
      await podRecords.put({ ...record, phase, network: { ...record.network, state } });
    };
    const setEntry = async (changed: CacheEntry) => {
      begun(cache, versionOf(changed));
      await results.write(changed);
    };
    const setEngine = async (engineId: string) => {
      begun(settings, engineId);
      const options = { mode: 0o600, temporaryPrefix: ".dockershim-" };
      await writeFileAtomically(join(root, "settings", "engine-id"), engineId, options);
      kept(settings, engineId);
    };

    await setEngine("first engine");
    // RunPodSandbox
    begun(checkpoints, "web-0");
    await Promise.all([
      checkpointStore.put(id, { version: "v1", name: "web-0", namespace: "default", data: {} }),
      setRecord("creating", "settingUp"),
    ]);
    await setEntry(entry);
    await Promise.all([checkpointStore.flushed(id, live), podRecords.flushed(id, live)]);
    kept(checkpoints, "web-0");
    kept(pods, "creating settingUp");
    await flusher.flushed(join(root, "results", cache.file), live);
    kept(cache, versionOf(entry));
    await setEntry({ ...entry, result: { ips: 1 } });
    await setEntry({ ...entry, result: { ips: 2 }, phase: "added" });
    await setRecord("ready", "ready");
    // The life of a container
    begun(logs, "0");
    const position = newRecord(id, { directory: "/var/log/pods/x", path: "/var/log/pods/x/0.log" });
    await logRecords.put(position);
    begun(logs, "100");
    await logRecords.move({ ...position, sink: { inode: "7", size: 100 } });
    await flusher.close();
    // StopPodSandbox, RemovePodSandbox
    await setEngine("second engine");
    begun(logs, undefined);
    await logRecords.remove(id);
    await setRecord("stopped", "ready");
    await setEntry({ ...entry, result: { ips: 2 }, phase: "deleting" });
    begun(cache, undefined);
    results.remove(entry);
    await setRecord("stopped", "tornDown");
    begun(checkpoints, undefined);
    await checkpointStore.remove(id);
    begun(pods, undefined);
    await podRecords.remove(id);
    await flusher.close();
    assert.deepEqual(log.lines, []);
  }

  /** Calls `look` for each state of a place that a power cut may leave. */
  type Look = (found: Found, files: Files, count: number) => void;
  async function forEachState(place: Place, look: Look): Promise<void> {
    const at = join(temporary.path, "after", place.directory);
    // The same states in each run.
    let seed = 1;
    const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    for (let count = 0; count <= disk.length; count += 1) {
      if (count > 0 && !disk.concerns(join(root, place.directory), count - 1)) continue;
      for (const files of disk.statesOf(join(root, place.directory), count, mostStates, random)) {
        await mkdir(join(at, place.directory), { recursive: true });
        for (const [name, bytes] of files) await writeFile(join(at, place.directory, name), bytes);
        look(await place.load(at), files, count);
        if (place !== settings) {
          // Temporary files are gone.
          const names = await readdir(join(at, place.directory));
          assert.ok(!names.some((name) => name.startsWith(".")));
        }
        await rm(at, { recursive: true });
      }
    }
  }

  for (const place of places) {
    test(`in ${place.directory}: the next start finds whole content, what was waited for, or a report`, async () => {
      const said = promises.filter((one) => one.place === place);
      await forEachState(place, ({ value, reported }, files, count) => {
        const past = said.filter(({ from }) => from < count || (from === count && count === disk.length));
        const last = past.findLastIndex(({ kept }) => kept !== undefined);
        const since = past.slice(last + 1);
        const allowed = [...(past[last]?.kept ?? []), ...since.flatMap(({ begun }) => begun ?? [])];
        const isRemoved = since.some(({ begun }) => begun === undefined);
        const mayBeLost = last < 0 || isRemoved || (place.isLostByReplacement && since.length > 0);
        const shown = `${String(value)} after ${String(count)} events, of ${JSON.stringify(allowed)}`;
        if (place === settings && last < 0) return;
        if (value === undefined) assert.ok(mayBeLost, shown);
        else assert.ok(allowed.includes(value), shown);
        if (place !== settings) {
          assert.equal(reported, value === undefined && files.has(place.file) ? 1 : 0, shown);
        }
      });
    });
  }
});
