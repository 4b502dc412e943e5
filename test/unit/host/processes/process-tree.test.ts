import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { hasEnded } from "../../../../src/lib/linux/process-stat.js";
import { ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { killProcessTree } from "../../../../src/shim/host/processes/process-tree.js";
import { idOf } from "../../../fakes/snapshots.js";
import { until } from "../../../support/wait.js";
import { FakeProc, type FakeProcess } from "../fake-proc.js";

const id = idOf("3f");
const cgroup = `8:pids:/docker/${id}\n0::/docker/${id}\n`;
const noAbort = new AbortController().signal;

/** Real processes in the role of a container's: all that inherit a mark in their environment. */
class MarkedProcesses extends ProcFiles implements AsyncDisposable {
  readonly #mark = `DOCKERSHIM_TEST_TREE=${randomBytes(8).toString("hex")}`;
  readonly #children: ChildProcess[] = [];

  /** Runs a script as the leader of a session of its own, and gives its pid. */
  run(script: string, { marked = true } = {}): number {
    const [name = "", value] = this.#mark.split("=");
    const env = { PATH: process.env["PATH"], ...(marked ? { [name]: value } : {}) };
    const child = spawn("sh", ["-c", script], { detached: true, stdio: "ignore", env });
    this.#children.push(child);
    assert.ok(child.pid !== undefined);
    return child.pid;
  }

  async alive(): Promise<readonly number[]> {
    const pids = (await this.processes()).filter((stat) => !hasEnded(stat)).map(({ pid }) => pid);
    return this.mapDefined(pids, async (pid) => ((await this.#isMarked(pid)) ? pid : undefined));
  }

  override async text(pid: number | "self", name: string): Promise<string | undefined> {
    if (name !== "cgroup" || pid === "self") return super.text(pid, name);
    return (await this.#isMarked(pid)) ? cgroup : super.text(pid, name);
  }

  async #isMarked(pid: number): Promise<boolean> {
    return (await super.text(pid, "environ"))?.split("\0").includes(this.#mark) === true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of await this.alive()) process.kill(pid, "SIGKILL");
    for (const child of this.#children) child.kill("SIGKILL");
  }
}

describe("killProcessTree() with real processes", () => {
  const trees: readonly (readonly [what: string, script: string, count: number])[] = [
    ["children", "sleep 600 & sleep 600 & wait", 3],
    ["a child in a session of its own", "setsid sleep 600 & wait", 2],
    ["grandchildren whose parent is gone", "(sleep 600 & sleep 600 &); sleep 600", 4],
    ["a stopped child", "sleep 600 & kill -STOP $!; wait", 2],
    ["children that ignore signals", "trap '' TERM INT HUP; sh -c 'sleep 600; :' & wait", 3],
  ];
  for (const [what, script, count] of trees) {
    test(`kills a process with ${what}, and waits for their end`, async () => {
      await using marked = new MarkedProcesses();
      const pid = marked.run(script);
      await until("the tree stands", async () => (await marked.alive()).length === count);
      assert.equal(await killProcessTree(id, pid, noAbort, { proc: marked }), true);
      assert.deepEqual(await marked.alive(), []);
    });
  }

  test("kills a process that keeps starting others", async () => {
    await using marked = new MarkedProcesses();
    const pid = marked.run("i=0; while [ $i -lt 400 ]; do (sleep 600 &); i=$((i+1)); done");
    await until("the first have started", async () => (await marked.alive()).length > 5);
    assert.equal(await killProcessTree(id, pid, noAbort, { proc: marked }), true);
    assert.deepEqual(await marked.alive(), []);
  });
});

/** Fake processes whose state signals change, as in the kernel. */
class FakeTree implements AsyncDisposable {
  readonly sent: string[] = [];
  readonly #entries = new Map<number, FakeProcess>();
  #pending = Promise.resolve();
  onSignal: (pid: number, signal: string) => void = () => undefined;
  /** Before each look at all processes. */
  onScan: () => void = () => undefined;

  private constructor(
    readonly fake: FakeProc,
    readonly proc: ProcFiles,
  ) {}

  static async make(entries: Readonly<Record<number, FakeProcess>>): Promise<FakeTree> {
    const fake = await FakeProc.make();
    // What a signal does is on disk before the next look.
    let tree: FakeTree | undefined = undefined;
    const proc = new (class extends ProcFiles {
      override async pids(): Promise<readonly number[]> {
        tree?.onScan();
        await tree?.settled();
        return super.pids();
      }
      override async text(pid: number | "self", name: string): Promise<string | undefined> {
        await tree?.settled();
        return super.text(pid, name);
      }
    })(fake.proc.root);
    tree = new FakeTree(fake, proc);
    for (const [pid, entry] of Object.entries(entries)) tree.set(Number(pid), entry);
    await tree.settled();
    return tree;
  }

  set(pid: number, entry: FakeProcess | undefined): void {
    if (entry !== undefined) this.#entries.set(pid, entry);
    this.#pending = this.#pending.then(() =>
      entry === undefined ? this.fake.end(pid) : this.fake.add(pid, { cgroup, ...entry }),
    );
  }

  settled(): Promise<void> {
    return this.#pending;
  }

  kill(containerId: string, pid: number, signal = noAbort): Promise<boolean> {
    const { proc } = this;
    return killProcessTree(containerId, pid, signal, {
      proc,
      kill: (target, name) => {
        this.sent.push(`${name} ${target}`);
        this.onSignal(target, name);
        const entry = this.#entries.get(target) ?? {};
        if (name === "SIGKILL") this.set(target, undefined);
        else if (entry.state !== "D") this.set(target, { ...entry, state: "T" });
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settled();
    await this.fake[Symbol.asyncDispose]();
  }
}

describe("killProcessTree()", () => {
  test("stops all before it kills the first", async () => {
    await using tree = await FakeTree.make({
      100: { session: 100 },
      101: { session: 100, parent: 100 },
      102: { session: 102, parent: 101 },
      200: { session: 200 },
    });
    assert.equal(await tree.kill(id, 100), true);
    const sent = ["SIGSTOP", "SIGKILL"].flatMap((name) => [100, 101, 102].map((pid) => `${name} ${pid}`));
    assert.deepEqual(tree.sent, sent);
  });

  test("kills none before all have stopped: a process that has not stopped yet may start another", async () => {
    await using tree = await FakeTree.make({ 100: {}, 101: { parent: 100, state: "D" } });
    let scans = 0;
    tree.onScan = () => {
      if (++scans !== 4) return;
      tree.set(150, { parent: 101, session: 150 });
      tree.set(101, { parent: 100, state: "T" });
    };
    assert.equal(await tree.kill(id, 100), true);
    assert.ok(tree.sent.includes("SIGSTOP 150"));
    assert.ok(tree.sent.indexOf("SIGSTOP 150") < tree.sent.indexOf("SIGKILL 100"));
  });

  const refused: readonly (readonly [what: string, containerId: string, pid: number, entry: FakeProcess])[] =
    [
      ["a process of another container", id, 100, { cgroup: `0::/docker/${idOf("4f")}\n` }],
      ["a process of the host", id, 100, { cgroup: "0::/\n" }],
      ["a pid without a process", id, 99, {}],
      ["pid 0 of an exec that was not started", id, 0, {}],
      ["the first process of all", id, 1, {}],
      ["this program itself", id, process.pid, {}],
      ["an empty container id", "", 100, {}],
      ["a zombie", id, 100, { state: "Z" }],
    ];
  for (const [what, containerId, pid, entry] of refused) {
    test(`sends nothing and answers false for ${what}`, async () => {
      await using tree = await FakeTree.make({
        1: {},
        100: {},
        [process.pid]: {},
        ...(pid > 99 ? { [pid]: entry } : {}),
      });
      assert.equal(await tree.kill(containerId, pid), false);
      assert.deepEqual(tree.sent, []);
    });
  }

  test("does not kill a foreign process with a reused pid, and kills the rest of the session", async () => {
    await using tree = await FakeTree.make({
      100: { cgroup: "0::/\n", session: 100 },
      101: { cgroup: "0::/\n", session: 100, parent: 100 },
      102: { session: 100 },
    });
    assert.equal(await tree.kill(id, 100), true);
    assert.deepEqual(tree.sent, ["SIGSTOP 102", "SIGKILL 102"]);
  });

  test("does not kill a process that got a pid between the stop and the kill", async () => {
    await using tree = await FakeTree.make({ 100: { startTime: 1 }, 101: { parent: 100, startTime: 2 } });
    tree.onSignal = (pid, signal) => {
      // The container's other half: 101 is killed by another process, and its pid used again.
      if (pid === 100 && signal === "SIGKILL") tree.set(101, { parent: 1, session: 101, startTime: 9 });
    };
    assert.equal(await tree.kill(id, 100), true);
    assert.ok(!tree.sent.includes("SIGKILL 101"));
  });

  test("kills a process that hangs in the kernel and never stops", async () => {
    await using tree = await FakeTree.make({ 100: {}, 101: { parent: 100, state: "D" } });
    assert.equal(await tree.kill(id, 100), true);
    assert.ok(tree.sent.includes("SIGKILL 101"));
  });

  test("kills a process whose first thread has ended", async () => {
    await using tree = await FakeTree.make({ 100: { state: "Z", threads: 3 } });
    assert.equal(await tree.kill(id, 100), true);
    assert.ok(tree.sent.includes("SIGKILL 100"));
  });

  test("ends the wait with its signal, after everything that was found was killed", async () => {
    await using tree = await FakeTree.make({ 100: {}, 101: { parent: 100 } });
    const stop = new AbortController();
    tree.onSignal = (_, signal) => {
      if (signal === "SIGSTOP") stop.abort(new ShimError("timeout", "too late"));
    };
    await assert.rejects(tree.kill(id, 100, stop.signal), { kind: "timeout" });
    assert.deepEqual(tree.sent.slice(2), ["SIGKILL 100", "SIGKILL 101"]);
  });

  test("ends the wait for a process that does not die, with the reason of its signal", async () => {
    await using tree = await FakeTree.make({ 100: { state: "D" } });
    const stop = new AbortController();
    tree.onSignal = (pid, signal) => {
      if (signal !== "SIGKILL") return;
      // It is still there after the kill.
      setImmediate(() => {
        tree.set(pid, { state: "D" });
        stop.abort(new ShimError("timeout", "too late"));
      });
    };
    await assert.rejects(tree.kill(id, 100, stop.signal), { kind: "timeout" });
  });

  test("kills the others when one may not be signalled, and says which", async () => {
    await using tree = await FakeTree.make({ 100: {}, 101: { parent: 100 }, 102: { parent: 100 } });
    tree.onSignal = (pid) => {
      if (pid === 101) throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
    };
    await assert.rejects(tree.kill(id, 100), { kind: "internal", fields: { pid: 101 } });
    assert.ok(tree.sent.includes("SIGKILL 100") && tree.sent.includes("SIGKILL 102"));
  });
});
