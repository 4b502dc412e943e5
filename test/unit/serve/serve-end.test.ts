/** How the program ends while something hangs in the kernel. Needs no engine. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ShimProcess, type ShimOptions } from "../../support/shim-process.js";

const blockThreads = fileURLToPath(new URL("../../support/block-threads.mjs", import.meta.url));
/** Only ends a run that is broken. */
const limit = { timeout: 240_000 };

describe("SIGTERM while every thread of the pool is blocked in the kernel", limit, () => {
  let directory: string;
  let options: ShimOptions;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "dockershim-end-"));
    const fifo = join(directory, "fifo");
    execFileSync("mkfifo", [fifo]);
    options = {
      directory,
      dockerEndpoint: `unix://${join(directory, "no-engine.sock")}`,
      nodeFlags: ["--import", blockThreads],
      environment: { DOCKERSHIM_TEST_FIFO: fifo },
    };
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  async function startBlocked(): Promise<ShimProcess> {
    const shim = await ShimProcess.start(options);
    shim.signal("SIGUSR2");
    await shim.untilLogged(/threads blocked/);
    return shim;
  }

  test("the program ends by force, names the hanging steps, and the next program starts on its state directory", async () => {
    await using shim = await startBlocked();
    const exit = await shim.stop();
    assert.equal(exit.signal, "SIGKILL");
    assert.match(shim.log, /"hanging":\["state directory"\].*shutdown timed out/);
    assert.match(shim.log, /"step":"state directory".*"cannot close"/);

    await using next = await ShimProcess.start({ ...options, nodeFlags: [] });
    const { code } = await next.stop();
    assert.equal(code, 0, next.log);
  });

  test("a second signal ends it at once", async () => {
    await using shim = await startBlocked();
    shim.signal("SIGTERM");
    await shim.untilLogged(/"signal":"SIGTERM","msg":"stopping/);
    shim.signal("SIGINT");
    assert.equal((await shim.exited).signal, "SIGKILL");
    assert.match(shim.log, /"signal":"SIGINT","msg":"second signal/);
    assert.doesNotMatch(shim.log, /shutdown timed out/);
  });
});
