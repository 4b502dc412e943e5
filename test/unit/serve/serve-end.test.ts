/** How the program ends while something hangs in the kernel. Needs no engine. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ShimProcess, type ShimOptions } from "../../support/shim-process.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const blockThreads = fileURLToPath(new URL("../../support/block-threads.mjs", import.meta.url));
/** Only ends a run that is broken. */
const limit = { timeout: 240_000, concurrency: true };

describe("SIGTERM while every thread of the pool is blocked in the kernel", limit, () => {
  async function startBlocked(directory: string): Promise<{ shim: ShimProcess; options: ShimOptions }> {
    const fifo = join(directory, "fifo");
    execFileSync("mkfifo", [fifo]);
    const options = { directory, dockerEndpoint: `unix://${join(directory, "no-engine.sock")}` };
    const blocking = { nodeFlags: ["--import", blockThreads], environment: { DOCKERSHIM_TEST_FIFO: fifo } };
    const shim = await ShimProcess.start({ ...options, ...blocking });
    shim.signal("SIGUSR2");
    await shim.untilLogged(/threads blocked/);
    return { shim, options };
  }

  test("the program ends by force, names the hanging steps, and the next program starts on its state directory", async () => {
    await using directory = await temporaryDirectory();
    const { shim: started, options } = await startBlocked(directory.path);
    await using shim = started;
    const exit = await shim.stop();
    assert.equal(exit.signal, "SIGKILL");
    assert.match(shim.log, /"hanging":\["state directory"\].*shutdown timed out/);
    assert.match(shim.log, /"step":"state directory".*"cannot close"/);

    await using next = await ShimProcess.start(options);
    const { code } = await next.stop();
    assert.equal(code, 0, next.log);
  });

  test("a second signal ends it at once", async () => {
    await using directory = await temporaryDirectory();
    await using shim = (await startBlocked(directory.path)).shim;
    shim.signal("SIGTERM");
    await shim.untilLogged(/"signal":"SIGTERM","msg":"stopping/);
    shim.signal("SIGINT");
    assert.equal((await shim.exited).signal, "SIGKILL");
    assert.match(shim.log, /"signal":"SIGINT","msg":"second signal/);
    assert.doesNotMatch(shim.log, /shutdown timed out/);
  });
});
