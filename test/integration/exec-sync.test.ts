/** ExecSync: output, exit codes, and that a time limit ends everything that was started. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { rejectsWith } from "../support/cri-client.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { processesIn } from "../support/processes.js";
import { until } from "../support/wait.js";

const mebibyte = 1024 * 1024;

async function commandLines(containerId: string): Promise<readonly string[]> {
  return (await processesIn(containerId)).map(({ command }) => command);
}

describe("ExecSync", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let pod: Pod;
  let id: string;
  before(async () => {
    pod = await bed.runPod(bed.shim.cri);
    id = await pod.start();
  });

  test("both streams and the exit code; a non-zero one is a normal answer", async () => {
    for (const code of [0, 255]) {
      const result = await pod.exec(id, "sh", "-c", `echo out; echo err >&2; exit ${String(code)}`);
      assert.deepEqual(result, { stdout: "out\n", stderr: "err\n", exitCode: code });
    }
    const killed = await pod.exec(id, "sh", "-c", "kill -9 $$");
    assert.equal(killed.exitCode, 137);
  });

  test("arguments and bytes are passed on as they are", async () => {
    const { stdout: said } = await pod.exec(id, "printf", "%s|", "a b", "$HOME", "`id`", "'\"", "ü");
    assert.equal(said, "a b|$HOME|`id`|'\"|ü|");
    const cmd = ["printf", "\\377\\000\\n\\303\\050"];
    const { stdout } = await bed.shim.cri.ExecSync({ container_id: id, cmd, timeout: "30" });
    assert.deepEqual([...stdout], [0xff, 0, 0x0a, 0xc3, 0x28]);
  });

  test("a command that does not exist is an answer or an error that says so, and not an empty success", async () => {
    const outcome = await pod.exec(id, "/no/such/program").then(
      ({ exitCode, stdout, stderr }) => ({ failed: exitCode !== 0, text: stdout + stderr }),
      (error: unknown) => ({ failed: true, text: String(error) }),
    );
    assert.ok(outcome.failed);
    assert.match(outcome.text, /no such file or directory/);
  });

  test("output above 16 MiB is cut, and the process is not blocked by it", async () => {
    const { stdout, exit_code } = await bed.shim.cri.ExecSync({
      container_id: id,
      cmd: ["sh", "-c", "head -c 20000000 /dev/zero; exit 9"],
      timeout: "60",
    });
    assert.equal(exit_code, 9);
    assert.ok(stdout.length > 15.5 * mebibyte && stdout.length <= 16 * mebibyte, String(stdout.length));
  });

  test("when the time limit passes, the process goes with all that it started, in whatever session", async () => {
    const mark = `9${String(process.pid)}`;
    const script = [
      `sleep ${mark}1 &`,
      `setsid sleep ${mark}2 &`,
      `setsid sh -c 'sleep ${mark}3 & sleep ${mark}4' &`,
      `(trap "" TERM HUP; sleep ${mark}5) &`,
      `sleep ${mark}6`,
    ].join(" ");
    const before = await commandLines(id);
    const call = bed.shim.cri.ExecSync({ container_id: id, cmd: ["sh", "-c", script], timeout: "3" });
    const all = until("all processes to run", async () => {
      const lines = (await commandLines(id)).filter((line) => line.startsWith(`sleep ${mark}`));
      return lines.length === 6;
    });
    await rejectsWith(call, "DEADLINE_EXCEEDED", /not finished after 3s/);
    await all;
    // docs/run/remote.md: nothing reaches the processes of an engine elsewhere.
    if (isEngineElsewhere) return;
    assert.deepEqual((await commandLines(id)).toSorted(), before.toSorted());
  });
});
