import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { commandRunner, outputOf, runCommand } from "../../../../src/network/iptables/run-command.js";
import { HelperProcess } from "../../../../src/shim/native/helper-process.js";
import { isHelperLost } from "../../../../src/shim/native/process-life.js";
import { isKind, type ShimError } from "../../../../src/lib/errors.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { never } from "./fake-commands.js";

const node = process.execPath;
/** Tells when it runs by nothing: it is ended from outside. */
const endless = ["-e", "setInterval(() => {}, 1000)"];

describe("runCommand()", () => {
  test("hands over words and input as they are, and returns what the program wrote", async () => {
    const program = `process.stdin.on("data", (d) => process.stdout.write(d + process.argv[1])); console.error("x")`;
    const exit = await runCommand(node, ["-e", program, "$HOME; *"], { signal: never, input: "in " });
    assert.deepEqual(exit, { exitCode: 0, stdout: "in $HOME; *", stderr: "x\n" });
  });

  test("is notFound for a program that is not installed", async () => {
    const message = "run dockershim-no-such-program: not installed";
    const running = runCommand("dockershim-no-such-program", [], { signal: never });
    await assert.rejects(running, { kind: "notFound", message });
  });

  test("is a timeout after the time limit", async () => {
    await assert.rejects(runCommand(node, endless, { signal: never, timeoutMs: 50 }), { kind: "timeout" });
  });
});

test("a command whose helper is lost is unavailable, and known for that", async () => {
  const own = new HelperProcess({ program: () => "/bin/false", log: recordingLog() });
  const run = commandRunner((...given) => own.start(...given));
  await assert.rejects(outputOf(run, "true", [], { signal: never }), (error) => {
    return isKind(error, "unavailable") && isHelperLost(error) && error.message.startsWith("run true: ");
  });
  await own.close();
});

test("outputOf() throws what the program said, with command and exit code as fields", async () => {
  const words = ["-e", `console.error("no such chain"); process.exit(2)`];
  await assert.rejects(outputOf(runCommand, node, words, { signal: never }), (error: ShimError) => {
    assert.equal(error.message, `run ${node}: no such chain (exit status 2)`);
    assert.deepEqual([error.fields["exitCode"], error.fields["command"]], [2, [node, ...words].join(" ")]);
    return true;
  });
});
