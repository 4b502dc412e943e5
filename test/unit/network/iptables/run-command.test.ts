import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { commandRunner, outputOf, runCommand } from "../../../../src/network/iptables/run-command.js";
import { HelperProcess } from "../../../../src/shim/native/helper-process.js";
import { isHelperLost } from "../../../../src/shim/native/process-life.js";
import { isKind, ShimError } from "../../../../src/lib/errors.js";
import { programPath } from "../../../../src/shim/native/programs.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { never } from "./fake-commands.js";

const node = process.execPath;
/** Tells when it runs by nothing: it is ended from outside. */
const endless = ["-e", "setInterval(() => {}, 1000)"];

const helper = new HelperProcess({
  program: () => programPath("helper", process.arch, ""),
  log: recordingLog(),
});
after(() => helper.close());

for (const [way, run] of [
  ["runCommand()", runCommand],
  ["runCommand() by the helper", commandRunner((...given) => helper.start(...given))],
] as const) {
  describe(way, () => {
    test("hands over words and input as they are, and returns what the program wrote", async () => {
      const program = `process.stdin.on("data", (d) => process.stdout.write(d + process.argv[1])); console.error("x")`;
      const exit = await run(node, ["-e", program, "$HOME; *"], { signal: never, input: "in " });
      assert.deepEqual(exit, { exitCode: 0, stdout: "in $HOME; *", stderr: "x\n" });
    });

    test("is notFound for a program that is not installed", async () => {
      await assert.rejects(run("dockershim-no-such-program", [], { signal: never }), {
        kind: "notFound",
        message: "run dockershim-no-such-program: not installed",
      });
    });

    test("is a timeout after the time limit", async () => {
      await assert.rejects(run(node, endless, { signal: never, timeoutMs: 50 }), { kind: "timeout" });
    });

    test("ends with the reason of the abort", async () => {
      const abort = new AbortController();
      const running = run(node, endless, { signal: abort.signal });
      abort.abort(new ShimError("cancelled", "the caller left"));
      await assert.rejects(running, { kind: "cancelled", message: "the caller left" });
    });
  });
}

test("a command whose helper is lost is unavailable, and known for that", async () => {
  const own = new HelperProcess({ program: () => "/bin/false", log: recordingLog() });
  const run = commandRunner((...given) => own.start(...given));
  await assert.rejects(outputOf(run, "true", [], { signal: never }), (error) => {
    return isKind(error, "unavailable") && isHelperLost(error) && error.message.startsWith("run true: ");
  });
  await own.close();
});

describe("outputOf()", () => {
  test("throws what the program said, with command and exit code as fields", async () => {
    const words = ["-e", `console.error("no such chain"); process.exit(2)`];
    await assert.rejects(outputOf(runCommand, node, words, { signal: never }), (error) => {
      assert.ok(error instanceof ShimError);
      assert.equal(error.message, `run ${node}: no such chain (exit status 2)`);
      assert.equal(error.fields["exitCode"], 2);
      assert.equal(error.fields["command"], [node, ...words].join(" "));
      return true;
    });
  });
});
