import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { outputOf, runCommand } from "../../../../src/network/iptables/run-command.js";
import { ShimError } from "../../../../src/shim/lib/errors.js";
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

  test("returns the exit code of a program that fails", async () => {
    const exit = await runCommand(node, ["-e", "process.exit(4)"], { signal: never });
    assert.equal(exit.exitCode, 4);
  });

  test("does not mind a program that ends without reading its input", async () => {
    const input = "x".repeat(1024 * 1024);
    const exit = await runCommand(node, ["-e", "process.exit(0)"], { signal: never, input });
    assert.equal(exit.exitCode, 0);
  });

  test("is notFound for a program that is not installed", async () => {
    await assert.rejects(runCommand("dockershim-no-such-program", [], { signal: never }), {
      kind: "notFound",
      message: "run dockershim-no-such-program: not installed",
    });
  });

  test("is a timeout after the time limit", async () => {
    await assert.rejects(runCommand(node, endless, { signal: never, timeoutMs: 50 }), { kind: "timeout" });
  });

  test("ends with the reason of the abort", async () => {
    const abort = new AbortController();
    const running = runCommand(node, endless, { signal: abort.signal });
    abort.abort(new ShimError("cancelled", "the caller left"));
    await assert.rejects(running, { kind: "cancelled", message: "the caller left" });
  });
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
