import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { readProcess, readRecord, stillRuns, writeRecord } from "../../../scripts/setup/record.mjs";
import { runningEnginePid } from "../../../scripts/setup/start-engine.mjs";

const folder = mkdtempSync(join(tmpdir(), "dockershim-record-"));
after(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe("readRecord()", () => {
  test("gives back what writeRecord() wrote", () => {
    const record = {
      installedPackages: ["docker.io"],
      engine: { pid: 12, startTime: "34", logFile: "/var/log/a" },
    };
    writeRecord(join(folder, "new"), record);
    assert.deepEqual(readRecord(join(folder, "new")), record);
  });

  for (const text of ["", "null", "[]", '{"installedPackages":5,"engine":{"pid":"1"}}']) {
    test(`is empty for a file with "${text}"`, () => {
      writeFileSync(join(folder, "setup.json"), text);
      assert.deepEqual(readRecord(folder), { installedPackages: [] });
    });
  }
});

describe("stillRuns()", { skip: process.platform !== "linux" }, () => {
  test("does not take another program with the number for the engine", () => {
    const startTime = readProcess(process.pid)?.startTime ?? "";
    assert.match(startTime, /^\d+$/);
    assert.equal(stillRuns({ pid: process.pid, startTime, logFile: "" }), false);
  });

  test("is false when there is no record", () => {
    assert.equal(stillRuns(undefined), false);
  });
});

test("runningEnginePid() does not believe a file with the number of another program", () => {
  const pidFile = join(folder, "docker.pid");
  writeFileSync(pidFile, String(process.pid));
  assert.equal(runningEnginePid(pidFile), undefined);
});
