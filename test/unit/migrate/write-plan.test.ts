import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { undoPlan, writePlan } from "../../../src/migrate/plan/write-plan.js";
import { kubeadm130, makeNode, plainUnits } from "./nodes.js";
import { kubeadmFlags, planOf, snapshot } from "./plan-bed.js";

describe("writePlan() and undoPlan()", () => {
  test("keep modes, keep copies in a private directory, and restore every file", async (t) => {
    const root = makeNode(t, kubeadm130);
    await chmod(join(root, kubeadmFlags), 0o600);
    const before = snapshot(root);
    const { edits } = await planOf(root, "1.30.0");
    const directory = await writePlan(root, edits);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
    assert.equal((await stat(join(root, kubeadmFlags))).mode & 0o777, 0o600);
    assert.deepEqual((await planOf(root, "1.30.0")).edits, []);
    const undone = await undoPlan(directory);
    assert.deepEqual(undone, [
      { path: "/etc/systemd/system/dockershim.service", change: "removed" },
      { path: kubeadmFlags, change: "restored" },
    ]);
    await undoPlan(directory);
    await rm(join(root, "/var/lib/dockershim-migrate"), { recursive: true });
    assert.deepEqual(snapshot(root), before);
  });

  test("refuse when a file has changed since, and change nothing", async (t) => {
    const root = makeNode(t, kubeadm130);
    const { edits } = await planOf(root, "1.30.0");
    const change = async (): Promise<Record<string, string>> => {
      await writeFile(join(root, kubeadmFlags), "by hand\n");
      return snapshot(root);
    };
    const directory = await writePlan(root, edits);
    let before = await change();
    await assert.rejects(undoPlan(directory), /kubeadm-flags\.env" has changed since; what it had is in/);
    assert.deepEqual(snapshot(root), before);
    before = await change();
    await assert.rejects(writePlan(root, edits), /has changed since it was read/);
    assert.deepEqual(snapshot(root), before);
  });

  test("undoPlan() removes the directories that writePlan() made, and leaves those with other files", async (t) => {
    const dropIns = "/etc/systemd/system/kubelet.service.d";
    for (const isShared of [false, true]) {
      const root = makeNode(t, plainUnits);
      const directory = await writePlan(root, (await planOf(root, "1.22.0")).edits);
      assert.ok((await stat(join(root, dropIns))).isDirectory());
      if (isShared) await writeFile(join(root, dropIns, "50-own.conf"), "");
      await undoPlan(directory);
      const names = await readdir(join(root, dropIns)).catch(() => undefined);
      assert.deepEqual(names, isShared ? ["50-own.conf"] : undefined);
    }
  });

  test("a file that changes while the others are written stays as it is", async (t) => {
    const root = makeNode(t, { "/etc/a": "a\n" });
    // The second edit of one file stands for another writer between the check of all files and the writing.
    const edits = [
      { path: "/etc/a", before: "a\n", after: "b\n" },
      { path: "/etc/a", before: "a\n", after: "c\n" },
    ];
    await assert.rejects(writePlan(root, edits), /has changed since it was read.*all files are as before/);
    assert.equal(await readFile(join(root, "/etc/a"), "utf8"), "a\n");
  });

  test("when one file cannot be written, those before it are restored", async (t) => {
    const root = makeNode(t, kubeadm130);
    const { edits } = await planOf(root, "1.30.0");
    // A directory of that name cannot be made where a file is.
    await writeFile(join(root, "/etc/blocked"), "");
    const blocked = { path: "/etc/blocked/file", before: undefined, after: "x\n" };
    const before = snapshot(root);
    await assert.rejects(writePlan(root, [...edits, blocked]), /all files are as before/);
    await rm(join(root, "/var/lib/dockershim-migrate"), { recursive: true });
    assert.deepEqual(snapshot(root), before);
  });

  test("undoPlan() names what is wrong with a directory that is none of --write", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "dockershim-undo-"));
    t.after(() => rm(directory, { recursive: true }));
    const manifest = { format: "dockershim-migrate-undo", version: 1, root: "/", files: [], directories: [] };
    const file = { path: "/../etc/passwd", backup: null, mode: 0, uid: 0, gid: 0, writtenSha256: null };
    for (const [content, message] of [
      [undefined, /there is no manifest\.json; give the directory that --write printed/],
      ["{", /manifest\.json is not JSON/],
      [JSON.stringify({ ...manifest, version: 2 }), /newer version/],
      [JSON.stringify({ ...manifest, files: [file] }), /not of this program/],
      [JSON.stringify({ ...manifest, directories: ["/etc/../home"] }), /not of this program/],
    ] as const) {
      if (content !== undefined) await writeFile(join(directory, "manifest.json"), content);
      await assert.rejects(undoPlan(directory), message);
    }
  });
});
