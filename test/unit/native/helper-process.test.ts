/** What is special about programs that the helper starts, and about the helper. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { afterEach, beforeEach, describe, test } from "node:test";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { encodeRun, programAnswers } from "../../../src/shim/native/helper-protocol.js";
import type { StartedProgram } from "../../../src/shim/native/start-program.js";
import { runProgram, type ProgramExit } from "../../../src/shim/native/run-program.js";
import { isKind } from "../../../src/lib/errors.js";
import { markOf } from "../../../src/lib/linux/process-mark.js";
import { isHelperLost } from "../../../src/shim/native/process-life.js";
import { programPath } from "../../../src/shim/native/programs.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { until } from "../../support/wait.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const program = programPath("helper", process.arch, "");
const never = new AbortController().signal;
const environment = { PATH: process.env["PATH"] };
const usual = { input: "", signal: never, stdoutBytes: 1024, stderrBytes: 1024, deathMs: 60_000 };

let log: ReturnType<typeof recordingLog>;
let helper: HelperProcess;
/** Of programs that live on. */
let pids: number[];
beforeEach(() => {
  log = recordingLog();
  helper = new HelperProcess({ program: () => program, log });
  pids = [];
});
afterEach(async () => {
  await helper.close();
  for (const pid of pids) process.kill(pid, "SIGKILL");
});

const warnings = (): readonly string[] => log.linesAt("warn").map(({ message }) => message);

function run(name: string, words: readonly string[] = []): Promise<ProgramExit> {
  return runProgram(
    helper.start,
    { program: name, words, environment },
    {
      ...usual,
      onStart: async (pid) => {
        if (name === "sleep") pids.push(pid);
      },
    },
  );
}

function perform(
  verb: string,
  words: readonly string[],
  onStart: (pid: number) => void = () => undefined,
): Promise<ProgramExit> {
  const request = { program: verb, words, environment: {} };
  return runProgram(helper.startVerb, request, { ...usual, onStart: async (pid) => onStart(pid) });
}

/** Starts a program that ends only by a signal. */
async function startSleep(): Promise<{ running: Promise<ProgramExit>; pid: number }> {
  const before = pids.length;
  const running = run("sleep", ["1000"]);
  running.catch(() => undefined);
  const pid = await until("it is started", () => pids[before]);
  return { running, pid };
}

function helperPid(): number {
  assert.ok(helper.pid !== undefined);
  return helper.pid;
}

describe("a helper that is killed", { timeout: 120_000 }, () => {
  test("fails all runs as unavailable; the programs go on, and another helper starts the next", async () => {
    const sleeps = [await startSleep(), await startSleep()];
    const killed = helperPid();
    process.kill(killed, "SIGKILL");
    for (const { running } of sleeps)
      await assert.rejects(running, (error) => isKind(error, "unavailable") && isHelperLost(error));
    for (const { pid } of sleeps) assert.notEqual(markOf(pid), undefined);
    assert.equal((await run("echo", ["x"])).stdout, "x\n");
    assert.notEqual(helperPid(), killed);
    assert.deepEqual(warnings(), ["the helper process was lost"]);
  });

  test("right before a request fails only that request", async () => {
    await run("true");
    process.kill(helperPid(), "SIGKILL");
    await assert.rejects(run("true"), isHelperLost);
    assert.equal((await run("true")).exitCode, 0);
  });
});

test(
  "after close() programs go on, runs are cancelled, and nothing is started",
  { timeout: 120_000 },
  async () => {
    const { running, pid } = await startSleep();
    const closed = helperPid();
    await helper.close();
    await assert.rejects(running, (error) => isKind(error, "cancelled") && !isHelperLost(error));
    await assert.rejects(run("true"), { kind: "cancelled" });
    assert.notEqual(markOf(pid), undefined);
    await until("the helper has ended", () => markOf(closed) === undefined);
    assert.deepEqual(warnings(), []);
  },
);

test("a verb tries a helper again that could not be started", { timeout: 120_000 }, async () => {
  await using at = await temporaryDirectory();
  const path = join(at.path, "helper");
  await copyFile(program, path);
  await chmod(path, 0o644);
  helper = new HelperProcess({ program: () => path, log, retryMs: 0 });
  const size = () => perform("disk-usage", [at.path, "1000"]);
  await assert.rejects(size(), { kind: "unsupported" });
  await chmod(path, 0o755);
  await size();
  assert.deepEqual(warnings(), ["cannot use the helper process"]);
});

describe("without a helper that works, programs are children", { timeout: 120_000 }, () => {
  const use = (path: string): void => {
    helper = new HelperProcess({ program: () => path, log });
  };

  for (const [what, content] of Object.entries({ "is missing": undefined, "is not executable": "" })) {
    test(`when its file ${what}: from the first one on`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, "helper");
      if (content !== undefined) await writeFile(path, content, { mode: 0o644 });
      use(path);
      for (const word of ["a", "b"]) assert.equal((await run("echo", [word])).stdout, `${word}\n`);
      assert.deepEqual(warnings(), ["cannot use the helper process"]);
    });
  }

  const unfit = { "ends without an answer": "/bin/false", "answers something else": "/usr/bin/yes" };
  for (const [what, path] of Object.entries(unfit)) {
    test(`when it ${what}: from the second one on`, async () => {
      use(path);
      await assert.rejects(run("true"), isHelperLost);
      assert.equal((await run("echo", ["x"])).stdout, "x\n");
      assert.equal(helper.pid, undefined);
      assert.deepEqual(warnings(), ["the helper process was lost", "cannot use the helper process"]);
    });
  }
});

test(
  "what a program has written comes before its end, after which it is not waited for long",
  { timeout: 120_000 },
  async () => {
    for (let runs = 0; runs < 100; runs += 1) {
      const calls: string[] = [];
      await new Promise<void>((resolve, reject) => {
        const program = helper.start(
          { program: "sh", words: ["-c", "echo x; echo y >&2"], environment },
          {
            started: () => calls.push("started"),
            output: (stream) => calls.push(stream),
            ended: () => calls.push("ended"),
            closed: resolve,
            failed: reject,
          },
        );
        program.feed("");
      });
      assert.deepEqual([calls[0], calls.at(-1)], ["started", "ended"], calls.join(" "));
    }
  },
);

describe("what is told a moment later", { timeout: 120_000 }, () => {
  test("is heard of a program that writes a little and lives on", async () => {
    let program: StartedProgram | undefined;
    await new Promise<void>((resolve, reject) => {
      const nothing = (): void => undefined;
      program = helper.start(
        { program: "sh", words: ["-c", "echo x; exec sleep 1000"], environment },
        { started: nothing, output: () => resolve(), ended: nothing, closed: nothing, failed: reject },
      );
      program.feed("");
    });
    program?.kill();
  });

  test("leaves no zombies of programs that ended by themselves, however many ended at once", async () => {
    await Promise.all(Array.from({ length: 40 }, () => run("true")));
    const children = `/proc/${helperPid()}/task/${helperPid()}/children`;
    await until("no child is left", () => readFileSync(children, "utf8") === "");
  });
});

test("a file that is neither a program nor a script fails with ENOEXEC", async () => {
  await using at = await temporaryDirectory();
  const path = join(at.path, "program");
  await writeFile(path, "echo x\n", { mode: 0o755 });
  await assert.rejects(run(path), { code: "ENOEXEC" });
});

test(
  "programs that hang, however many, keep no other one from being started",
  { timeout: 120_000 },
  async () => {
    const parent = async (): Promise<string> => (await run("sh", ["-c", "echo $PPID"])).stdout.trim();
    assert.equal(await parent(), String(helperPid()));
    // More than the helper can hold.
    let started = 0;
    const cats = Array.from({ length: 513 }, () => {
      const caller = new AbortController();
      const onStart = (): Promise<void> => {
        started += 1;
        return new Promise(() => undefined);
      };
      const request = { program: "cat", words: [], environment };
      const options = { ...usual, signal: caller.signal, onStart };
      const ended = runProgram(helper.start, request, options);
      ended.catch(() => undefined);
      return { ended, caller };
    });
    await until("all run", () => started === cats.length);
    assert.equal(await parent(), String(process.pid));
    // Verbs have places of their own.
    assert.equal((await perform("disk-usage", ["/no/such", "0"])).exitCode, 0);
    for (const { caller } of cats) caller.abort();
    await Promise.allSettled(cats.map(({ ended }) => ended));
    assert.equal(await parent(), String(helperPid()));
    assert.deepEqual(warnings(), []);
  },
);

/** proc(5), field 19 of /proc/PID/stat. */
function niceOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
}

describe("a verb", { timeout: 120_000 }, () => {
  test("that there is not ends with exit code 2", async () => {
    assert.equal((await perform("no-such-verb", [])).exitCode, 2);
  });

  test("is killed with the helper, also while it is stopped", async () => {
    let pid = 0;
    const performing = perform("disk-usage", ["/", "60000"], (id) => {
      pid = id;
    });
    performing.catch(() => undefined);
    // From then on it dies with its parent, also when it is stopped.
    await until("it counts in the background", () => pid !== 0 && niceOf(pid) === 10);
    process.kill(pid, "SIGSTOP");
    process.kill(helperPid(), "SIGKILL");
    await assert.rejects(performing, isHelperLost);
    await until("it is gone", () => markOf(pid) === undefined);
  });
});

describe("the helper ends, and what it has started goes on", { timeout: 120_000 }, () => {
  let parent: ChildProcess;
  let input: Writable;
  let helperId: number;
  beforeEach(async () => {
    // It says the number of the helper, and then what the helper says: that program 1 runs, and its number.
    // The input is no standard input: Node.js closes that one when the parent ends.
    const script = '"$0" <&3 3<&- & echo $! >&2; wait';
    parent = spawn("sh", ["-c", script, program], { stdio: ["ignore", "pipe", "pipe", "pipe"] });
    input = parent.stdio[3] as Writable;
    const [chunk] = (await once(parent.stderr!, "data")) as [Buffer];
    helperId = Number(chunk);
    input.write(encodeRun(1, { program: "sleep", words: ["1000"], environment }));
    const [bytes] = (await once(parent.stdout!, "data")) as [Buffer];
    const [answer] = programAnswers().take(bytes);
    assert.ok(answer?.kind === "started");
    pids.push(answer.pid);
  });
  afterEach(() => {
    parent.kill("SIGKILL");
    input.destroy();
  });

  for (const [what, act] of [
    ["with its parent, although its input stays open", () => parent.kill("SIGKILL")],
    ["with its input", () => input.end()],
  ] as const) {
    test(what, async () => {
      assert.notEqual(markOf(helperId), undefined);
      act();
      await until("it has ended", () => markOf(helperId) === undefined);
      assert.notEqual(markOf(pids[0] ?? 0), undefined);
    });
  }
});

describe("the protocol", () => {
  test("has no word with a NUL, which would be two words", () => {
    for (const request of [
      { program: "a", words: ["b\0c"], environment: {} },
      { program: "a\0b", words: [], environment: {} },
      { program: "a", words: [], environment: { B: "c\0D=e" } },
    ])
      assert.throws(() => encodeRun(1, request), { kind: "invalid" });
  });

  test("refuses an answer of an unknown kind", () => {
    const bytes = Buffer.alloc(16);
    for (const [index, number] of [16, 1, 99, 0].entries()) bytes.writeUInt32LE(number, index * 4);
    assert.throws(() => programAnswers().take(bytes), /an unknown kind/);
  });
});
