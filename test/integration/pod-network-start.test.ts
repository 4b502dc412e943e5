/** Starts with a plugin that collects garbage. */
import assert from "node:assert/strict";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, test } from "node:test";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { ShimProcess } from "../support/shim-process.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

await withOwnEngine(import.meta.url, [], () => {
  describe("with a plugin that is a script", () => {
    const bed = TestBed.ofSuite();
    let directory: string;
    let shim: ShimProcess | undefined;
    afterEach(async () => {
      await shim?.kill();
    });

    /** A shim on a list of one plugin, which runs `script` at each command. */
    async function start(cniVersion: string, script: string): Promise<ShimProcess> {
      directory = await bed.newDirectory();
      const [confDir, binDir, shimDirectory] = ["net.d", "bin", "shim"].map((name) => join(directory, name));
      assert.ok(confDir !== undefined && binDir !== undefined && shimDirectory !== undefined);
      for (const each of [confDir, binDir, shimDirectory]) await mkdir(each);
      const list = { cniVersion, name: "scripted", plugins: [{ type: "scripted" }] };
      await writeFile(join(confDir, "10-scripted.conflist"), JSON.stringify(list));
      const path = join(binDir, "scripted");
      await writeFile(path, `#!/bin/sh\ncd '${directory}'\ninput=$(cat)\n${script}\n`);
      await chmod(path, 0o755);
      return startAgain();
    }

    /** On the state of the last one. */
    async function startAgain(): Promise<ShimProcess> {
      shim = await bed.startShim({
        directory: join(directory, "shim"),
        flags: [
          "--network-plugin=cni",
          `--cni-conf-dir=${join(directory, "net.d")}`,
          `--cni-bin-dir=${join(directory, "bin")}`,
          `--cni-cache-dir=${join(directory, "cache")}`,
        ],
      });
      return shim;
    }

    const versions = `echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}'`;
    const result = `echo '{"cniVersion":"1.1.0","ips":[{"address":"10.9.9.9/24"},{"address":"fd00:9::9/64"}]}'`;

    test("of version 1.1.0 collects garbage after a start, and is told of the pods that live", async () => {
      const note = `printf '%s' "$input" > gc.new; mv gc.new gc`;
      const script = `case $CNI_COMMAND in VERSION) ${versions} ;; ADD) ${result} ;; GC) ${note} ;; esac`;
      const first = await start("1.1.0", script);
      const gc = (): Promise<{ valid: readonly unknown[] }> =>
        until("garbage to be collected", async () => {
          const text = await readFile(join(directory, "gc"), "utf8").catch(() => undefined);
          if (text === undefined) return undefined;
          const input = JSON.parse(text) as { "cni.dev/valid-attachments": readonly unknown[] };
          return { valid: input["cni.dev/valid-attachments"] };
        });
      assert.deepEqual((await gc()).valid, []);
      const pod = await bed.runPod(first.cri, bed.podConfig());
      await rm(join(directory, "gc"));
      await first.stop();
      const second = await startAgain();
      assert.deepEqual((await gc()).valid, [{ containerID: pod.id, ifname: "eth0" }]);
      await second.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
      await second.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
    });
  });
});
