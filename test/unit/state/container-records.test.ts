import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isKind } from "../../../src/shim/lib/errors.js";
import { formatContainerRecord, parseContainerRecord } from "../../../src/shim/state/container-record.js";
import { ContainerRecords, type ContainerRecord } from "../../../src/shim/state/container-records.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const id = idOf("3f");
const twoMegabytes = { pageSize: "2MB", limitBytes: 1n << 63n };
const oneGigabyte = { pageSize: "1GB", limitBytes: 0n };

function record(cgroup: Partial<ContainerRecord["cgroup"]> = {}): ContainerRecord {
  const { unified = { "memory.high": "1" }, hugepages = [twoMegabytes] } = cgroup;
  return { version: 1, containerId: id, cgroup: { unified, hugepages } };
}

interface Setting extends AsyncDisposable {
  readonly directory: string;
  readonly path: string;
  readonly log: ReturnType<typeof recordingLog>;
  open(): Promise<ContainerRecords>;
}

async function setUp(): Promise<Setting> {
  const temporary = await temporaryDirectory();
  const directory = join(temporary.path, "containers");
  const log = recordingLog();
  return {
    ...{ directory, log },
    path: join(directory, `${id}.json`),
    open: () => ContainerRecords.open(directory, log),
    [Symbol.asyncDispose]: () => temporary[Symbol.asyncDispose](),
  };
}

describe("ContainerRecords", () => {
  test("put() keeps a record over a restart, with byte counts beyond 2^53", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    assert.deepEqual(records.get(id), record());
    const later = await at.open();
    assert.deepEqual(later.get(id), record());
    assert.deepEqual([...later.all()], [record()]);
    assert.match(await readFile(at.path, "utf8"), /"limitBytes": "9223372036854775808"/);
  });

  test("remove() forgets it, and succeeds when there is none", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    await records.remove(id);
    await records.remove(id);
    assert.equal(records.get(id), undefined);
    assert.equal((await at.open()).get(id), undefined);
  });

  const merges: readonly (readonly [
    what: string,
    changes: Parameters<ContainerRecords["merge"]>[1],
    expected: ContainerRecord,
  ])[] = [
    ["nothing", {}, record()],
    [
      "another unified key",
      { unified: { "memory.low": "2" } },
      record({ unified: { "memory.high": "1", "memory.low": "2" } }),
    ],
    [
      "the same unified key",
      { unified: { "memory.high": "max" } },
      record({ unified: { "memory.high": "max" } }),
    ],
    ["another page size", { hugepages: [oneGigabyte] }, record({ hugepages: [twoMegabytes, oneGigabyte] })],
    [
      "the same page size",
      { hugepages: [{ pageSize: "2MB", limitBytes: 5n }], unified: {} },
      record({ hugepages: [{ pageSize: "2MB", limitBytes: 5n }] }),
    ],
  ];
  for (const [what, changes, expected] of merges) {
    test(`merge() of ${what} keeps the rest, over a restart`, async () => {
      await using at = await setUp();
      const records = await at.open();
      await records.put(record());
      await records.merge(id, changes);
      assert.deepEqual(records.get(id), expected);
      assert.deepEqual((await at.open()).get(id), expected);
    });
  }

  test("merge() makes the record when there is none", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.merge(id, { hugepages: [oneGigabyte] });
    assert.deepEqual((await at.open()).get(id), record({ unified: {}, hugepages: [oneGigabyte] }));
  });

  test("concurrent merges of one container lose nothing", async () => {
    await using at = await setUp();
    const records = await at.open();
    const keys = Array.from({ length: 20 }, (_, index) => `io.${String(index)}`);
    await Promise.all(keys.map((key) => records.merge(id, { unified: { [key]: "1" } })));
    assert.deepEqual(Object.keys((await at.open()).get(id)?.cgroup.unified ?? {}).sort(), keys.sort());
  });

  test("put() and merge() refuse what the next start could not read", async () => {
    await using at = await setUp();
    const records = await at.open();
    const negative = { hugepages: [{ pageSize: "2MB", limitBytes: -1n }] };
    for (const work of [
      records.put(record(negative)),
      records.merge("../x", {}),
      records.merge(id, negative),
    ]) {
      await assert.rejects(work, (error) => isKind(error, "internal"));
    }
    assert.deepEqual(await readdir(at.directory), []);
  });

  test("keys of a later release stay in the file when this one rewrites it", async () => {
    await using at = await setUp();
    await mkdir(at.directory);
    const later = { ...record(), cgroup: { unified: {}, hugepages: [], rdma: { a: 1 } }, checkpoint: "x" };
    await writeFile(at.path, JSON.stringify(later));
    const records = await at.open();
    await records.merge(id, { unified: { "memory.high": "1" } });
    await records.put(record({ hugepages: [] }));
    assert.deepEqual(JSON.parse(await readFile(at.path, "utf8")), {
      ...later,
      cgroup: { unified: { "memory.high": "1" }, hugepages: [], rdma: { a: 1 } },
    });
  });

  const text = formatContainerRecord(record());
  const corrupt: readonly (readonly [what: string, content: string])[] = [
    ["is empty", ""],
    ["is half written", text.slice(0, 40)],
    ["is of another container", text.replace(id, "other")],
    ["has a byte count that is no integer", text.replace('"9223372036854775808"', '"1.5"')],
    ["has a byte count that is a number", text.replace('"9223372036854775808"', "5")],
    ["has a unified value that is no string", text.replace('"1"', "1")],
    ["has no cgroup", JSON.stringify({ version: 1, containerId: id })],
  ];
  for (const [what, content] of corrupt) {
    test(`open() moves a file to the quarantine that ${what}, and says so`, async () => {
      await using at = await setUp();
      await mkdir(at.directory);
      await writeFile(at.path, content);
      assert.deepEqual([...(await at.open()).all()], []);
      const quarantine = join(at.directory, "..", "quarantine");
      const [moved = ""] = await readdir(quarantine);
      assert.match(moved, /^container-/);
      assert.equal(await readFile(join(quarantine, moved), "utf8"), content);
      assert.deepEqual(
        at.log.lines.map(({ level, fields }) => [level, fields["containerId"]]),
        [["error", id]],
      );
    });
  }
});

test("parseContainerRecord() leaves a later version alone", () => {
  const text = JSON.stringify({ version: 2, containerId: id });
  assert.deepEqual(parseContainerRecord(new TextEncoder().encode(text)), { kind: "newer", version: 2 });
});
