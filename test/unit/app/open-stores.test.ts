import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, describe } from "node:test";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { openStores } from "../../../src/shim/app/open-stores.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { newRecord } from "../../../src/shim/logs/log-record.js";
import { flushed } from "../../../src/shim/state/records.js";
import { podRecord, recordedId as id } from "../../fakes/pod-record.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { HeldFlushes } from "../lib/files/held-flushes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { isKind } from "../../../src/lib/errors.js";
import { openStreaming } from "../../../src/shim/app/adapters.js";
import { configOf } from "../../fakes/config.js";
import { fakeCommand, sleepForever } from "../../fakes/streaming-sessions.js";

const record = podRecord();

test("checkpoints and records of pods are flushed, the rest at the end of the program; other records never", async () => {
  await using directory = await temporaryDirectory();
  const log = recordingLog();
  const lifetime = new Lifetime(log);
  const stores = await openStores(
    { stateDir: join(directory.path, "state"), programName: "dockershim" },
    log,
    lifetime,
  );
  const { records, logRecords } = stores;
  using flushes = await HeldFlushes.start();
  await records.checkpoints.put(id, { version: "v1", name: "web-0", namespace: "default", data: {} });
  await records.pods.put(record);
  await records.containers.merge(id, { unified: { "memory.high": "1" } });
  await logRecords.put(newRecord(id, { directory: "/var/log/pods/x", path: "/var/log/pods/x/0.log" }));
  await flushed(id, records, new AbortController().signal);
  assert.deepEqual(flushes.done.slice().sort(), [id, `${id}.json`, "pods", "sandbox"].sort());
  await records.pods.put({ ...record, phase: "ready" });
  await lifetime.close();
  assert.deepEqual(flushes.done.slice(4), [`${id}.json`]);
  assert.deepEqual(log.lines, []);
});

for (const programName of ["dockershim", "cri-dockerd"] as const) {
  test(`${programName} can read the checkpoints that are written in its place`, async () => {
    await using directory = await temporaryDirectory();
    const log = recordingLog();
    const lifetime = new Lifetime(log);
    const { records } = await openStores({ stateDir: directory.path, programName }, log, lifetime);
    await records.checkpoints.put(id, { version: "v1", name: "web-0", namespace: "default", data: {} });
    await lifetime.close();
    const found = decodeCheckpoint(await readFile(join(directory.path, "sandbox", id)));
    assert.ok(found.kind === "checkpoint");
    assert.equal(found.flavour, programName === "dockershim" ? "dockershim" : "criDockerd");
  });
}

describe("openStreaming()", () => {
  test("listens where the flag says, until the lifetime ends", async () => {
    const log = recordingLog();
    const lifetime = new Lifetime(log);
    const config = await configOf({ "streaming-bind-addr": "127.0.0.1" });
    const server = await openStreaming(config, log, lifetime);
    const url = server.offer(fakeCommand(sleepForever));
    assert.match(url, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/exec\//);
    await lifetime.close();
    await assert.rejects(fetch(url));
  });

  test("throws invalid, with the flag, for a file that cannot be read", async () => {
    const log = recordingLog();
    const config = await configOf({
      "streaming-tls-cert-file": "/nonexistent/cert.pem",
      "streaming-tls-private-key-file": "/nonexistent/key.pem",
    });
    await assert.rejects(
      openStreaming(config, log, new Lifetime(log)),
      (error) => isKind(error, "invalid") && error.message.startsWith("--streaming-tls-cert-file: read"),
    );
  });
});
