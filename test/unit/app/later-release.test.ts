/** A downgrade: each kind of file of the state directory, as a later release may write it, is named and left as it is. */
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { historyDirectory } from "../../../src/history/history-files.js";
import { HistoryWriter } from "../../../src/history/history-writer.js";
import { readHistory } from "../../../src/history/read-history.js";
import { isKind } from "../../../src/lib/errors.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { nodeFiles } from "../../../src/play/node/files.js";
import { listPodRecords } from "../../../src/play/node/pod-record.js";
import { PlayStore } from "../../../src/play/store/play-store.js";
import { openStores } from "../../../src/shim/app/open-stores.js";
import { newRecord } from "../../../src/shim/logs/log-record.js";
import { PodCidrFile } from "../../../src/shim/state/pod-cidr-file.js";
import { isOwnEntry } from "../../../src/install/wipe-files.js";
import { podRecord, recordedId as id } from "../../fakes/pod-record.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const later = '{ "version": 2, "new": { "of": "a later release" } }';
const endpoint = "unix:///run/dockershim.sock";
const uid = "3f2b8c5e-0000-4000-8000-000000000001";

/** What has no version: why that needs none. */
const withoutVersion: Readonly<Record<string, string>> = {
  "sandbox/": "a directory",
  ".dockershim-HEX": "not a file yet",
  "engine-id": "an id; another one is never written over",
  "quarantine/": "never read",
  "instance.sock": "no content",
  "programs/": "named by digests",
  "setup.json": "of the set-up of a checkout",
  "setup-packages.log": "never read",
  "dockerd.log": "never read",
};

test("files of a later release are named, and neither read nor written over", async () => {
  await using directory = await temporaryDirectory();
  const state = join(directory.path, "state");
  const plays = join(state, "play", "plays.d");
  const store = new PlayStore(plays, endpoint);
  const files: Readonly<Record<string, string>> = {
    "sandbox/ID": join(state, "sandbox", id),
    "pods/ID.json": join(state, "pods", `${id}.json`),
    "containers/ID.json": join(state, "containers", `${id}.json`),
    "logs/ID.json": join(state, "logs", `${id}.json`),
    "history/v1-NUMBER.jsonl": join(state, "history", "v2-00000001.jsonl"),
    "pod-cidrs.json": join(state, "pod-cidrs.json"),
    "play/": join(state, "play", uid, "pod.json"),
    "plays of play/": join(store.directory, `play-${uid}.json`),
  };
  const checkpoint = '{"version":"v2","name":"web","namespace":"default","data":[],"checksum":"new"}';
  const contents = Object.entries(files).map(
    ([kind, path]) => [path, kind === "sandbox/ID" ? checkpoint : later] as const,
  );
  for (const [path, content] of contents) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }

  const documented = await readFile(join(repositoryRoot, "docs/run/files-on-disk.md"), "utf8");
  const [, table = ""] = /^## State directory\n(.*?)\n\*\*The pod record/ms.exec(documented) ?? [];
  const rows = [...table.matchAll(/^\| (`.*?) \| /gm)].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path),
  );
  const known = (path: string): boolean => files[path] !== undefined || withoutVersion[path] !== undefined;
  const others = ["sandbox/", "pods/", "containers/", "logs/"];
  assert.deepEqual(
    rows.filter((path) => !known(path) && !others.includes(path)),
    [],
    "a kind of file that this test does not know",
  );
  for (const path of rows) assert.ok(isOwnEntry(path.replace(/\/.*/, "")), path);

  const log = recordingLog();
  const lifetime = new Lifetime(log);
  const { records, logRecords } = await openStores(
    { stateDir: state, programName: "dockershim" },
    log,
    lifetime,
  );
  const isRefused = (error: unknown): boolean =>
    isKind(error, "precondition") && /its file has version 2, of a later release/.test(error.message);
  assert.equal(records.pods.get(id), undefined);
  await assert.rejects(records.pods.put({ ...podRecord(), sandboxId: id }), isRefused);
  await assert.rejects(records.containers.merge(id, { unified: { "memory.high": "1" } }), isRefused);
  const logRecord = newRecord(id, { directory: "/var/log/pods/x", path: "/var/log/pods/x/0.log" });
  await assert.rejects(logRecords.put(logRecord), isRefused);
  assert.equal(await records.checkpoints.get(id), undefined);
  const cidrs = new PodCidrFile(join(state, "pod-cidrs.json"), log);
  assert.deepEqual(cidrs.read(), []);
  await cidrs.write(["10.1.0.0/16"]);
  const reported: string[] = [];
  const report = (line: string): void => void reported.push(line);
  const directories = { state: join(state, "play"), logs: "/var/log/pods", seccomp: "/seccomp" };
  await listPodRecords({ files: nodeFiles, directories, report });
  await store.list(report);
  const history = historyDirectory(state);
  const writer = new HistoryWriter({ directory: history, bytes: 2 ** 20, ageMs: 1000, log });
  writer.add({ kind: "lost", at: 1, count: 1 });
  await writer.close();
  (await readHistory(history)).later.forEach(report);
  await lifetime.close();

  for (const [path, content] of contents) assert.equal(await readFile(path, "utf8"), content, path);
  const said = [...log.lines.map((line) => JSON.stringify(line)), ...reported];
  for (const [path] of contents)
    assert.ok(
      said.some((line) => line.includes(path)),
      `${path} is not named`,
    );
  assert.deepEqual(
    log.lines.flatMap(({ message }) => (/quarantine/.test(message) ? [message] : [])),
    [],
  );
});
