import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { awaitsService, descriptorAt } from "../../../src/shim/host/unix-listeners.js";
import { FakeProc } from "./fake-proc.js";

for (const [holders, expected] of [
  [{ 1: "systemd" }, true],
  [{ 1: "systemd", 40: "cri-dockerd" }, false],
  [{ 40: "cri-dockerd" }, false],
  [{ 40: "systemd" }, false],
  [{ 1: "init" }, false],
  [{}, false],
] as readonly (readonly [Record<number, string>, boolean])[]) {
  test(`a socket of ${JSON.stringify(holders)} ${expected ? "awaits its service" : "does not count as free"}`, async () => {
    await using fake = await FakeProc.make();
    const sockets = { 7: "/run/fake/cri.sock" };
    await fake.add("self", { otherSockets: sockets });
    for (const [pid, comm] of Object.entries(holders)) await fake.add(Number(pid), { comm, sockets });
    assert.equal(await awaitsService(fake.proc, "/run/fake/cri.sock"), expected);
  });
}

test("descriptorAt() finds the passed socket of a path through links, and no other one", async () => {
  await using fake = await FakeProc.make();
  await mkdir(join(fake.directory, "run"));
  await symlink("run", join(fake.directory, "var-run"));
  const bound = join(fake.directory, "run", "cri.sock");
  await writeFile(bound, "");
  const socket = join(fake.directory, "var-run", "cri.sock");
  await fake.add("self", { sockets: { 7: "/run/other.sock", 8: bound, 9: undefined } });
  assert.equal(await descriptorAt(fake.proc, socket, [3, 4, 5]), 4);
  assert.equal(await descriptorAt(fake.proc, socket, [3, 5]), undefined);
  assert.equal(await descriptorAt(fake.proc, socket, []), undefined);
});

test("descriptorAt() does not take a socket in whose place a link to the path lies now", async () => {
  await using fake = await FakeProc.make();
  const [bound, former] = ["cri.sock", "former.sock"].map((name) => join(fake.directory, name));
  assert.ok(bound !== undefined && former !== undefined);
  await writeFile(bound, "");
  await symlink(bound, former);
  await fake.add("self", { sockets: { 7: former } });
  assert.equal(await descriptorAt(fake.proc, bound, [3]), undefined);
});
