/** The same for both ways to start a program. */
import assert from "node:assert/strict";
import { chmod, copyFile, open, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { runProgram, type ProgramExit, type RunOptions } from "../../../src/shim/native/run-program.js";
import { startAsChild, type StartProgram } from "../../../src/shim/native/start-program.js";
import { ShimError } from "../../../src/lib/errors.js";
import { markOf } from "../../../src/lib/linux/process-mark.js";
import { programPath } from "../../../src/shim/native/programs.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { until } from "../../support/wait.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { withResolvers } from "../../fakes/turns.js";

const never = new AbortController().signal;
const environment = { PATH: process.env["PATH"] };
const usual: RunOptions = {
  input: "",
  signal: never,
  stdoutBytes: 64 * 1024 * 1024,
  stderrBytes: 1024,
  deathMs: 60_000,
};
const enough = new ShimError("cancelled", "enough");

const helper = new HelperProcess({
  program: () => programPath("helper", process.arch, ""),
  log: recordingLog(),
});
after(() => helper.close());

for (const [way, start] of Object.entries({ "a child": startAsChild, "the helper's child": helper.start })) {
  describe(`a program as ${way}`, { timeout: 120_000 }, () => {
    const run = (
      program: string,
      words: readonly string[],
      options: Partial<RunOptions> = {},
    ): Promise<ProgramExit> => runProgram(start, { program, words, environment }, { ...usual, ...options });
    const shell = (script: string, options: Partial<RunOptions> = {}): Promise<ProgramExit> =>
      run("sh", ["-c", script], options);

    test("gets its words as they are", async () => {
      const words = ["$HOME; *", "", "a\nb", "ü"];
      const { stdout } = await run("printf", ["[%s]", ...words]);
      assert.equal(stdout, words.map((word) => `[${word}]`).join(""));
    });

    test("gets the given environment and nothing else", async () => {
      const own = { ...environment, EMPTY: "", LINES: "a\nb=c", MISSING: undefined };
      const { stdout } = await runProgram(start, { program: "env", words: ["-0"], environment: own }, usual);
      assert.deepEqual(stdout.split("\0").sort(), ["", "EMPTY=", "LINES=a\nb=c", `PATH=${own.PATH}`]);
    });

    test("has the working directory of this process", async () => {
      assert.equal((await run("pwd", ["-P"])).stdout, `${process.cwd()}\n`);
    });

    test("reads and writes more than a pipe holds, on both streams at once", async () => {
      const input = "0123456789abcdef".repeat(1024 * 1024);
      const limits = { stderrBytes: 10_000_000 };
      const exit = await shell("head -c 5000000 /dev/zero >&2 & cat; wait", { input, ...limits });
      assert.ok(exit.stdout === input);
      assert.deepEqual([exit.stderr.length, exit.exitCode], [5_000_000, 0]);
    });

    test("may end without reading its input", async () => {
      const exit = await shell("exec 0<&-; exit 3", { input: "x".repeat(4 * 1024 * 1024) });
      assert.deepEqual([exit.exitCode, exit.signalName], [3, undefined]);
    });

    test("that a signal ends has the name of the signal", async () => {
      const exit = await shell("kill -TERM $$");
      assert.deepEqual([exit.exitCode, exit.signalName], [undefined, "SIGTERM"]);
    });

    test("has its three pipes and no other open file, also beside another one", async () => {
      const other = await startCat(start);
      const cat = await startCat(start);
      const directory = `/proc/${cat.pid}/fd`;
      try {
        const expected = new Set(["0", "1", "2", ...(await inherited())]);
        // The dynamic loader has files open at first.
        await until("only the pipes are open", async () =>
          isDeepStrictEqual(new Set(await readdir(directory)), expected),
        );
        for (const name of ["0", "1", "2"])
          assert.match(await readlink(join(directory, name)), /^(pipe|socket):/);
      } finally {
        await Promise.all([other.stop(), cat.stop()]);
      }
    });

    test("blocks and ignores no signal, and leads a process group and a session", async () => {
      const cat = await startCat(start);
      try {
        const read = () => readFile(`/proc/${cat.pid}/status`, "utf8");
        await until("it is the program", async () => (await read()).startsWith("Name:\tcat\n"));
        const status = await read();
        for (const set of ["SigBlk", "SigIgn"]) assert.match(status, new RegExp(`^${set}:\\s+0+$`, "m"));
        const [, , group, session] = (await readFile(`/proc/${cat.pid}/stat`, "utf8"))
          .split(") ")[1]!
          .split(" ");
        assert.deepEqual([group, session], [String(cat.pid), String(cat.pid)]);
      } finally {
        await cat.stop();
      }
    });

    test("gets its input after onStart()", async () => {
      await using at = await temporaryDirectory();
      let seen: boolean | undefined;
      const file = join(at.path, "input");
      await shell(`cat > '${file}.part' && mv '${file}.part' '${file}'`, {
        input: "x",
        onStart: async (pid) => {
          seen = (await readdir(at.path)).includes("input") || markOf(pid) === undefined;
        },
      });
      assert.equal(seen, false);
      assert.equal(await readFile(file, "utf8"), "x");
    });

    test("is killed without its input when onStart() fails", async () => {
      await using at = await temporaryDirectory();
      const running = shell(`read x && echo > '${at.path}/ran'`, {
        input: "x\n",
        onStart: () => Promise.reject(enough),
      });
      await assert.rejects(running, (error) => error === enough);
      assert.deepEqual(await readdir(at.path), []);
    });

    test("that is aborted is killed with its process group", async () => {
      await using at = await temporaryDirectory();
      const caller = new AbortController();
      const pids = join(at.path, "pids");
      const running = shell(`sleep 1000 & echo $! $$ > '${pids}'; wait`, { signal: caller.signal });
      running.catch(() => undefined);
      const text = await until("its child runs", async () => {
        const written = await readFile(pids, "utf8").catch(() => "");
        return written.endsWith("\n") && written;
      });
      caller.abort(enough);
      await assert.rejects(running, (error) => error === enough);
      await until("both have ended", () => text.split(" ").every((pid) => markOf(Number(pid)) === undefined));
    });

    test("that is aborted right after its start is killed", async () => {
      const caller = new AbortController();
      const running = run("sleep", ["1000"], { signal: caller.signal });
      caller.abort(enough);
      await assert.rejects(running, (error) => error === enough);
    });

    test("that writes more than allowed to stdout is killed", async () => {
      await assert.rejects(run("yes", [], { stdoutBytes: 1000 }), { message: /^wrote more than 1000 bytes/ });
    });

    test("may write more to stderr than is kept", async () => {
      const exit = await shell("head -c 1000000 /dev/zero >&2; echo done", { stderrBytes: 10 });
      assert.deepEqual([exit.stdout, exit.stderr], ["done\n", "\0".repeat(10)]);
    });

    test("is not waited for longer than the grace period when its child keeps the pipes open", async () => {
      const { stdout } = await shell("sleep 1000 & echo $!", { graceMs: 20 });
      // What a program leaves running on purpose lives on.
      assert.notEqual(markOf(Number(stdout)), undefined);
      process.kill(Number(stdout), "SIGKILL");
    });

    test("that has ended has its result, also when the caller leaves in the grace period", async () => {
      const caller = new AbortController();
      const leaving: StartProgram = (request, listener) =>
        start(request, {
          ...listener,
          ended: (end) => {
            listener.ended(end);
            caller.abort(enough);
          },
        });
      const request = { program: "sh", words: ["-c", "echo x; exit 3"], environment };
      const exit = await runProgram(leaving, request, { ...usual, signal: caller.signal, graceMs: 60_000 });
      assert.deepEqual([exit.stdout, exit.exitCode], ["x\n", 3]);
    });

    test("is one of many at once, each with its own input and output", async () => {
      const inputs = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(10_000));
      const exits = await Promise.all(inputs.map((input) => run("cat", [], { input })));
      assert.ok(exits.every(({ stdout }, index) => stdout === inputs[index]));
    });

    test("is looked for in PATH, past files that may not be executed", async () => {
      await using at = await temporaryDirectory();
      await writeFile(join(at.path, "printf"), "#!/bin/sh\n", { mode: 0o644 });
      const own = { PATH: `${at.path}/missing:${at.path}/printf:${at.path}:${environment.PATH}` };
      const request = { program: "printf", words: ["x"], environment: own };
      assert.equal((await runProgram(start, request, usual)).stdout, "x");
    });

    describe("that cannot be started", () => {
      const cases: readonly (readonly [string, string, (at: string) => Promise<unknown>, string[]?])[] = [
        ["is missing", "ENOENT", async () => undefined],
        ["has no interpreter", "ENOENT", (path) => writeFile(path, "#!/no/such/program\n", { mode: 0o755 })],
        ["is not executable", "EACCES", (path) => writeFile(path, "#!/bin/sh\n", { mode: 0o644 })],
        ["gets too long a word", "E2BIG", (path) => copyProgram(path), ["x".repeat(1024 * 1024)]],
      ];
      for (const [what, code, make, words = []] of cases) {
        test(`because it ${what} fails with ${code}`, async () => {
          await using at = await temporaryDirectory();
          const path = join(at.path, "program");
          await make(path);
          await assert.rejects(run(path, words), { code });
        });
      }

      test("because it is being written fails with ETXTBSY", async () => {
        await using at = await temporaryDirectory();
        const path = join(at.path, "program");
        await copyProgram(path);
        const file = await open(path, "r+");
        await assert.rejects(run(path, []), { code: "ETXTBSY" }).finally(() => file.close());
      });

      test("because only a file that is not executable is in PATH fails with EACCES", async () => {
        await using at = await temporaryDirectory();
        await writeFile(join(at.path, "program"), "", { mode: 0o644 });
        const request = { program: "program", words: [], environment: { PATH: `${at.path}:/no/such` } };
        await assert.rejects(runProgram(start, request, usual), { code: "EACCES" });
      });
    });
  });
}

/** Files that the parent of this process has left open for all. */
async function inherited(): Promise<readonly string[]> {
  const closeOnExec = 0o2000000;
  const found: string[] = [];
  for (const name of await readdir("/proc/self/fdinfo")) {
    const text = await readFile(`/proc/self/fdinfo/${name}`, "utf8").catch(() => "");
    const [, flags] = /^flags:\s+(\d+)$/m.exec(text) ?? [];
    if (flags !== undefined && (parseInt(flags, 8) & closeOnExec) === 0) found.push(name);
  }
  return found;
}

async function copyProgram(path: string): Promise<void> {
  await copyFile("/bin/true", path);
  await chmod(path, 0o755);
}

/** A program that waits for its input. */
async function startCat(start: StartProgram): Promise<{ pid: number; stop: () => Promise<void> }> {
  const caller = new AbortController();
  const { promise, resolve } = withResolvers<number>();
  const running = runProgram(
    start,
    { program: "cat", words: [], environment },
    {
      ...{ ...usual, signal: caller.signal },
      onStart: (pid) => {
        resolve(pid);
        return new Promise(() => undefined);
      },
    },
  );
  running.catch(() => undefined);
  const stop = async (): Promise<void> => {
    caller.abort(enough);
    await assert.rejects(running, (error) => error === enough);
  };
  return { pid: await promise, stop };
}
