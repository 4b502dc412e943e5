import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { HostPaths } from "../../../../src/shim/host/host-paths/host-paths.js";
import { HelperProcess } from "../../../../src/shim/native/helper-process.js";
import { programPath } from "../../../../src/shim/native/programs.js";
import type { ProgramListener, StartProgram } from "../../../../src/shim/native/start-program.js";
import type { FoundMount, PathsToFind } from "../../../../src/shim/ports/host.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { until } from "../../../support/wait.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const never = new AbortController().signal;
const nothing: PathsToFind = { look: [], make: [], devices: [] };
const program = (): string => programPath("helper", process.arch, "");

describe("HostPaths with its helper", () => {
  const log = recordingLog();
  let helper: HelperProcess;
  let paths: HostPaths;

  before(() => {
    helper = new HelperProcess({ program, log });
    paths = new HostPaths({ startVerb: helper.startVerb, log });
  });
  after(() => helper.close());

  async function findMount(task: "look" | "make", path: string): Promise<FoundMount | undefined> {
    return (await find({ [task]: [path] }))?.mounts.get(path);
  }

  const find = (given: Partial<PathsToFind>, own = paths): ReturnType<HostPaths["find"]> =>
    own.find({ ...nothing, ...given }, "pod", never);

  const findBelow = (deviceRoot: string): ReturnType<HostPaths["find"]> =>
    find({ devices: [deviceRoot] }, new HostPaths({ startVerb: helper.startVerb, deviceRoot, log }));

  test("makes no directory for a path that is only looked at", async () => {
    await using at = await temporaryDirectory();
    assert.equal(await findMount("look", join(at.path, "a", "b")), "missing");
    assert.deepEqual(await readdir(at.path), []);
  });

  test("makes a missing directory with its parents, readable for all users with any umask", async () => {
    await using at = await temporaryDirectory();
    const umask = process.umask(0o077);
    try {
      const path = join(at.path, "a", "b", "c");
      const own = new HelperProcess({ program, log });
      const found = await find({ make: [path] }, new HostPaths({ startVerb: own.startVerb, log }));
      await own.close();
      assert.equal(found?.mounts.get(path), "made");
      for (const part of ["a", "a/b", "a/b/c"]) {
        const { mode, uid } = await stat(join(at.path, part));
        assert.deepEqual([mode & 0o7777, uid], [0o755, process.getuid?.()]);
      }
      assert.equal(await findMount("make", path), "present");
    } finally {
      process.umask(umask);
    }
  });

  test("resolves `..` and doubled slashes as the engine does, as text", async () => {
    await using at = await temporaryDirectory();
    await mkdir(join(at.path, "real"));
    await symlink("real", join(at.path, "link"));
    assert.equal(await findMount("make", `${at.path}/link/..//made/`), "made");
    assert.ok((await stat(join(at.path, "made"))).isDirectory());
  });

  for (const rest of ["", "/x", "/x/y"]) {
    test(`makes nothing at a link that leads to nothing, nor behind it: link${rest}`, async () => {
      await using at = await temporaryDirectory();
      const link = join(at.path, "link");
      await symlink(join(at.path, "gone"), link);
      assert.deepEqual(await findMount("make", link + rest), {
        kind: "precondition",
        reason: `"${link}" is a symbolic link that leads to nothing; no directory is made there`,
      });
      assert.ok((await lstat(link)).isSymbolicLink());
      assert.deepEqual(await readdir(at.path), ["link"]);
    });
  }

  test("gives the reason why a path cannot be used", async () => {
    await using at = await temporaryDirectory();
    await writeFile(join(at.path, "file"), "");
    await symlink("loop", join(at.path, "loop"));
    for (const [path, reason] of [
      [join(at.path, "file", "x"), /^not a directory \(ENOTDIR\)$/],
      [join(at.path, "loop"), /\(ELOOP\)$/],
      [join(at.path, "n".repeat(256)), /\(ENAMETOOLONG\)$/],
      [`/${"n/".repeat(2100)}n`, /^longer than 4095 bytes$/],
      ["/proc/no-such-directory", /^make directory "\/proc\/no-such-directory": .* \(ENOENT\)$/],
    ] as const) {
      const found = await findMount("make", path);
      assert.ok(typeof found === "object", path);
      assert.equal(found.kind, "precondition");
      assert.match(found.reason, reason);
    }
  });

  test("one path for many at the same time: all succeed", async () => {
    await using at = await temporaryDirectory();
    for (let round = 0; round < 20; round++) {
      const path = join(at.path, String(round), "a", "b", "c", "d");
      const all = await Promise.all(Array.from({ length: 16 }, () => findMount("make", path)));
      assert.ok(all.includes("made") && all.every((one) => one === "made" || one === "present"));
    }
  });

  test("paths of more bytes than a pipe takes are all found", async () => {
    await using at = await temporaryDirectory();
    const name = "n".repeat(200);
    const given = Array.from({ length: 150 }, (_, index) =>
      join(at.path, ...[String(index), name, name, name, name]),
    );
    const found = await find({ make: given });
    assert.deepEqual(new Set(found?.mounts.values()), new Set(["made"]));
    assert.equal(found?.mounts.size, given.length);
  });

  test("finds the devices of a directory below /dev, and no other files", async () => {
    const found = await find({ devices: ["/dev/"] });
    const devices = found?.devices.get("/dev/");
    assert.ok(devices !== undefined && "includes" in devices);
    assert.ok(devices.includes("/dev/null") && devices.includes("/dev/zero"));
    assert.ok(!devices.includes("/dev/fd") && !devices.includes("/dev"));
    assert.deepEqual(devices, [...devices].sort());
  });

  test(
    "finds the same ones in the directories below, more than one answer takes",
    { skip: process.getuid?.() !== 0 && "needs root, to make device nodes" },
    async (context) => {
      await using at = await temporaryDirectory();
      await mkdir(join(at.path, "a", "b"), { recursive: true });
      const names = Array.from({ length: 100 }, (_, index) => `a/b/${"d".repeat(100)}${index}`);
      const nodes = [...names, "a/zero"].map((name) => join(at.path, name)).sort();
      try {
        const eachNode = 'for node; do mknod "$node" c 1 3 || exit; done';
        execFileSync("sh", ["-c", eachNode, "sh", ...nodes]);
      } catch (error) {
        // Without CAP_MKNOD, as in most containers; nothing else could stand in for a node.
        context.skip(`device nodes cannot be made here: ${String(error)}`);
        return;
      }
      await symlink("/dev", join(at.path, "a", "link"));
      const found = await findBelow(at.path);
      assert.deepEqual(found?.devices.get(at.path), nodes);
    },
  );

  test("a directory of devices ends at its limits", async () => {
    await using at = await temporaryDirectory();
    await mkdir(join(at.path, ...Array.from({ length: 20 }, () => "d")), { recursive: true });
    const found = await findBelow(at.path);
    assert.deepEqual(found?.devices.get(at.path), {
      kind: "precondition",
      reason: "is a directory of more than 10000 entries or 16 levels",
    });
  });

  for (const [what, path, reason] of [
    ["a path that does not exist", "/dev/no-such-device", "does not exist"],
    ["a path below a file", "/dev/null/x", "does not exist"],
    ["a directory outside of /dev", "/etc", "is a directory outside of /dev"],
    ["a directory outside of /dev through /dev", "/dev/../etc", "is a directory outside of /dev"],
  ] as const) {
    test(`refuses as a device ${what}`, async () => {
      const found = await find({ devices: [path] });
      assert.deepEqual(found?.devices.get(path), { kind: "invalid", reason });
    });
  }

  test("leaves no process behind, and nothing of this one is open in the helper", async () => {
    const { pid } = helper;
    await findMount("look", "/");
    const children = (): Promise<string> => readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
    await until("its processes are gone", async () => (await children()) === "");
    const open = (await readdir(`/proc/${pid}/fd`)).map((name) => `/proc/${pid}/fd/${name}`);
    const files = execFileSync("readlink", open);
    for (const file of files.toString().trim().split("\n"))
      assert.match(file, /^(socket:|pipe:|\/dev\/null|anon_inode:\[signalfd\])/);
  });

  test("is started anew when it was killed, and ends with close()", async () => {
    const own = new HelperProcess({ program, log: recordingLog() });
    const found = new HostPaths({ startVerb: own.startVerb, log });
    await find({ look: ["/"] }, found);
    const { pid } = own;
    assert.ok(pid !== undefined);
    process.kill(pid, "SIGTERM"); // Of no effect: a service manager sends it to all processes of the service.
    process.kill(pid, "SIGKILL");
    // Also for a request that is sent before its end is known.
    assert.ok((await find({ look: ["/"] }, found)) !== undefined);
    const second = own.pid;
    assert.ok(second !== undefined && second !== pid);
    await own.close();
    await until("it is gone", async () => !(await readdir("/proc")).includes(String(second)));
    await assert.rejects(find({ look: ["/"] }, found), /stopping/);
  });

  for (const [what, given] of [
    ["there is none for the architecture", () => programPath("helper", "s390x", "")],
    ["it cannot be started", () => "/no/such/program"],
  ] as const) {
    test(`leaves paths to the engine when ${what}, and logs that once`, async () => {
      const own = recordingLog();
      const none = new HelperProcess({ program: given, log: own });
      const without = new HostPaths({ startVerb: none.startVerb, log: own });
      assert.equal(await find({ make: ["/tmp/x"] }, without), undefined);
      assert.equal(await find({ make: ["/tmp/x"] }, without), undefined);
      await until("both lines are there", () => own.lines.length >= 2);
      assert.deepEqual(own.lines.map(({ level, message }) => [level, message]).sort(), [
        ["warn", "cannot use the helper process"],
        ["warn", "paths of mounts and devices are not looked at, and left to the Docker Engine"],
      ]);
      await none.close();
    });
  }
});

const outcomes = { present: 1, devices: 7, devicesEnd: 8 } as const;

/** An answer of the helper. */
function answer(entry: number, outcome: keyof typeof outcomes = "present", text = ""): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(20), Buffer.from(text)]);
  for (const [index, number] of [bytes.length, entry, outcomes[outcome]].entries())
    bytes.writeUInt32LE(number, index * 4);
  return bytes;
}

/** Processes that hang at every path with "hung" in it, and end only when the test says so. */
class HangingHelper {
  readonly asked: string[][] = [];
  readonly #hanging: ProgramListener[] = [];
  killed = 0;
  endsWhenKilled = false;

  readonly startVerb: StartProgram = ({ words: [, ...words] }, listener) => {
    const paths = words.map((word) => word.slice(1));
    this.asked.push(paths);
    queueMicrotask(() => {
      for (const [index, path] of paths.entries()) {
        if (path.includes("hung")) {
          this.#hanging.push(listener);
          return;
        }
        listener.output("stdout", answer(index));
      }
      listener.ended(ended);
    });
    return {
      ...others,
      kill: () => {
        this.killed += 1;
        if (this.endsWhenKilled) this.endAll();
      },
    };
  };

  endAll(): void {
    for (const listener of this.#hanging.splice(0)) listener.ended(ended);
  }
}

const ended = { exitCode: 0, signalName: undefined };
const others = { feed: () => undefined, kill: () => undefined, leave: () => undefined };

describe("HostPaths at file systems that do not answer", () => {
  function hanging(timeoutMs: number) {
    const helper = new HangingHelper();
    const paths = new HostPaths({
      startVerb: helper.startVerb,
      ...{ log: recordingLog(), timeoutMs, killTimeoutMs: 20 },
    });
    const find = async (path: string, pod = "a", signal = never) =>
      (await paths.find({ ...nothing, make: ["/fine", path] }, pod, signal))?.mounts.get(path);
    return { helper, paths, find };
  }
  const still = { kind: "timeout", reason: "the file system still does not answer" };

  test("gives up, names the path that hangs and kills the process", async () => {
    const { helper, find } = hanging(20);
    const reason = "the file system does not answer (20ms)";
    assert.deepEqual(await find("/hung/a"), { kind: "timeout", reason });
    assert.equal(helper.killed, 1);
  });

  test("asks no second time below a path that hangs, also for other pods, until its process is gone", async () => {
    const { helper, find } = hanging(20);
    await find("/hung/a");
    assert.deepEqual(await find("/hung/a", "b"), still);
    assert.deepEqual(await find("/hung/a/b", "b"), still);
    assert.equal(helper.asked.length, 1);
    assert.equal(await find("/hun", "b"), "present");
    helper.endAll();
    const asked = helper.asked.length;
    await find("/hung/a");
    assert.equal(helper.asked.length, asked + 1);
  });

  test("a path whose process ends when it is killed is looked at again, by others and for the same pod", async () => {
    const { helper, find } = hanging(20);
    const reason = "the file system does not answer (20ms)";
    helper.endsWhenKilled = true;
    for (const pod of ["a", "a", "a", "a", "a", "b"])
      assert.deepEqual(await find("/hung/a", pod), { kind: "timeout", reason });
    assert.equal(helper.asked.length, 6);
  });

  test("a pod with four hanging paths gets no further process; other pods, and others' paths, do", async () => {
    const { helper, paths, find } = hanging(20);
    for (const name of ["1", "2", "3", "4"]) await find(`/hung/${name}`, "a");
    // Whichever path of the container is the first: none of them is looked at.
    const [found] = (await paths.find({ ...nothing, make: ["/good"] }, "a", never))?.mounts.values() ?? [];
    assert.ok(typeof found === "object" && found.kind === "exhausted");
    assert.match(found.reason, /^4 other paths of this pod are on file systems that do not answer$/);
    assert.equal(helper.asked.length, 4);
    assert.equal(await find("/good", "b"), "present");
    helper.endAll();
    assert.equal(await find("/good", "a"), "present");
  });

  test("ends with its caller, by the caller's reason", async () => {
    const { helper, find } = hanging(60_000);
    const caller = new AbortController();
    const left = find("/hung", "a", caller.signal);
    await until("it is asked", () => helper.asked.length === 1);
    caller.abort(new ShimError("cancelled", "the caller left"));
    await assert.rejects(left, /the caller left/);
    assert.equal(helper.killed, 1);
    await until("it is known to hang", async () => {
      const asked = helper.asked.length;
      const again = find("/hung", "b", AbortSignal.timeout(100)).catch(() => undefined);
      return (await again) !== undefined && helper.asked.length === asked;
    });
    assert.deepEqual(await find("/hung", "b"), still);
  });

  test("a helper that is lost twice leaves the paths to the engine", async () => {
    const asked: string[] = [];
    const startVerb: StartProgram = ({ words }, listener) => {
      asked.push(words.slice(1).join());
      queueMicrotask(() => {
        listener.failed(new Error("killed"));
      });
      return others;
    };
    const paths = new HostPaths({ startVerb, log: recordingLog() });
    assert.equal(await paths.find({ ...nothing, make: ["/a"] }, "pod", never), undefined);
    assert.deepEqual(asked, ["m/a", "m/a"]);
  });

  test("after a helper is lost amid its answers only those of the next helper count", async () => {
    let asked = 0;
    const startVerb: StartProgram = (_, listener) => {
      asked += 1;
      const isLost = asked === 1;
      queueMicrotask(() => {
        listener.output("stdout", answer(0, "devices", "/dev/a/1\0"));
        if (isLost) listener.failed(new Error("killed"));
        else listener.output("stdout", answer(0, "devicesEnd"));
      });
      return others;
    };
    const paths = new HostPaths({ startVerb, log: recordingLog() });
    const found = await paths.find({ ...nothing, devices: ["/dev/a"] }, "pod", never);
    assert.deepEqual([asked, found?.devices.get("/dev/a")], [2, ["/dev/a/1"]]);
  });
});
