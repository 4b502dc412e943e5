/** A real SIGKILL, in the middle of the write of the program. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { modulePath, moduleWords } from "../../support/program-words.js";
import { InstallBed } from "./install-bed.js";

if (process.env["INSTALL_INTO"] !== undefined) {
  const bed = InstallBed.at(process.env["INSTALL_INTO"]);
  bed.programBytes = 256 * 1024 ** 2;
  await bed.install();
} else {
  test("an install that was killed while it wrote the program is completed, and leaves no temporary file", async () => {
    using bed = InstallBed.open();
    const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
    const [node, ...words] = moduleWords(modulePath("test/unit/install/install-killed.test.ts"));
    const child = spawn(node, words, {
      env: { ...environment, INSTALL_INTO: bed.directory.path },
      stdio: ["ignore", "inherit", "inherit"],
    });
    const watcher = watch(join(bed.root, "usr/bin"), () => child.kill("SIGKILL"));
    const [, signal] = (await once(child, "exit")) as [number | null, string | null];
    watcher.close();
    assert.equal(signal, "SIGKILL");
    await bed.install();
    assert.equal(await bed.read("usr/bin/dockershim"), "program 1.0.0");
    await bed.uninstall();
    assert.deepEqual(
      Object.keys(bed.files()).filter((name) => /dockershim/.test(name)),
      [],
    );
  });
}
