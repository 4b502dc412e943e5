import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/lib/errors.js";
import { removeFile, writeFileAtomically } from "../../../src/lib/files/atomic-file.js";
import {
  ContainerRecords,
  containerRecordType,
  type ContainerRecord,
} from "../../../src/shim/state/container-records.js";
import { podRecordType, PodRecords, type PodRecord } from "../../../src/shim/state/pod-records.js";
import {
  formatRecord,
  parseRecord,
  type RecordDirectoryOptions,
} from "../../../src/lib/files/record-directory.js";
import { Flusher } from "../../../src/lib/files/flusher.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { podRecord as record, recordedId as id } from "../../fakes/pod-record.js";
import { HeldFlushes } from "../lib/files/held-flushes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

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
    const { records } = at;
    assert.deepEqual(records.get(id), record());
    assert.deepEqual((await at.open()).get(id), record());
    assert.equal(await readFile(at.path, "utf8"), `${JSON.stringify(record(), null, 2)}\n`);
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
    assert.equal((await stat(at.path)).mode & 0o777, 0o600);
    assert.equal((await stat(at.directory)).mode & 0o777, 0o700);
  });

  test("update() gives the changed record back and keeps it over a restart", async () => {
    await using at = await withRecord();
    const { records } = at;
    const changed = await records.update(id, (present) => ({ ...present, phase: "ready" }));
    assert.deepEqual(changed, record({ phase: "ready" }));
    assert.deepEqual([...(await at.open()).all()], [record({ phase: "ready" })]);
  });

  test("update() of one pod never loses the change before", async () => {
    await using at = await withRecord();
    const { records } = at;
    const increment = (present: PodRecord): PodRecord => ({ ...present, attempt: present.attempt + 1 });
    await Promise.all(Array.from({ length: 20 }, () => records.update(id, increment)));
    assert.equal((await at.open()).get(id)?.attempt, 20);
  });

  test("update() fails with notFound for a pod without a record, and with the error of its change", async () => {
    await using at = await withRecord();
    const { records } = at;
    await assert.rejects(
      records.update("other", (present) => present),
      (error) => isKind(error, "notFound"),
    );
    const failing = records.update(id, () => {
      throw new ShimError("precondition", "no");
    });
    await assert.rejects(failing, (error) => isKind(error, "precondition"));
    assert.deepEqual(records.get(id), record());
  });

  test("remove() succeeds twice, also after a restart", async () => {
    await using at = await withRecord();
    const { records } = at;
    await records.remove(id);
    await records.remove(id);
    await records.remove("../x");
    assert.equal(records.get(id), undefined);
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
    await records.remove(id);
    await records.remove(id);
    end();
    await records.put(record());
    assert.deepEqual(heard, [
      [id, "creating", "creating"],
      [id, "stopped", "stopped"],
      [id, undefined, undefined],
    ]);
  });

  test("put() refuses what the next start could not read", async () => {
    await using at = await setUp();
    const records = await at.open();
    const wrong = [
      record({ attempt: NaN }),
      record({ sandboxId: "../x" }),
      record({ sandboxId: "x".repeat(1000) }),
      record({ network: { plugin: "noop", state: "none", ips: [undefined as unknown as string] } }),
    ];
    for (const bad of wrong) await assert.rejects(records.put(bad), (error) => isKind(error, "internal"));
    await records.put(record());
    await assert.rejects(
      records.update(id, (present) => ({ ...present, sandboxId: "other" })),
      (error) => isKind(error, "internal"),
    );
    assert.deepEqual([...records.all()], [record()]);
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

  test("a record of a later version is reported, left alone and not used", async () => {
    await using at = await setUp();
    const text = JSON.stringify({ ...record(), version: 2 });
    await at.write(text);
    const records = await at.open();
    assert.deepEqual([...records.all()], []);
    assert.equal(await readFile(at.path, "utf8"), text);
    assert.equal(at.log.lines.length, 1);
  });
});

describe("failing disk", () => {
  const full = (path: string): Promise<never> =>
    Promise.reject(new ShimError("unavailable", `write "${path}": no space left on device`, { path }));

  test("memory stays equal to the disk when a write fails", async () => {
    await using at = await setUp();
    let failing = false;
    const records = await at.open({
      writeFile: (path, ...rest) => (failing ? full(path) : writeFileAtomically(path, ...rest)),
    });
    await records.put(record());
    const heard: string[] = [];
    records.onChange((sandboxId) => heard.push(sandboxId));
    failing = true;
    await assert.rejects(records.put(record({ phase: "ready" })), (error) => isKind(error, "unavailable"));
    await assert.rejects(
      records.update(id, (present) => ({ ...present, phase: "stopped" })),
      (error) => isKind(error, "unavailable"),
    );
    await assert.rejects(records.put(record({ sandboxId: "new" })), (error) => isKind(error, "unavailable"));
    assert.deepEqual([...records.all()], [record()]);
    assert.deepEqual(heard, []);
    failing = false;
    await records.update(id, (present) => ({ ...present, phase: "stopped" }));
    assert.equal(records.get(id)?.phase, "stopped");
  });

  test("a reader sees a change only after it is on disk", async () => {
    await using at = await setUp();
    const seenWhileWriting: unknown[] = [];
    const records: PodRecords = await at.open({
      writeFile: async (...args) => {
        await writeFileAtomically(...args);
        seenWhileWriting.push(records.get(id)?.phase);
      },
    });
    await records.put(record());
    await records.put(record({ phase: "ready" }));
    assert.deepEqual(seenWhileWriting, [undefined, "creating"]);
  });

  test("changes count before they are flushed; who waits gets the error of the flush", async () => {
    await using at = await setUp();
    const flusher = new Flusher(at.log);
    const records = await at.open({ flusher });
    using flushes = await HeldFlushes.start();
    flushes.hold();
    await records.put(record());
    assert.deepEqual(records.get(id), record());
    assert.equal((await at.open()).get(id)?.phase, "creating");
    flushes.failing = "EIO";
    flushes.release();
    const { signal } = new AbortController();
    await assert.rejects(records.flushed(id, signal), (error) => isKind(error, "unavailable"));
    await records.flushed("unknown", signal);
    assert.deepEqual(records.get(id), record());
  });

  test("only the first write of a record is flushed with its name, and its removal not at all", async () => {
    await using at = await setUp();
    const flusher = new Flusher(at.log);
    using flushes = await HeldFlushes.start();
    const records = await at.open({ flusher });
    flushes.done.length = 0;
    await records.put(record());
    await records.flushed(id, new AbortController().signal);
    assert.deepEqual(flushes.done, [`${id}.json`, "pods"]);
    await records.put(record({ phase: "ready" }));
    await flusher.close();
    await records.remove(id);
    await flusher.close();
    assert.deepEqual(flushes.done, [`${id}.json`, "pods", `${id}.json`]);
  });

  test("a record stays in memory when its removal fails", async () => {
    await using at = await setUp();
    let failing = true;
    const records = await at.open({ removeFile: (path) => (failing ? full(path) : removeFile(path)) });
    await records.put(record());
    await assert.rejects(records.remove(id), (error) => isKind(error, "unavailable"));
    assert.deepEqual(records.get(id), record());
    failing = false;
    await records.remove(id);
    assert.equal(records.get(id), undefined);
  });

  test("put() creates the directory again when it is gone", async () => {
    await using at = await withRecord();
    const { records } = at;
    await rm(at.directory, { recursive: true });
    await records.put(record({ phase: "ready" }));
    assert.equal((await at.open()).get(id)?.phase, "ready");
  });

  test("open() and put() fail with the path when the directory cannot be made", async () => {
    await using at = await setUp();
    const records = await at.open();
    await rm(at.directory, { recursive: true });
    await writeFile(at.directory, "in the way");
    await assert.rejects(records.put(record()), {
      name: "ShimError",
      fields: { path: at.directory, errno: "EEXIST" },
    });
    await assert.rejects(at.open(), { name: "ShimError" });
  });
});

describe("temporary and corrupt files", () => {
  test("open() sweeps temporary files of a killed writer, however young, and loads the rest", async () => {
    await using at = await setUp();
    await (await at.open()).put(record());
    const stale = join(at.directory, ".dockershim-0123456789abcdef");
    const foreign = join(at.directory, "notes.txt");
    for (const path of [stale, foreign]) await writeFile(path, "half a rec");
    // The clock was set back since.
    await utimes(stale, new Date(Date.now() + 3_600_000), new Date(Date.now() + 3_600_000));
    assert.deepEqual([...(await at.open()).all()], [record()]);
    assert.deepEqual((await readdir(at.directory)).sort(), [`${id}.json`, "notes.txt"]);
  });

  const corrupt: readonly (readonly [name: string, content: string])[] = [
    ["empty", ""],
    ["half written", formatRecord(record()).slice(0, 50)],
    ["not an object", "[]"],
    ["of another sandbox", formatRecord(record({ sandboxId: "other" }))],
    ["with an unknown phase", JSON.stringify({ ...record(), phase: "x" })],
    ["without its network", JSON.stringify({ ...record(), network: undefined })],
    [
      "with an unknown network state",
      JSON.stringify({ ...record(), network: { ...record().network, state: 1 } }),
    ],
    ["with namespaces of the wrong type", JSON.stringify({ ...record(), namespaces: { network: "0" } })],
  ];
  for (const [name, content] of corrupt) {
    test(`open() moves a file that is ${name} to the quarantine, and logs it`, async () => {
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
  const written = utf8.encode(formatRecord(record()));
  assert.deepEqual(parseRecord(written, podRecordType), { kind: "record", record: record() });
  for (const key of Object.keys(record())) {
    const { [key as keyof PodRecord]: _, ...rest } = record();
    assert.deepEqual(parse(rest), { kind: "corrupt", reason: `${key} is missing or malformed` });
  }
  for (const key of ["plugin", "state", "ips"]) {
    assert.deepEqual(parse({ ...record(), network: { ...record().network, [key]: 7 } }), {
      kind: "corrupt",
      reason: `network.${key} is missing or malformed`,
    });
  }
  const corrupt = parseRecord(Uint8Array.of(0xff), podRecordType);
  assert.deepEqual(corrupt, { kind: "corrupt", reason: "not UTF-8" });
});

describe("ContainerRecords", () => {
  const twoMegabytes = { pageSize: "2MB", limitBytes: 1n << 63n };
  const oneGigabyte = { pageSize: "1GB", limitBytes: 0n };

  function limits(cgroup: Partial<ContainerRecord["cgroup"]> = {}): ContainerRecord {
    const { unified = { "memory.high": "1" }, hugepages = [twoMegabytes] } = cgroup;
    return { version: 1, containerId: id, cgroup: { unified, hugepages } };
  }

  test("put() keeps byte counts beyond 2^53 over a restart, as decimal text", async () => {
    await using at = await setUp();
    const records = await at.openContainers();
    await records.put(limits());
    assert.deepEqual((await at.openContainers()).get(id), limits());
    assert.match(await readFile(at.path, "utf8"), /"limitBytes": "9223372036854775808"/);
  });

  const merges: readonly (readonly [
    what: string,
    changes: Parameters<ContainerRecords["merge"]>[1],
    expected: ContainerRecord,
  ])[] = [
    ["nothing", {}, limits()],
    [
      "another unified key",
      { unified: { "memory.low": "2" } },
      limits({ unified: { "memory.high": "1", "memory.low": "2" } }),
    ],
    [
      "the same unified key",
      { unified: { "memory.high": "max" } },
      limits({ unified: { "memory.high": "max" } }),
    ],
    ["another page size", { hugepages: [oneGigabyte] }, limits({ hugepages: [twoMegabytes, oneGigabyte] })],
    [
      "the same page size",
      { hugepages: [{ pageSize: "2MB", limitBytes: 5n }], unified: {} },
      limits({ hugepages: [{ pageSize: "2MB", limitBytes: 5n }] }),
    ],
  ];
  for (const [what, changes, expected] of merges) {
    test(`merge() of ${what} keeps the rest, over a restart`, async () => {
      await using at = await setUp();
      const records = await at.openContainers();
      await records.put(limits());
      await records.merge(id, changes);
      assert.deepEqual(records.get(id), expected);
      assert.deepEqual((await at.openContainers()).get(id), expected);
    });
  }

  test("merge() creates the record when there is none, and refuses what the next start could not read", async () => {
    await using at = await setUp();
    const records = await at.openContainers();
    const negative = { hugepages: [{ pageSize: "2MB", limitBytes: -1n }] };
    for (const work of [records.merge("../x", {}), records.merge(id, negative)]) {
      await assert.rejects(work, (error) => isKind(error, "internal"));
    }
    assert.deepEqual(await readdir(at.directory), []);
    await records.merge(id, { hugepages: [oneGigabyte] });
    assert.deepEqual((await at.openContainers()).get(id), limits({ unified: {}, hugepages: [oneGigabyte] }));
  });

  test("merge() and put() keep the keys of a later release", async () => {
    await using at = await setUp();
    const later = { ...limits(), cgroup: { unified: {}, hugepages: [], rdma: { a: 1 } }, checkpoint: "x" };
    await at.write(later);
    const records = await at.openContainers();
    await records.merge(id, { unified: { "memory.high": "1" } });
    await records.put(limits({ hugepages: [] }));
    assert.deepEqual(JSON.parse(await readFile(at.path, "utf8")), {
      ...later,
      cgroup: { unified: { "memory.high": "1" }, hugepages: [], rdma: { a: 1 } },
    });
  });

  const text = formatRecord(limits());
  const corrupt: readonly (readonly [what: string, content: string, field: string])[] = [
    ["a byte count that is no integer", text.replace('"9223372036854775808"', '"1.5"'), "cgroup.hugepages"],
    ["a byte count that is a number", text.replace('"9223372036854775808"', "5"), "cgroup.hugepages"],
    ["a unified value that is no string", text.replace('"1"', "1"), "cgroup.unified"],
    ["no cgroup", JSON.stringify({ version: 1, containerId: id }), "cgroup"],
  ];
  for (const [what, content, field] of corrupt) {
    test(`parseRecord() refuses a file with ${what}`, () => {
      assert.deepEqual(parseRecord(new TextEncoder().encode(content), containerRecordType), {
        kind: "corrupt",
        reason: `${field} is missing or malformed`,
      });
    });
  }

  test("open() moves a corrupt file to the quarantine, and logs its container", async () => {
    await using at = await setUp();
    await at.write("");
    assert.deepEqual([...(await at.openContainers()).all()], []);
    const [moved = ""] = await readdir(at.quarantine);
    assert.match(moved, /^container-/);
    assert.deepEqual(
      at.log.lines.map(({ level, fields }) => [level, fields["containerId"]]),
      [["error", id]],
    );
  });
});
