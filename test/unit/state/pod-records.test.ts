import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { removeFileDurably, writeFileAtomically } from "../../../src/shim/lib/files/atomic-file.js";
import { isKind, ShimError } from "../../../src/shim/lib/errors.js";
import { silentLogger, type Logger } from "../../../src/shim/lib/log.js";
import { formatPodRecord, parsePodRecord } from "../../../src/shim/state/pod-record.js";
import { PodRecords, type PodRecord, type PodRecordsOptions } from "../../../src/shim/state/pod-records.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const id = "3f".repeat(32);

function record(changes: Partial<PodRecord> = {}): PodRecord {
  return {
    version: 1,
    sandboxId: id,
    namespace: "default",
    name: "web-0",
    uid: "0a1b",
    attempt: 0,
    phase: "creating",
    runtimeHandler: "",
    namespaces: { network: 0, pid: 1, ipc: 0 },
    network: { plugin: "noop", state: "none", ips: [] },
    logDirectory: "/var/log/pods/x",
    cgroupParent: "",
    ...changes,
  };
}

interface Setting extends AsyncDisposable {
  readonly directory: string;
  readonly quarantine: string;
  readonly errors: readonly Record<string, unknown>[];
  open(options?: PodRecordsOptions): Promise<PodRecords>;
}

async function setUp(): Promise<Setting> {
  const temporary = await temporaryDirectory();
  const directory = join(temporary.path, "pods");
  const errors: Record<string, unknown>[] = [];
  const log: Logger = Object.assign(Object.create(silentLogger()) as Logger, {
    error: (fields: Record<string, unknown>) => errors.push(fields),
  });
  return {
    directory,
    quarantine: join(temporary.path, "quarantine"),
    errors,
    open: (options) => PodRecords.open(directory, log, options),
    [Symbol.asyncDispose]: () => temporary[Symbol.asyncDispose](),
  };
}

const pathIn = (at: Setting, sandboxId = id): string => join(at.directory, `${sandboxId}.json`);

describe("PodRecords", () => {
  test("put() keeps a record over a restart, in a private file", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    assert.deepEqual(records.get(id), record());
    assert.deepEqual((await at.open()).get(id), record());
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
    assert.equal((await stat(pathIn(at))).mode & 0o777, 0o600);
    assert.equal((await stat(at.directory)).mode & 0o777, 0o700);
  });

  test("update() gives the changed record back and keeps it over a restart", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    const changed = await records.update(id, (present) => ({ ...present, phase: "ready" }));
    assert.deepEqual(changed, record({ phase: "ready" }));
    assert.deepEqual([...(await at.open()).all()], [record({ phase: "ready" })]);
  });

  test("update() of one pod never loses the change before", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    const increment = (present: PodRecord): PodRecord => ({ ...present, attempt: present.attempt + 1 });
    await Promise.all(Array.from({ length: 20 }, () => records.update(id, increment)));
    assert.equal((await at.open()).get(id)?.attempt, 20);
  });

  test("update() fails with notFound for a pod without a record, and with the error of its change", async () => {
    await using at = await setUp();
    const records = await at.open();
    await assert.rejects(
      records.update(id, (present) => present),
      (error) => isKind(error, "notFound"),
    );
    await records.put(record());
    const failing = records.update(id, () => {
      throw new ShimError("precondition", "no");
    });
    await assert.rejects(failing, (error) => isKind(error, "precondition"));
    assert.deepEqual(records.get(id), record());
  });

  test("remove() succeeds twice, also after a restart", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
    await records.remove(id);
    await records.remove(id);
    await records.remove("../x");
    assert.equal(records.get(id), undefined);
    assert.deepEqual([...(await at.open()).all()], []);
  });

  test("onChange() tells of each change once it is made, until it is ended", async () => {
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
    await mkdir(at.directory);
    const later = {
      ...record({ network: { plugin: "cni", state: "ready", ips: ["10.0.0.2"] } }),
      overhead: { memory: 1 },
    };
    Object.assign(later.network, { interface: "eth0" });
    Object.assign(later.namespaces, { user: 2 });
    await writeFile(pathIn(at), JSON.stringify(later));
    const records = await at.open();
    await records.put(record({ phase: "stopped", network: { plugin: "cni", state: "tornDown", ips: [] } }));
    assert.deepEqual(JSON.parse(await readFile(pathIn(at), "utf8")), {
      ...record({ phase: "stopped" }),
      overhead: { memory: 1 },
      namespaces: { network: 0, pid: 1, ipc: 0, user: 2 },
      network: { plugin: "cni", state: "tornDown", ips: [], interface: "eth0" },
    });
  });

  test("so do those of earlier ones: the path of the network namespace is neither read nor lost", async () => {
    await using at = await setUp();
    await mkdir(at.directory);
    const earlier = record();
    Object.assign(earlier.network, { netns: "/proc/1/ns/net" });
    await writeFile(pathIn(at), JSON.stringify(earlier));
    const records = await at.open();
    assert.equal(records.get(id)?.phase, earlier.phase);
    await records.update(id, (present) => ({
      ...present,
      network: { plugin: "cni", state: "tornDown", ips: [] },
    }));
    const { network } = JSON.parse(await readFile(pathIn(at), "utf8")) as Record<string, unknown>;
    assert.deepEqual(network, { plugin: "cni", state: "tornDown", ips: [], netns: "/proc/1/ns/net" });
  });

  test("a record of a later version is reported, left alone and not used", async () => {
    await using at = await setUp();
    await mkdir(at.directory);
    const text = JSON.stringify({ ...record(), version: 2 });
    await writeFile(pathIn(at), text);
    const records = await at.open();
    assert.deepEqual([...records.all()], []);
    assert.equal(await readFile(pathIn(at), "utf8"), text);
    assert.equal(at.errors.length, 1);
  });
});

describe("failing disk", () => {
  const full = (path: string): Promise<never> =>
    Promise.reject(new ShimError("unavailable", `write "${path}": no space left on device`, { path }));

  test("memory says what the disk says when a write fails", async () => {
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

  test("a record stays in memory when its removal fails", async () => {
    await using at = await setUp();
    let failing = true;
    const records = await at.open({ removeFile: (path) => (failing ? full(path) : removeFileDurably(path)) });
    await records.put(record());
    await assert.rejects(records.remove(id), (error) => isKind(error, "unavailable"));
    assert.deepEqual(records.get(id), record());
    failing = false;
    await records.remove(id);
    assert.equal(records.get(id), undefined);
  });

  test("put() makes the directory again when it has vanished", async () => {
    await using at = await setUp();
    const records = await at.open();
    await records.put(record());
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

describe("crash leftovers and corrupt files", () => {
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
    ["half written", formatPodRecord(record()).slice(0, 50)],
    ["not an object", "[]"],
    ["of another sandbox", formatPodRecord(record({ sandboxId: "other" }))],
    ["with an unknown phase", JSON.stringify({ ...record(), phase: "x" })],
    ["without its network", JSON.stringify({ ...record(), network: undefined })],
    [
      "with an unknown network state",
      JSON.stringify({ ...record(), network: { ...record().network, state: 1 } }),
    ],
    ["with namespaces of the wrong type", JSON.stringify({ ...record(), namespaces: { network: "0" } })],
  ];
  for (const [name, content] of corrupt) {
    test(`open() moves a file to the quarantine that is ${name}, and says so`, async () => {
      await using at = await setUp();
      await (await at.open()).put(record({ sandboxId: "good" }));
      await writeFile(pathIn(at), content);
      const records = await at.open();
      assert.deepEqual([...records.all()], [record({ sandboxId: "good" })]);
      assert.deepEqual(await readdir(at.directory), ["good.json"]);
      const [moved = ""] = await readdir(at.quarantine);
      assert.equal(await readFile(join(at.quarantine, moved), "utf8"), content);
      assert.equal(at.errors.length, 1);
      assert.equal(at.errors[0]?.["path"], pathIn(at));
    });
  }

  test("open() goes on without a file that can be neither read as a record nor moved", async () => {
    await using at = await setUp();
    await mkdir(at.directory);
    await symlink("/etc/hostname", pathIn(at));
    await writeFile(at.quarantine, "in the way");
    assert.deepEqual([...(await at.open()).all()], []);
    assert.deepEqual(await readdir(at.directory), [`${id}.json`]);
    assert.equal(at.errors.length, 1);
  });
});

test("parsePodRecord() reads what formatPodRecord() wrote and names the first wrong field", () => {
  const utf8 = new TextEncoder();
  const parse = (value: unknown): unknown => parsePodRecord(utf8.encode(JSON.stringify(value)));
  assert.deepEqual(parsePodRecord(utf8.encode(formatPodRecord(record()))), {
    kind: "record",
    record: record(),
  });
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
  assert.deepEqual(parsePodRecord(Uint8Array.of(0xff)), { kind: "corrupt", reason: "not UTF-8" });
});
