import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { removeFileSync, replaceFileSync } from "../../../src/lib/files/atomic-file.js";
import {
  ContainerRecords,
  containerRecordType,
  type ContainerRecord,
} from "../../../src/shim/state/container-records.js";
import { podRecordType, PodRecords, type PodRecord } from "../../../src/shim/state/pod-records.js";
import type { RecordDirectoryOptions } from "../../../src/lib/files/record-directory.js";
import { formatRecord, parseRecord } from "../../../src/lib/files/record-format.js";
import { Flusher } from "../../../src/lib/files/flusher.js";
import { rejectsWith } from "../../support/refusals.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { podRecord as record, recordedId as id } from "../../fakes/pod-record.js";
import { HeldFlushes } from "../lib/files/held-flushes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;

/** A directory for records, with those of pods in `pods` once they are opened. */
async function setUp() {
  const temporary = await temporaryDirectory();
  const directory = join(temporary.path, "pods");
  const log = recordingLog();
  return {
    directory,
    path: join(directory, `${id}.json`),
    quarantine: join(temporary.path, "quarantine"),
    log,
    open: (options?: RecordDirectoryOptions) => PodRecords.open(directory, log, options),
    openContainers: () => ContainerRecords.open(directory, log),
    /** The file of the record before it is opened. */
    write: async (content: unknown) => {
      await mkdir(directory);
      const text = typeof content === "string" ? content : JSON.stringify(content);
      await writeFile(join(directory, `${id}.json`), text);
    },
    [Symbol.asyncDispose]: () => temporary[Symbol.asyncDispose](),
  };
}

/** As `setUp`, with one pod on record. */
async function withRecord(options?: RecordDirectoryOptions) {
  const at = await setUp();
  const records = await at.open(options);
  await records.put(record());
  return { ...at, records };
}

describe("PodRecords", () => {
  test("put() keeps a record over a restart, in a private file", async () => {
    await using at = await withRecord();
    assert.deepEqual(at.records.get(id), record());
    assert.deepEqual((await at.open()).get(id), record());
    assert.equal(await readFile(at.path, "utf8"), `${JSON.stringify(record(), null, 2)}\n`);
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
    const modes = [(await stat(at.path)).mode & 0o777, (await stat(at.directory)).mode & 0o777];
    assert.deepEqual(modes, [0o600, 0o700]);
  });

  test("update() of one pod never loses the change before, and fails as its change does", async () => {
    await using at = await withRecord();
    const { records } = at;
    const increment = (present: PodRecord): PodRecord => ({ ...present, attempt: present.attempt + 1 });
    await Promise.all(Array.from({ length: 20 }, () => records.update(id, increment)));
    assert.equal((await at.open()).get(id)?.attempt, 20);
    assert.deepEqual(await records.update(id, increment), record({ attempt: 21 }));
    await rejectsWith(records.update("other", increment), "notFound");
    const failing = records.update(id, () => {
      throw new ShimError("precondition", "no");
    });
    await rejectsWith(failing, "precondition");
    assert.deepEqual(records.get(id), record({ attempt: 21 }));
  });

  test("remove() succeeds twice, also after a restart", async () => {
    await using at = await withRecord();
    for (const one of [id, id, "../x"]) await at.records.remove(one);
    assert.equal(at.records.get(id), undefined);
    assert.deepEqual([...(await at.open()).all()], []);
  });

  test("onChange() calls its listener after each change, until it is unsubscribed", async () => {
    await using at = await setUp();
    const records = await at.open();
    const heard: unknown[] = [];
    records.onChange(() => {
      throw new Error("a listener must not fail the change");
    });
    const end = records.onChange((sandboxId, changed) =>
      heard.push([sandboxId, changed?.phase, records.get(id)?.phase]),
    );
    await records.put(record());
    await records.update(id, (present) => present);
    await records.update(id, (present) => ({ ...present, phase: "stopped" }));
    for (let time = 0; time < 2; time += 1) await records.remove(id);
    end();
    await records.put(record());
    const phases = ["creating", "stopped", undefined];
    assert.deepEqual(
      heard,
      phases.map((phase) => [id, phase, phase]),
    );
  });

  test("put() refuses what the next start could not read", async () => {
    await using at = await withRecord();
    const network = { plugin: "noop", state: "none", ips: [undefined as unknown as string] } as const;
    for (const bad of [{ attempt: NaN }, { sandboxId: "../x" }, { sandboxId: "x".repeat(1000) }, { network }])
      await rejectsWith(at.records.put(record(bad)), "internal");
    const renamed = at.records.update(id, (present) => ({ ...present, sandboxId: "other" }));
    await rejectsWith(renamed, "internal");
    assert.deepEqual([...at.records.all()], [record()]);
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
  });
});

describe("keys of later releases", () => {
  test("stay in the file when this release rewrites it, at every level", async () => {
    await using at = await setUp();
    const later = {
      ...record({ network: { plugin: "cni", state: "ready", ips: ["10.0.0.2"] } }),
      overhead: { memory: 1 },
    };
    Object.assign(later.network, { interface: "eth0" });
    Object.assign(later.namespaces, { user: 2 });
    await at.write(later);
    const records = await at.open();
    await records.put(record({ phase: "stopped", network: { plugin: "cni", state: "tornDown", ips: [] } }));
    assert.deepEqual(JSON.parse(await readFile(at.path, "utf8")), {
      ...record({ phase: "stopped" }),
      overhead: { memory: 1 },
      namespaces: { network: 0, pid: 1, ipc: 0, user: 2 },
      network: { plugin: "cni", state: "tornDown", ips: [], interface: "eth0" },
    });
  });

  test("in a record of a later version are reported, left alone and not used", async () => {
    await using at = await setUp();
    const text = JSON.stringify({ ...record(), version: 2 });
    await at.write(text);
    assert.deepEqual([...(await at.open()).all()], []);
    assert.equal(await readFile(at.path, "utf8"), text);
    assert.equal(at.log.lines.length, 1);
  });
});

describe("failing disk", () => {
  const full = (path: string): never => {
    throw new ShimError("unavailable", `write "${path}": no space left on device`, { path });
  };

  test("memory stays equal to the disk when a write or a removal fails", async () => {
    let failing = false;
    await using at = await withRecord({
      writeFile: (path, ...rest) => (failing ? full(path) : replaceFileSync(path, ...rest)),
      removeFile: (path) => (failing ? full(path) : removeFileSync(path)),
    });
    const { records } = at;
    const heard: string[] = [];
    records.onChange((sandboxId) => heard.push(sandboxId));
    failing = true;
    const stop = (): Promise<unknown> => records.update(id, (one) => ({ ...one, phase: "stopped" }));
    const ready = (): Promise<void> => records.put(record({ phase: "ready" }));
    const added = (): Promise<void> => records.put(record({ sandboxId: "new" }));
    for (const change of [ready, stop, added, () => records.remove(id)])
      await rejectsWith(change(), "unavailable");
    assert.deepEqual([[...records.all()], heard], [[record()], []]);
    failing = false;
    await stop();
    assert.equal(records.get(id)?.phase, "stopped");
    await records.remove(id);
    assert.equal(records.get(id), undefined);
  });

  test("changes count before they are flushed; who waits gets the error of the flush", async () => {
    await using at = await setUp();
    const records = await at.open({ flusher: new Flusher(at.log) });
    using flushes = await HeldFlushes.start();
    flushes.hold();
    await records.put(record());
    assert.deepEqual(records.get(id), record());
    assert.equal((await at.open()).get(id)?.phase, "creating");
    flushes.failing = "EIO";
    flushes.release();
    await rejectsWith(records.flushed(id, never), "unavailable");
    await records.flushed("unknown", never);
    assert.deepEqual(records.get(id), record());
  });

  test("only the first write of a record is flushed with its name, and its removal not at all", async () => {
    await using at = await setUp();
    const flusher = new Flusher(at.log);
    using flushes = await HeldFlushes.start();
    const records = await at.open({ flusher });
    flushes.done.length = 0;
    await records.put(record());
    await records.flushed(id, never);
    assert.deepEqual(flushes.done, [`${id}.json`, "pods"]);
    await records.put(record({ phase: "ready" }));
    await flusher.close();
    await records.remove(id);
    await flusher.close();
    assert.deepEqual(flushes.done, [`${id}.json`, "pods", `${id}.json`]);
  });

  test("put() creates the directory again when it is gone, and fails with its path when it cannot be made", async () => {
    await using at = await withRecord();
    await rm(at.directory, { recursive: true });
    await at.records.put(record({ phase: "ready" }));
    assert.equal((await at.open()).get(id)?.phase, "ready");
    await rm(at.directory, { recursive: true });
    await writeFile(at.directory, "in the way");
    const fields = { path: at.directory, errno: "EEXIST" };
    await assert.rejects(at.records.put(record()), { name: "ShimError", fields });
    await assert.rejects(at.open(), { name: "ShimError" });
  });
});

describe("temporary and corrupt files", () => {
  test("open() sweeps temporary files of a killed writer, however young, and loads the rest", async () => {
    await using at = await withRecord();
    const stale = join(at.directory, ".dockershim-0123456789abcdef");
    for (const path of [stale, join(at.directory, "notes.txt")]) await writeFile(path, "half a rec");
    // The clock was set back since.
    await utimes(stale, new Date(Date.now() + 3_600_000), new Date(Date.now() + 3_600_000));
    assert.deepEqual([...(await at.open()).all()], [record()]);
    assert.deepEqual((await readdir(at.directory)).sort(), [`${id}.json`, "notes.txt"]);
  });

  const { network } = record();
  for (const [what, content] of Object.entries({
    empty: "",
    "half written": formatRecord(record()).slice(0, 50),
    "not an object": "[]",
    "of another sandbox": formatRecord(record({ sandboxId: "other" })),
    "with an unknown phase": JSON.stringify({ ...record(), phase: "x" }),
    "without its network": JSON.stringify({ ...record(), network: undefined }),
    "with an unknown network state": JSON.stringify({ ...record(), network: { ...network, state: 1 } }),
    "with namespaces of the wrong type": JSON.stringify({ ...record(), namespaces: { network: "0" } }),
  })) {
    test(`open() moves a file that is ${what} to the quarantine, and logs it`, async () => {
      await using at = await setUp();
      await (await at.open()).put(record({ sandboxId: "good" }));
      await writeFile(at.path, content);
      const records = await at.open();
      assert.deepEqual([...records.all()], [record({ sandboxId: "good" })]);
      assert.deepEqual(await readdir(at.directory), ["good.json"]);
      const [moved = ""] = await readdir(at.quarantine);
      assert.equal(await readFile(join(at.quarantine, moved), "utf8"), content);
      assert.equal(at.log.lines.length, 1);
      assert.equal(at.log.lines[0]?.fields["path"], at.path);
    });
  }

  test("open() goes on without a file that can be neither read as a record nor moved", async () => {
    await using at = await setUp();
    await mkdir(at.directory);
    await symlink("/etc/hostname", at.path);
    await writeFile(at.quarantine, "in the way");
    assert.deepEqual([...(await at.open()).all()], []);
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
    assert.equal(at.log.lines.length, 1);
  });
});

test("parseRecord() reads what formatRecord() wrote and names the first wrong field", () => {
  const utf8 = new TextEncoder();
  const parse = (value: unknown): unknown => parseRecord(utf8.encode(JSON.stringify(value)), podRecordType);
  const corrupt = (field: string) => ({ kind: "corrupt", reason: `${field} is missing or malformed` });
  const written = utf8.encode(formatRecord(record()));
  assert.deepEqual(parseRecord(written, podRecordType), { kind: "record", record: record() });
  for (const key of Object.keys(record()))
    assert.deepEqual(parse({ ...record(), [key]: undefined }), corrupt(key));
  for (const key of ["plugin", "state", "ips"]) {
    const wrong = { ...record(), network: { ...record().network, [key]: 7 } };
    assert.deepEqual(parse(wrong), corrupt(`network.${key}`));
  }
  const notUtf8 = parseRecord(Uint8Array.of(0xff), podRecordType);
  assert.deepEqual(notUtf8, { kind: "corrupt", reason: "not UTF-8" });
});

describe("ContainerRecords", () => {
  const twoMegabytes = { pageSize: "2MB", limitBytes: 1n << 63n };
  const oneGigabyte = { pageSize: "1GB", limitBytes: 0n };

  function limits(cgroup: Partial<ContainerRecord["cgroup"]> = {}): ContainerRecord {
    const { unified = { "memory.high": "1" }, hugepages = [twoMegabytes] } = cgroup;
    return { version: 1, containerId: id, cgroup: { unified, hugepages } };
  }

  const other = { pageSize: "2MB", limitBytes: 5n };
  for (const [what, changes, expected] of [
    ["nothing", {}, {}],
    ["a key", { unified: { "memory.low": "2" } }, { unified: { "memory.high": "1", "memory.low": "2" } }],
    ["the same key", { unified: { "memory.high": "max" } }, { unified: { "memory.high": "max" } }],
    ["a page size", { hugepages: [oneGigabyte] }, { hugepages: [twoMegabytes, oneGigabyte] }],
    ["the same page size", { hugepages: [other], unified: {} }, { hugepages: [other] }],
  ] as const) {
    test(`merge() of ${what} keeps the rest, over a restart, with byte counts beyond 2^53`, async () => {
      await using at = await setUp();
      const records = await at.openContainers();
      await records.put(limits());
      assert.match(await readFile(at.path, "utf8"), /"limitBytes": "9223372036854775808"/);
      await records.merge(id, changes);
      assert.deepEqual(records.get(id), limits(expected));
      assert.deepEqual((await at.openContainers()).get(id), limits(expected));
    });
  }

  test("merge() creates the record when there is none, and refuses what the next start could not read", async () => {
    await using at = await setUp();
    const records = await at.openContainers();
    const negative = { hugepages: [{ pageSize: "2MB", limitBytes: -1n }] };
    await rejectsWith(records.merge("../x", {}), "internal");
    await rejectsWith(records.merge(id, negative), "internal");
    assert.deepEqual(await readdir(at.directory), []);
    await records.merge(id, { hugepages: [oneGigabyte] });
    assert.deepEqual((await at.openContainers()).get(id), limits({ unified: {}, hugepages: [oneGigabyte] }));
  });

  test("merge() and put() keep the keys of a later release", async () => {
    await using at = await setUp();
    const later = { ...limits(), cgroup: { unified: {}, hugepages: [], rdma: { a: 1 } }, restored: "x" };
    await at.write(later);
    const records = await at.openContainers();
    await records.merge(id, { unified: { "memory.high": "1" } });
    await records.put(limits({ hugepages: [] }));
    const cgroup = { unified: { "memory.high": "1" }, hugepages: [], rdma: { a: 1 } };
    assert.deepEqual(JSON.parse(await readFile(at.path, "utf8")), { ...later, cgroup });
  });

  test("open() moves a corrupt file to the quarantine, logs its container, and names the wrong field", async () => {
    const text = formatRecord(limits());
    for (const [field, content] of [
      ["cgroup.hugepages", text.replace('"9223372036854775808"', '"1.5"')],
      ["cgroup.hugepages", text.replace('"9223372036854775808"', "5")],
      ["cgroup.unified", text.replace('"1"', "1")],
      ["cgroup", JSON.stringify({ version: 1, containerId: id })],
    ] as const) {
      const reason = `${field} is missing or malformed`;
      const parsed = parseRecord(new TextEncoder().encode(content), containerRecordType);
      assert.deepEqual(parsed, { kind: "corrupt", reason });
    }
    await using at = await setUp();
    await at.write("");
    assert.deepEqual([...(await at.openContainers()).all()], []);
    const [moved = ""] = await readdir(at.quarantine);
    assert.match(moved, /^container-/);
    const [line, ...others] = at.log.lines;
    assert.deepEqual([line?.level, line?.fields["containerId"], others], ["error", id, []]);
  });
});
