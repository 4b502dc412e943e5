import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runMigrateCheck } from "../../../../src/migrate/cli/migrate-command.js";
import { kubeadm130, makeNode } from "../nodes.js";

describe("runMigrateCheck()", () => {
  const io = (out: string[]) => ({
    ...{ environment: {}, version: "1.2.3", isTerminal: false },
    writeOut: (text: string) => out.push(text),
  });

  test("without an engine it reports the node's files, names the socket, and makes no directory", async (t) => {
    const root = await makeNode(t, kubeadm130);
    const before = (await readdir(root, { recursive: true })).sort();
    const out: string[] = [];
    const options = {
      to: "dockershim",
      output: "json",
      root,
      endpoint: undefined,
      kubeletVersion: "1.30",
    } as const;
    assert.equal(await runMigrateCheck(options, io(out)), 2);
    const report = JSON.parse(out.join("")) as { format: string; findings: { id: string; text: string }[] };
    assert.equal(report.format, "dockershim-migrate-check");
    assert.equal(report.findings[0]?.id, "engine-unreachable");
    assert.ok(report.findings[0].text.includes(join(root, "/var/run/docker.sock")));
    assert.deepEqual((await readdir(root, { recursive: true })).sort(), before);
  });

  test("a root that is no directory is an error that names it", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "dockershim-root-"));
    t.after(() => rm(directory, { recursive: true }));
    await mkdir(join(directory, "a"));
    const options = {
      to: "dockershim",
      output: "page",
      endpoint: undefined,
      kubeletVersion: undefined,
    } as const;
    const root = join(directory, "none");
    await assert.rejects(runMigrateCheck({ ...options, root }, io([])), /flag "--root": ".*none": ENOENT/);
  });
});
