import { spawnSync } from "node:child_process";
import { once } from "node:events";
import promises, { link, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, mock, test } from "node:test";
import assert from "node:assert/strict";
import { isKind } from "../../../src/lib/errors.js";
import { bindUnixSocket, isServed } from "../../../src/lib/unix-socket.js";
import { turns } from "../../fakes/turns.js";
import { rejectsWith } from "../../support/refusals.js";

async function newPlace() {
  const directory = await mkdtemp(join(tmpdir(), "bind-test-"));
  const servers: Server[] = [];
  return {
    directory,
    path: join(directory, "x.sock"),
    newServer() {
      const server = createServer((socket) => socket.destroy());
      servers.push(server);
      return server;
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function assertAnswers(path: string): Promise<void> {
  const client = connect(path);
  await once(client, "connect");
  client.destroy();
}

/** The file that a killed server leaves behind. */
function leaveStaleSocket(path: string): void {
  const script = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 9))`;
  spawnSync(process.execPath, ["-e", script]);
}

/** Timers end at endAll() alone, also those of `node:timers/promises`. */
function holdTimers() {
  mock.timers.enable({ apis: ["setTimeout"] });
  syncBuiltinESMExports();
  return {
    /** Ends all timers that there are, until `work` is done. */
    async endAll<T>(work: Promise<T>): Promise<T> {
      let isDone = false;
      const done = work.finally(() => (isDone = true));
      done.catch(() => undefined);
      while (!isDone) {
        mock.timers.runAll();
        await turns(1);
      }
      return done;
    },
    [Symbol.dispose]() {
      mock.timers.reset();
      syncBuiltinESMExports();
    },
  };
}

describe("bindUnixSocket()", () => {
  for (const mode of [0o600, 0o660]) {
    test(`makes a socket of mode ${mode.toString(8)}, whatever the umask, and nothing beside it`, async () => {
      await using place = await newPlace();
      const previous = process.umask(0o027);
      try {
        await bindUnixSocket(place.newServer(), place.path, { mode });
      } finally {
        assert.equal(process.umask(previous), 0o027, "the umask is restored");
      }
      assert.equal((await stat(place.path)).mode & 0o777, mode);
      assert.deepEqual(await readdir(place.directory), ["x.sock"]);
      await assertAnswers(place.path);
    });
  }

  test("makes missing parent directories of mode 0750", async () => {
    await using place = await newPlace();
    const path = join(place.directory, "a", "b", "x.sock");
    await bindUnixSocket(place.newServer(), path);
    assert.equal((await stat(dirname(path))).mode & 0o777, 0o750);
    await assertAnswers(path);
  });

  for (const before of ["nothing", "a stale socket"]) {
    test(`gives the name to one of many servers that start at once, after ${before}`, async () => {
      await using place = await newPlace();
      if (before !== "nothing") leaveStaleSocket(place.path);
      const binds = Array.from({ length: 8 }, () => bindUnixSocket(place.newServer(), place.path));
      const results = await Promise.allSettled(binds);
      assert.equal(results.filter(({ status }) => status === "fulfilled").length, 1);
      for (const result of results) {
        if (result.status === "rejected") assert.ok(isKind(result.reason, "conflict"));
      }
      await assertAnswers(place.path);
      assert.deepEqual(await readdir(place.directory), ["x.sock"]);
    });
  }

  test("waits for no time when it replaces a stale socket", { timeout: 10_000 }, async () => {
    await using place = await newPlace();
    leaveStaleSocket(place.path);
    using _ = holdTimers();
    await bindUnixSocket(place.newServer(), place.path);
  });

  test("leaves a server alone that has replaced the stale socket since it was found", async () => {
    await using place = await newPlace();
    leaveStaleSocket(place.path);
    let looks = 0;
    const isFree = async (): Promise<boolean> => {
      looks += 1;
      // At the first look nothing is made yet; the second one is followed by the removal.
      if (looks === 2) await bindUnixSocket(place.newServer(), place.path);
      return looks < 3;
    };
    await rejectsWith(
      bindUnixSocket(place.newServer(), place.path, { isFree }),
      "conflict",
      /another server/,
    );
    await assertAnswers(place.path);
    assert.deepEqual(await readdir(place.directory), ["x.sock"]);
  });

  for (const [what, passedMs] of [
    ["a minute ago", 60_000],
    ["an hour before the clock was set back", -3_600_000],
  ] as const) {
    test(`goes on after a process that was killed while it removed a stale socket, ${what}`, async (t) => {
      await using place = await newPlace();
      leaveStaleSocket(place.path);
      await link(place.path, join(place.directory, ".x.sock.stale"));
      const now = Date.now() + passedMs;
      t.mock.method(Date, "now", () => now);
      await bindUnixSocket(place.newServer(), place.path);
      await assertAnswers(place.path);
      assert.deepEqual(await readdir(place.directory), ["x.sock"]);
    });
  }

  test("waits until a process that removes a stale socket has had a second for it", async (t) => {
    await using place = await newPlace();
    leaveStaleSocket(place.path);
    await link(place.path, join(place.directory, ".x.sock.stale"));
    const { ctimeMs } = await stat(place.path);
    let looks = 0;
    t.mock.method(Date, "now", () => ctimeMs + looks * 10);
    using timers = holdTimers();
    const isFree = (): Promise<boolean> => Promise.resolve(++looks > 0);
    await timers.endAll(bindUnixSocket(place.newServer(), place.path, { isFree }));
    assert.ok(looks > 100);
    assert.deepEqual(await readdir(place.directory), ["x.sock"]);
  });

  test("gives up while other processes remove a stale socket one after another", async (t) => {
    await using place = await newPlace();
    leaveStaleSocket(place.path);
    await link(place.path, join(place.directory, ".x.sock.stale"));
    const { ctimeMs } = await stat(place.path);
    t.mock.method(Date, "now", () => ctimeMs);
    using timers = holdTimers();
    const second = place.newServer();
    const bound = timers.endAll(bindUnixSocket(second, place.path, { isFree: () => Promise.resolve(true) }));
    await rejectsWith(bound, "conflict", /other servers are taking this name/);
    assert.equal(second.listening, false);
    assert.deepEqual((await readdir(place.directory)).sort(), [".x.sock.stale", "x.sock"]);
  });

  test("is not held up between the last look at a stale socket and its removal, when another server may take over", async (t) => {
    await using place = await newPlace();
    leaveStaleSocket(place.path);
    const { unlink } = promises;
    let other: Promise<unknown> | undefined;
    t.after(() => {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    });
    t.mock.method(promises, "unlink", async (path: string) => {
      if (path === place.path && other === undefined) {
        const later = Date.now() + 2_000;
        t.mock.method(Date, "now", () => later);
        other = bindUnixSocket(place.newServer(), place.path);
        await other;
      }
      await unlink(path);
    });
    syncBuiltinESMExports();
    await bindUnixSocket(place.newServer(), place.path);
    await rejectsWith(other ?? bindUnixSocket(place.newServer(), place.path), "conflict", /another server/);
  });

  test("refuses a path on which another server answers, and leaves that one alone", async () => {
    await using place = await newPlace();
    await bindUnixSocket(place.newServer(), place.path);
    const second = place.newServer();
    const message = /^listen on ".*x\.sock": another server answers there$/;
    await rejectsWith(bindUnixSocket(second, place.path), "conflict", message);
    assert.equal(second.listening, false);
    await assertAnswers(place.path);
    assert.deepEqual(await readdir(place.directory), ["x.sock"]);
  });

  test("takes the path of what counts as no server, and does not connect to it", async () => {
    await using place = await newPlace();
    const other = place.newServer();
    await bindUnixSocket(other, place.path);
    other.on("connection", () => assert.fail("connected"));
    const own = place.newServer();
    await bindUnixSocket(own, place.path, { isFree: (path) => Promise.resolve(path === place.path) });
    const connected = once(own, "connection");
    await assertAnswers(place.path);
    await connected;
  });

  test("refuses to replace what is not a socket", async () => {
    await using place = await newPlace();
    const target = join(place.directory, "target");
    await writeFile(target, "precious");
    await mkdir(join(place.directory, "folder"));
    await symlink(target, join(place.directory, "link"));
    for (const name of ["target", "folder", "link"]) {
      const binding = bindUnixSocket(place.newServer(), join(place.directory, name));
      await rejectsWith(binding, "precondition", /a file that is not a socket is in the way/);
    }
    assert.deepEqual((await readdir(place.directory)).sort(), ["folder", "link", "target"]);
  });

  test("reports what the system refuses", async () => {
    await using place = await newPlace();
    await writeFile(join(place.directory, "file"), "");
    const binding = bindUnixSocket(place.newServer(), join(place.directory, "file", "x.sock"));
    await rejectsWith(binding, "precondition", /^listen on ".*": (ENOTDIR|EEXIST)/);
  });

  test("takes a path of 107 bytes, also in a directory that leaves little room, and refuses one of 108", async () => {
    await using place = await newPlace();
    const name = (bytes: number): string => join(place.directory, "ü".repeat(20), "").padEnd(bytes - 20, "s");
    const deep = "d".repeat(107 - Buffer.byteLength(place.directory) - 8);
    for (const path of [name(107), join(place.directory, deep, "x.sock")]) {
      assert.equal(Buffer.byteLength(path), 107);
      await bindUnixSocket(place.newServer(), path);
      await assertAnswers(path);
    }
    await rejectsWith(bindUnixSocket(place.newServer(), name(108)), "invalid", /108 bytes are too long/);
  });

  test("unlink() removes its own socket and not that of the next process", async () => {
    await using place = await newPlace();
    const first = await bindUnixSocket(place.newServer(), place.path);
    await rm(place.path);
    const second = await bindUnixSocket(place.newServer(), place.path);
    await first.unlink();
    await assertAnswers(place.path);
    await second.unlink();
    assert.deepEqual(await readdir(place.directory), []);
    await second.unlink();
  });
});

describe("isServed()", () => {
  test("is false for a path that is longer than a socket's can be", async () => {
    await using place = await newPlace();
    assert.equal(await isServed(join(place.directory, "x".repeat(120))), false);
  });

  test("says no of a server that ends before it has taken the connection", async () => {
    await using place = await newPlace();
    const server = place.newServer().listen(place.path);
    await once(server, "listening");
    // The connection waits in the backlog, and the kernel resets it.
    const answer = isServed(place.path);
    server.close();
    assert.equal(await answer, false);
  });
});
