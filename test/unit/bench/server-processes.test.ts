import assert from "node:assert/strict";
import { once } from "node:events";
import { rename, symlink } from "node:fs/promises";
import { createServer } from "node:net";
import { basename, dirname, join } from "node:path";
import { statSync } from "node:fs";
import { test } from "node:test";
import {
  cpuSecondsOfTrees,
  listenerOf,
  parseListeners,
  parseStat,
  sumOfTrees,
} from "../../../bench/server-processes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const rows = `u_str LISTEN 0 4096 /run/docker.sock 11224483 * 0 users:(("systemd",pid=1,fd=42),("dockerd",pid=26,fd=3)) <-> ino:5 dev:0/171 peers:
u_str LISTEN 0      4096   /tmp/a b/3649794741 11705892            * 0    users:(("cri-dockerd",pid=48825,fd=8)) <-> ino:10289249 dev:0/65024 peers:
u_str LISTEN 0 4096 /run/of-another-namespace.sock 1 * 0 <-> ino:7 dev:0/171 peers:
u_str LISTEN 0 4096 @abstract 2 * 0 users:(("x",pid=3,fd=3)) <->
u_str ESTAB 0 0 /run/docker.sock 3 * 4 users:(("dockerd",pid=26,fd=9)) <-> ino:5 dev:0/171 peers:
`;

test("parseListeners() finds listening sockets with paths and processes, without PID 1", () => {
  assert.deepEqual(parseListeners(rows), [
    { path: "/run/docker.sock", inode: 5, pids: [26] },
    { path: "/tmp/a b/3649794741", inode: 10289249, pids: [48825] },
  ]);
});

test("listenerOf() finds a server that renamed its socket, also through a link to the directory", async () => {
  await using directory = await temporaryDirectory();
  const bound = join(directory.path, "123");
  const server = createServer().listen(bound);
  try {
    await once(server, "listening");
    const socket = join(directory.path, "cri.sock");
    await rename(bound, socket);
    const link = `${directory.path}/link`;
    await symlink(directory.path, link);
    const { ino } = statSync(socket);
    const listener = { path: bound, inode: ino, pids: [4321] };
    assert.equal(listenerOf(socket, [listener]), 4321);
    assert.equal(listenerOf(join(link, "cri.sock"), [listener]), 4321);
    assert.equal(listenerOf(socket, [{ ...listener, inode: ino + 1 }]), undefined);
    const elsewhere = join(dirname(dirname(bound)), basename(bound));
    assert.equal(listenerOf(socket, [{ ...listener, path: elsewhere }]), undefined);
  } finally {
    server.close();
  }
});

test("listenerOf() finds nothing where no socket is", () => {
  assert.equal(listenerOf("/nonexistent/cri.sock", []), undefined);
});

test("parseStat() adds the times of children that were waited for", () => {
  const stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 200 0 0 150 50 30 20 20 0 1 0 100 0 0";
  assert.deepEqual(parseStat(stat), { pid: 42, parent: 7, seconds: 2.5 });
});

test("sumOfTrees() counts descendants in any order of PIDs, and each process once", () => {
  const all = [
    { pid: 1, parent: 0, seconds: 100 },
    { pid: 5, parent: 30, seconds: 1 },
    { pid: 20, parent: 1, seconds: 2 },
    { pid: 30, parent: 20, seconds: 4 },
    { pid: 40, parent: 1, seconds: 8 },
  ];
  assert.equal(sumOfTrees(all, [20]), 7);
  assert.equal(sumOfTrees(all, [20, 30]), 7);
  assert.equal(sumOfTrees(all, [20, 40]), 15);
});

test("cpuSecondsOfTrees() says nothing of no process", () => {
  assert.ok(Number.isNaN(cpuSecondsOfTrees([])));
  assert.ok(cpuSecondsOfTrees([process.pid]) > 0);
});
