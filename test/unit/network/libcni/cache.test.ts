import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import {
  cacheFileName,
  formatCacheEntry,
  parseCacheEntry,
  type CacheEntry,
  ResultCache,
} from "../../../../src/network/libcni/cache.js";
import { Flusher } from "../../../../src/lib/files/flusher.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { countFlushes } from "../../lib/files/held-flushes.js";
import { golden } from "../cni/golden.js";

const recorded = golden<{ cacheFile: { name: string; content: object } }>("protocol.json").cacheFile;
const id = "8dbd9e392a964056b7a24c8b1d2c3f5e";

const entry: CacheEntry = {
  containerId: id,
  ifName: "eth0",
  networkName: "my-net",
  netns: "/proc/1/ns/net",
  config: '{"name":"my-net","plugins":[{"type":"ü"}]}',
  cniArgs: [["IgnoreUnknown", "1"]],
  capabilityArgs: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp", hostIP: "" }] },
  result: { cniVersion: "0.4.0" },
  phase: "added",
};

describe("the format", () => {
  test("an entry of the Go library is read and written as the library has it", () => {
    const read = parseCacheEntry(JSON.stringify(recorded.content), recorded.name);
    const { containerId, networkName, ifName, phase } = read;
    assert.deepEqual([containerId, networkName, ifName, phase], [id, "demo", "eth0", undefined]);
    assert.equal((JSON.parse(read.config ?? "") as { name: string }).name, "demo");
    assert.equal(cacheFileName(read), recorded.name);
    assert.deepEqual(JSON.parse(formatCacheEntry(read)), recorded.content);
  });

  test("a bare result of a very old library belongs to the container in the file's name", () => {
    const read = parseCacheEntry('{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"}}', `a-b-${id}-eth0`, id);
    assert.deepEqual([read.networkName, read.containerId, read.ifName], ["a-b", id, "eth0"]);
    assert.equal(read.config, undefined);
  });

  for (const text of ["", "{", "[]", '{"kind":"other"}', '{"kind":"cniCacheV1"}']) {
    test(`${JSON.stringify(text)} is no entry`, () => {
      assert.throws(() => parseCacheEntry(text, `net-${id}-eth0`, id));
    });
  }
});

describe("ResultCache", () => {
  let directory: string;
  let legacy: string;
  let cache: ResultCache;
  let log: ReturnType<typeof recordingLog>;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "cni-cache-"));
    legacy = join(directory, "legacy", "results");
    await mkdir(legacy, { recursive: true });
    log = recordingLog();
    cache = new ResultCache(join(directory, "own"), log, [legacy]);
    await cache.open();
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  test("all writes of an attachment are flushed in the background, the first with its name", async () => {
    const { result, ...begun } = entry;
    const flusher = new Flusher(log);
    const told: string[] = [];
    flusher.written = (path, isNew) => {
      told.push(`${basename(path)} ${isNew ? "new" : "replaced"}`);
      return false;
    };
    flusher.removed = (path) => told.push(`${basename(path)} removed`);
    cache = new ResultCache(join(directory, "own"), log, [], flusher);
    const flushes = await countFlushes(async () => {
      await cache.write({ ...begun, phase: "adding" });
      await cache.write({ ...entry, result: result!, phase: "adding" });
      await cache.write(entry);
      await cache.write({ ...entry, phase: "deleting" });
      cache.remove(entry);
    });
    assert.equal(flushes, 0);
    const name = `my-net-${id}-eth0`;
    const steps = ["new", "replaced", "replaced", "replaced", "removed"].map((step) => `${name} ${step}`);
    assert.deepEqual(told, steps);
    assert.deepEqual(await cache.find(id), { entries: [], corrupt: [] });
  });

  /** That of the next process. */
  const next = (): ResultCache => new ResultCache(join(directory, "own"), log, [legacy]);
  const own = (name: string): string => join(directory, "own", "results", name);

  test("write() makes a private file where the library looks for it", async () => {
    await cache.write(entry);
    const path = own(`my-net-${id}-eth0`);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal((await stat(own("."))).mode & 0o777, 0o700);
    assert.deepEqual(await readdir(own(".")), [`my-net-${id}-eth0`]);
    assert.deepEqual((await cache.find(id)).entries, [entry]);
  });

  test("find() also finds what other shims left, our own first, each attachment once", async () => {
    const { phase: _phase, ...foreign } = { ...entry, netns: "/old" };
    await writeFile(join(legacy, cacheFileName(entry)), formatCacheEntry(foreign));
    const second = { ...foreign, ifName: "eth1" };
    await writeFile(join(legacy, cacheFileName(second)), formatCacheEntry(second));
    assert.deepEqual((await cache.find(id)).entries, [foreign, second]);
    await cache.write(entry);
    assert.deepEqual((await next().find(id)).entries, [entry, second]);
    assert.deepEqual((await cache.find("other")).entries, []);
  });

  test("remove() forgets what an earlier process wrote into another directory, also once its tear-down was begun", async () => {
    await writeFile(join(legacy, cacheFileName(entry)), formatCacheEntry(entry));
    await cache.write({ ...entry, phase: "deleting" });
    const other = { ...entry, networkName: "other" };
    await writeFile(join(legacy, cacheFileName(other)), formatCacheEntry(other));
    assert.deepEqual((await cache.find(id)).entries, [{ ...entry, phase: "deleting" }, other]);
    for (const each of [entry, other]) cache.remove(each);
    assert.deepEqual([await readdir(legacy), await readdir(own("."))], [[], []]);
  });

  test("find() reports files of the container that cannot be read, and list() passes by them", async () => {
    await cache.write(entry);
    await writeFile(own(`x-${id}-eth0`), "{ broken");
    await mkdir(own(`y-${id}-eth0`));
    const found = await next().find(id);
    assert.deepEqual(found.entries, [entry]);
    assert.deepEqual([...found.corrupt].sort(), [own(`x-${id}-eth0`), own(`y-${id}-eth0`)]);
    assert.equal(log.linesAt("warn").length, 2);
    assert.deepEqual(await cache.list(), [entry]);
  });

  test("an entry under the name of another attachment is not believed", async () => {
    const lying = formatCacheEntry({ ...entry, networkName: "../../escape" });
    await writeFile(own(`net-${id}-eth0`), lying);
    const found = await cache.find(id);
    assert.deepEqual([found.entries, found.corrupt], [[], [own(`net-${id}-eth0`)]]);
  });

  test("open() sweeps what a crashed writer left, and nothing else", async () => {
    const temporary = own(`.dockershim-${"0".repeat(16)}`);
    await writeFile(temporary, "{");
    await cache.write(entry);
    await cache.open();
    assert.deepEqual(await readdir(own(".")), [cacheFileName(entry)]);
    assert.equal(await readFile(own(cacheFileName(entry)), "utf8"), formatCacheEntry(entry));
  });
});
