import assert from "node:assert/strict";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  type EngineProcess,
  findContainerd,
  findDockerd,
} from "../../../../src/shim/host/processes/find-engine.js";
import { ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { listensOn, parseListeningSockets } from "../../../../src/shim/host/unix-listeners.js";
import { idOf } from "../../../fakes/snapshots.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { FakeProc, type FakeProcess } from "../fake-proc.js";

/** A fake /proc beside the engine's socket, which is a plain file here. */
async function setUp() {
  const fake = await FakeProc.make();
  const socket = join(fake.directory, "docker.sock");
  await writeFile(socket, "");
  const pidFiles = [join(fake.directory, "docker.pid")];
  return { fake, socket, pidFiles, [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose]() };
}

/** Properties of processes that are not services of the node. */
const foreign: readonly (readonly [what: string, changes: FakeProcess])[] = [
  ["is in another PID namespace", { pidNamespace: 9 }],
  ["is in the cgroup of a container", { cgroup: `0::/system.slice/docker-${idOf("3f")}.scope\n` }],
  ["is in the cgroup of a pod", { cgroup: "4:pids:/kubepods/besteffort/pod1/x\n0::/\n" }],
  ["is another user's", { users: [65_534, 65_534] }],
  ["runs with root's rights for another user", { users: [65_534, 0] }],
];

describe("findDockerd()", () => {
  test("finds the dockerd that holds the listening socket, without a pid file", async () => {
    await using at = await setUp();
    // systemd has opened the socket, and holds it as well.
    for (const pid of [1, 40]) await at.fake.add(pid, { comm: "systemd", sockets: { 7: at.socket } });
    await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket, 8: undefined }, startTime: 77 });
    await at.fake.add(60, { comm: "dockerd", sockets: { 9: join(at.fake.directory, "other.sock") } });
    assert.deepEqual(await findDockerd(at.fake.proc, at.socket, at.pidFiles), {
      pid: 50,
      command: "dockerd",
      startTime: "77",
    });
  });

  test("ignores a process that has put a link to the socket in the place of its own", async () => {
    await using at = await setUp();
    const own = join(at.fake.directory, "own.sock");
    await symlink(at.socket, own);
    await at.fake.add(50, { comm: "dockerd", sockets: { 7: own } });
    assert.equal(await findDockerd(at.fake.proc, at.socket, at.pidFiles), undefined);
  });

  const others: readonly (readonly [what: string, changes: (socket: string) => FakeProcess])[] = [
    ["does not hold the socket", (socket) => ({ sockets: {}, otherSockets: { 7: socket } })],
    ["is another program", () => ({ comm: "socat" })],
    ["listens elsewhere", () => ({ sockets: { 7: "/run/other.sock" } })],
    ["has bound a relative path", () => ({ sockets: { 7: "docker.sock" } })],
    ["listens on an abstract socket of that name", (socket) => ({ sockets: { 7: `@${socket}` } })],
    ["means a file in another mount namespace", () => ({ mountNamespace: 9, root: "/nowhere" })],
    ...foreign.map(([what, changes]) => [what, () => changes] as const),
  ];
  for (const [what, changes] of others) {
    test(`ignores a process that ${what}, even when the pid file names it`, async () => {
      await using at = await setUp();
      await writeFile(at.pidFiles[0] ?? "", "50");
      await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket }, ...changes(at.socket) });
      assert.equal(await findDockerd(at.fake.proc, at.socket, at.pidFiles), undefined);
    });
  }

  test("of two with the path (one is about to end), takes the one of the pid file, else none", async () => {
    await using at = await setUp();
    for (const pid of [50, 60]) await at.fake.add(pid, { comm: "dockerd", sockets: { [pid]: at.socket } });
    assert.equal(await findDockerd(at.fake.proc, at.socket, at.pidFiles), undefined);
    await writeFile(at.pidFiles[0] ?? "", "60\n");
    assert.equal((await findDockerd(at.fake.proc, at.socket, at.pidFiles))?.pid, 60);
  });

  test("reaches into another mount namespace, with links that lead to its own root", async () => {
    await using at = await setUp();
    const root = join(at.fake.directory, "root");
    await mkdir(join(root, "run"), { recursive: true });
    await mkdir(join(root, "var"));
    await symlink("/run", join(root, "var", "run"));
    await writeFile(join(root, "run", "docker.sock"), "");
    const sockets = { 7: "/var/run/docker.sock" };
    await at.fake.add(50, { comm: "dockerd", sockets, mountNamespace: 9, root });
    const seenHere = join(root, "run", "docker.sock");
    assert.equal((await findDockerd(at.fake.proc, seenHere, at.pidFiles))?.pid, 50);
    assert.equal(await findDockerd(at.fake.proc, at.socket, at.pidFiles), undefined);
  });
});

/** Notes which files of which processes are read. */
class NotingProc extends ProcFiles {
  readonly read = new Set<string>();
  override text(pid: number | "self", name: string): Promise<string | undefined> {
    this.read.add(`${pid} ${name}`);
    return super.text(pid, name);
  }
  override lines(...args: Parameters<ProcFiles["lines"]>): ReturnType<ProcFiles["lines"]> {
    this.read.add(`${args[0]} ${args[1]}`);
    return super.lines(...args);
  }
  override openFiles(...args: Parameters<ProcFiles["openFiles"]>): Promise<readonly string[]> {
    this.read.add(`${args[0]} fd`);
    return super.openFiles(...args);
  }
}

describe("findDockerd() and findContainerd() read no file of unlimited size", () => {
  for (const [what, changes] of foreign) {
    test(`of a process that ${what}`, async () => {
      await using at = await setUp();
      const proc = new NotingProc(at.fake.proc.root);
      await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket } });
      for (const [pid, comm] of [[100, "dockerd"] as const, [101, "containerd"] as const]) {
        await at.fake.add(pid, { comm, sockets: { 7: at.socket }, ...changes });
      }
      const dockerd = await findDockerd(proc, at.socket, at.pidFiles);
      assert.equal(dockerd?.pid, 50);
      await findContainerd(proc, dockerd);
      const limited = /^10[01] (?:comm|stat|cgroup|status)$/;
      const others = [...proc.read].filter((name) => name.startsWith("10") && !limited.test(name));
      assert.deepEqual(others, []);
      assert.ok(proc.read.has("50 net/unix") && proc.read.has("100 comm"));
    });
  }

  test("but finds an engine in the container that this program runs in, too", async () => {
    await using at = await setUp();
    const cgroup = `0::/docker/${idOf("3f")}\n`;
    await at.fake.add("self", { cgroup });
    await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket }, cgroup });
    assert.equal((await findDockerd(at.fake.proc, at.socket, at.pidFiles))?.pid, 50);
  });
});

describe("findContainerd()", () => {
  const dockerd: EngineProcess = { pid: 50, command: "dockerd", startTime: "1000" };
  const find = async (fake: FakeProc): Promise<number | undefined> =>
    (await findContainerd(fake.proc, dockerd))?.pid;

  test("finds the child of dockerd, not that of another", async () => {
    await using at = await setUp();
    await at.fake.add(50, { comm: "dockerd" });
    await at.fake.add(51, { comm: "containerd", parent: 50 });
    await at.fake.add(52, { comm: "docker-proxy", parent: 50 });
    await at.fake.add(61, { comm: "containerd", parent: 60 });
    assert.equal(await find(at.fake), 51);
  });

  for (const form of ["--containerd=SOCKET", "--containerd SOCKET", "--config-file CONFIG"]) {
    test(`finds the containerd that listens at the socket of ${form}`, async () => {
      await using at = await setUp();
      const socket = join(at.fake.directory, "containerd.sock");
      const config = join(at.fake.directory, "daemon.json");
      await writeFile(socket, "");
      await writeFile(config, JSON.stringify({ containerd: socket }));
      const flags = form.replace("SOCKET", socket).replace("CONFIG", config).split(" ");
      await at.fake.add(50, { comm: "dockerd", cmdline: ["dockerd", ...flags] });
      await at.fake.add(70, { comm: "containerd", sockets: { 7: socket } });
      await at.fake.add(71, { comm: "containerd", sockets: { 8: join(at.fake.directory, "k3s.sock") } });
      assert.equal(await find(at.fake), 70);
    });
  }

  test("finds the system's when nothing names another", async () => {
    await using at = await setUp();
    const root = join(at.fake.directory, "root");
    await mkdir(join(root, "run", "containerd"), { recursive: true });
    await writeFile(join(root, "run", "containerd", "containerd.sock"), "");
    const elsewhere = { mountNamespace: 9, root };
    await at.fake.add(50, { comm: "dockerd", ...elsewhere });
    const sockets = { 7: "/run/containerd/containerd.sock" };
    await at.fake.add(70, { comm: "containerd", sockets, ...elsewhere });
    assert.equal(await find(at.fake), 70);
  });

  for (const form of ["--exec-root=ROOT", "--config-file CONFIG", ""]) {
    test(`finds none when dockerd itself is containerd, whatever --containerd names (${form})`, async () => {
      await using at = await setUp();
      const root = join(at.fake.directory, "root");
      const elsewhere = { mountNamespace: 9, root };
      const execRoot = form === "" ? "/var/run/docker" : "/exec";
      const own = join(execRoot, "containerd", "containerd.sock");
      const system = "/run/containerd/containerd.sock";
      for (const socket of [own, system]) {
        await mkdir(join(root, socket, ".."), { recursive: true });
        await writeFile(join(root, socket), "");
      }
      await writeFile(join(root, "daemon.json"), JSON.stringify({ "exec-root": execRoot }));
      const flags = form.replace("ROOT", execRoot).replace("CONFIG", "/daemon.json").split(" ");
      const cmdline = ["dockerd", `--containerd=${system}`, ...flags];
      await at.fake.add(50, { comm: "dockerd", cmdline, sockets: { 6: own }, ...elsewhere });
      await at.fake.add(70, { comm: "containerd", sockets: { 7: system }, ...elsewhere });
      assert.equal(await find(at.fake), undefined);
      await at.fake.add(50, { comm: "dockerd", cmdline, ...elsewhere });
      assert.equal(await find(at.fake), 70);
    });
  }

  test("ignores a containerd that listens on no socket of this dockerd", async () => {
    await using at = await setUp();
    await at.fake.add(50, { comm: "dockerd", cmdline: ["dockerd", "--containerd=/no/such.sock"] });
    await at.fake.add(70, { comm: "containerd", sockets: { 7: "/no/such.sock" } });
    assert.equal(await find(at.fake), undefined);
  });
});

describe("listensOn()", () => {
  test("finds the sockets of this process, until their file is replaced", async () => {
    await using at = await temporaryDirectory();
    const path = join(at.path, "a b.sock");
    const proc = new ProcFiles();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(path, resolve));
    try {
      assert.equal(await listensOn(proc, process.pid, path), true);
      assert.equal(await listensOn(proc, process.ppid, path), false);
      assert.equal(await listensOn(proc, process.pid, join(at.path, "other.sock")), false);
      await rm(path);
      assert.equal(await listensOn(proc, process.pid, path), false);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test("parseListeningSockets() leaves out connections, sockets without a name and the heading", () => {
    const lines = [
      "Num       RefCount Protocol Flags    Type St Inode Path",
      "0000000021ba4a02: 00000002 00000000 00010000 0001 01 21946 /var/run/docker.sock",
      "00000000364f0129: 00000003 00000000 00000000 0001 03 21976 /run/connected.sock",
      "00000000f28559b5: 00000003 00000000 00000000 0001 03 21972",
      "0000000021ba4a03: 00000002 00000000 00010000 0001 01   946 /run/a b.sock",
      "",
    ];
    assert.deepEqual(parseListeningSockets(lines), [
      { inode: "21946", path: "/var/run/docker.sock" },
      { inode: "946", path: "/run/a b.sock" },
    ]);
  });

  test("finds one among the sockets of pods in the host's network", async () => {
    await using at = await setUp();
    const others = Array.from({ length: 3_000 }, (_, index) => [1000 + index, `@${"x".repeat(100)}${index}`]);
    const otherSockets = Object.fromEntries(others) as Record<number, string>;
    await at.fake.add(50, { comm: "dockerd", sockets: { 999_999: at.socket }, otherSockets });
    assert.equal(await listensOn(at.fake.proc, 50, at.socket), true);
  });
});
