import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";

const nativeDirectory = fileURLToPath(new URL("../../../native/", import.meta.url));
const toolMissing = 2;

describe("native/bin", () => {
  for (const architecture of ["amd64", "arm64"]) {
    const programs = ["pause", "pod-dialer", "port-forward", "oci-runtime", "helper"];
    const names = programs.map((program) => `${program}-${architecture}`);

    test(`the programs for ${architecture} are what their sources give with the named compiler, wherever they are built`, async (t) => {
      const directory = await mkdtemp(join(tmpdir(), "native-build-"));
      t.after(() => rm(directory, { recursive: true }));
      for (const file of await readdir(nativeDirectory))
        if (/\.(mjs|c|h)$/.test(file)) await cp(join(nativeDirectory, file), join(directory, file));
      const output = join(directory, "out");
      const built = spawnSync(
        process.execPath,
        [join(directory, "build.mjs"), "--output", output, "--architecture", architecture],
        { encoding: "utf8", cwd: directory },
      );
      if (built.status === toolMissing) {
        // Only one compiler version gives the same bytes; the checksums in version control are compared in
        // any case.
        t.skip(`not proven on this machine: ${built.stderr.trim()}`);
        return;
      }
      assert.equal(built.status, 0, built.stderr);
      for (const name of names) {
        const fresh = await readFile(join(output, name));
        const shipped = await readFile(join(nativeDirectory, "bin", name));
        assert.ok(fresh.equals(shipped), `native/bin/${name} is another: run node native/build.mjs`);
      }
    });

    for (const name of names)
      test(`${name} is smaller than 24 kB and listed in SHA256SUMS`, async () => {
        const shipped = await readFile(join(nativeDirectory, "bin", name));
        assert.ok(shipped.length < 24_000);
        const sums = await readFile(join(nativeDirectory, "bin", "SHA256SUMS"), "utf8");
        const digest = createHash("sha256").update(shipped).digest("hex");
        assert.ok(sums.split("\n").includes(`${digest}  ${name}`));
      });
  }

  test("build.mjs refuses another compiler with exit code 2, naming the one it needs", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "native-build-"));
    t.after(() => rm(directory, { recursive: true }));
    const built = spawnSync(process.execPath, [join(nativeDirectory, "build.mjs"), "--output", directory], {
      encoding: "utf8",
      env: { PATH: directory },
    });
    assert.equal(built.status, toolMissing);
    assert.match(built.stderr, /needs gcc 12\.2\.0 \(Debian 12\.2\.0-14\) as x86_64-linux-gnu-gcc, /);
    assert.match(built.stderr, /which is not in PATH/);
  });
});
