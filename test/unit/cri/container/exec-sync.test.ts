import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { readOutput } from "../../../../src/shim/cri/container/exec-sync.js";
import type { OutputChunk } from "../../../fakes/fake-execs.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const out = (stream: OutputChunk["stream"], data: string | Buffer): OutputChunk => ({
  stream,
  data: Buffer.from(data),
});

const exec = (id: string, timeout = "0", call = shim.call()) =>
  shim.rpcs.ExecSync({ container_id: id, cmd: ["cat", "/x"], timeout }, call);

describe("execSync()", () => {
  test("answers output and exit code, also one that is not zero", async () => {
    const output = [out("stdout", "a"), out("stderr", "oops"), out("stdout", "b")];
    const id = await shim.runProcess({ output, exitCode: 3 });
    const { stdout, stderr, exit_code } = await exec(id.slice(0, 12));
    assert.deepEqual([String(stdout), String(stderr), exit_code], ["ab", "oops", 3]);
    const options = { command: ["cat", "/x"], tty: false, stdin: false, stdout: true, stderr: true };
    assert.deepEqual(shim.world.journal.argsOf("engine.createExec"), [[id, options]]);
    assert.equal(shim.engine.execs.openStreams, 0);
  });

  test("waits for the exit of a process whose output has ended", async () => {
    const id = await shim.runProcess({ exitCode: 7, lingersForInspects: 1 });
    assert.equal((await exec(id, "60")).exit_code, 7);
  });

  test("says that the container was removed while the command ran", async (t) => {
    const id = await shim.runProcess({ exitCode: 0 });
    t.mock.method(shim.engine, "inspectExec", () => Promise.resolve(undefined));
    await rejectsWith(exec(id), "notFound", /its container was removed, or the engine restarted/);
  });

  test("keeps no more than fits into an answer, and reads on so that the process ends", async () => {
    const chunk = Buffer.alloc(1024 * 1024, "x");
    const output = Array.from({ length: 20 }, (_, index) =>
      out(index % 2 === 0 ? "stdout" : "stderr", chunk),
    );
    const id = await shim.runProcess({ output, exitCode: 0 });
    const { stdout, stderr, exit_code } = await exec(id);
    const total = (stdout?.length ?? 0) + (stderr?.length ?? 0);
    assert.ok(total > 15 * 1024 * 1024 && total < 16 * 1024 * 1024, String(total));
    assert.equal(exit_code, 0);
  });

  test("copies what it keeps: output in single bytes pins none of the memory that it was read into", async () => {
    const memory = Buffer.alloc(1);
    // As when each byte comes in a chunk of its own, and the chunk's memory is used again.
    const output = Array.from({ length: 10_000 }, (_, index): OutputChunk => ({
      stream: index % 2 === 0 ? "stdout" : "stderr",
      get data() {
        memory.fill(String(index).at(-1) ?? "");
        return memory;
      },
    }));
    const id = await shim.runProcess({ output, exitCode: 0 });
    const { stdout, stderr } = await exec(id);
    assert.equal(String(stdout), "02468".repeat(1000));
    assert.equal(String(stderr), "13579".repeat(1000));
  });

  test("that outlives its time limit is killed, and fails as timeout", async (t) => {
    const id = await shim.runProcess({ output: [out("stdout", "begun")] });
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const failed = rejectsWith(exec(id, "30"), "timeout", /exec in container ".*": not finished after 30s/);
    await until("the process runs", () => shim.engine.execs.running === 1);
    t.mock.timers.tick(29_999);
    await turns(3);
    assert.equal(shim.engine.execs.running, 1);
    t.mock.timers.tick(1);
    await failed;
    assert.deepEqual(shim.world.journal.argsOf("host.killProcessTree"), [[id, 5000]]);
    assert.deepEqual([shim.engine.execs.running, shim.engine.execs.openStreams], [0, 0]);
  });

  test("answers soon after its time limit also when the engine has not started the process, and kills it when it appears", async (t) => {
    const id = await shim.runProcess({});
    shim.engine.hangs = (verb) => verb === "startExec";
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const failed = rejectsWith(exec(id, "1"), "timeout", /not finished after 1s/);
    await until("it waits", () => shim.world.journal.names("engine.startExec").length === 1);
    t.mock.timers.tick(1_000);
    await until("the process is looked for", () => shim.world.journal.names("engine.inspectExec").length > 0);
    t.mock.timers.tick(2_000);
    await failed;
    assert.equal(shim.engine.execs.openStreams, 0);
    // The engine still executes the start.
    shim.engine.execs.start("exec1", new AbortController().signal);
    await until("it is killed", () => shim.engine.execs.running === 0);
    assert.deepEqual(shim.world.journal.argsOf("host.killProcessTree"), [[id, 5000]]);
  });

  for (const [what, prepare, running] of [
    ["is killed when its caller leaves", () => undefined, 0],
    ["leaves what is out of reach, and logs that", ({ world }) => (world.host.onKill = () => false), 1],
    [
      "reports that its caller left also when the kill fails",
      ({ world }) => world.journal.failNext("host.killProcessTree", new ShimError("unknown", "kill fails")),
      1,
    ],
  ] as readonly (readonly [string, (shim: TestShim) => unknown, number])[]) {
    test(what, async () => {
      const id = await shim.runProcess({});
      prepare(shim);
      const call = shim.call();
      const pending = exec(id, "0", call);
      await until("the process runs", () => shim.engine.execs.running === 1);
      call.abort(new ShimError("cancelled", "the caller left"));
      await rejectsWith(pending, "cancelled", /the caller left/);
      assert.deepEqual([shim.engine.execs.running, shim.engine.execs.openStreams], [running, 0]);
      const warns = shim.log.lines.some(({ message }) => message.includes("out of reach"));
      assert.equal(warns, what.includes("out of reach"));
    });
  }

  test("kills nothing when the exec fails by itself", async () => {
    const id = await shim.runProcess({ exitCode: 0 });
    const absent = 'exec: "nope": executable file not found in $PATH';
    shim.engine.failNext("startExec", new ShimError("invalid", absent));
    await rejectsWith(exec(id), "invalid", /executable file not found/);
    assert.deepEqual(shim.world.journal.names("host.killProcessTree"), []);
  });
});

test("readOutput() makes a process wait once it has written more than fits into an answer", async () => {
  const signal = new AbortController().signal;
  const data = Buffer.alloc(1024 * 1024, "x");
  const waits: (number | undefined)[] = [];
  const streams: Parameters<typeof readOutput>[0] = {
    readOutput: async (take) => {
      for (let chunk = 0; chunk < 30; chunk += 1) {
        const before = waits.length;
        const wait = take(chunk % 2 === 0 ? "stdout" : "stderr", data, true);
        assert.equal(wait !== undefined, waits.length > before);
        if (wait === undefined) waits.push(undefined);
        await wait;
      }
    },
  };
  const pause = (ms: number, own?: AbortSignal): Promise<void> => {
    assert.equal(own, signal);
    waits.push(ms);
    return Promise.resolve();
  };
  const { stdout, stderr } = await readOutput(streams, signal, pause);
  assert.equal(stdout.length + stderr.length, 16 * 1024 * 1024 - 64 * 1024);
  const expected = Array.from({ length: 30 }, (_, chunk) => (chunk < 15 ? undefined : 20));
  assert.deepEqual(waits, expected);
});
