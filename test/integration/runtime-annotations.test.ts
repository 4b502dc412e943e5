/**
 * Runtimes that are added to an engine while it runs: stand-ins for an OCI runtime and a containerd shim, which record the
 * bundles of pods, and let runc run them.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { reasonForNoAnnotations } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { containerdShimOf } from "../support/processes.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

await withOwnEngine(import.meta.url, ["runc"], (engine) => {
  describe("the bundles of a pod", () => {
    const bed = TestBed.ofSuite({ shim: {} });
    let bundles = "";
    let takesAnnotations = true;

    before(async () => {
      takesAnnotations = (await reasonForNoAnnotations()) === false;
      bundles = await bed.newDirectory();
      const plain = { path: await standIn("runc") };
      // Engines without annotations know no types of runtimes, either.
      const recorded = takesAnnotations ? { runtimeType: await standIn("containerd-shim-runc-v2") } : plain;
      await using before = await bed.runPod(bed.shim.cri);
      await assertUnknown();
      await engine.reload({ runtimes: { plain, recorded } });
      await until("the runtimes to be told", async () => (await handlers()).includes("recorded"));
      assert.equal((await before.status()).state, PodSandboxState.SANDBOX_READY);
    });

    const handlers = async (): Promise<readonly string[]> =>
      (await bed.shim.cri.Status({})).runtime_handlers.map(({ name }) => name);

    async function assertUnknown(): Promise<void> {
      const run = bed.runPod(bed.shim.cri, {}, "recorded");
      await rejectsWith(run, "INVALID_ARGUMENT", /RuntimeHandler "recorded" not supported/);
      assert.ok(!(await handlers()).includes("recorded"));
    }

    /** Path of a program that copies the config.json of the bundle and goes on as the program of this name. */
    async function standIn(name: string): Promise<string> {
      const directory = await bed.newDirectory();
      const path = join(directory, name);
      const program = execFileSync("which", [name], { encoding: "utf8" }).trim();
      const script = [
        "#!/bin/sh",
        // Shims are started in the bundle.
        'bundle="$PWD"; previous=""',
        'for word in "$@"; do',
        '  if [ "$previous" = --bundle ]; then bundle="$word"; fi',
        '  previous="$word"',
        "done",
        `if [ -f "$bundle/config.json" ]; then cp "$bundle/config.json" "${bundles}/$(basename "$bundle")"; fi`,
        `exec ${program} "$@"`,
      ];
      await writeFile(path, script.join("\n"));
      await chmod(path, 0o755);
      return path;
    }

    async function assertAnnotations(id: string, expected: Readonly<Record<string, unknown>>): Promise<void> {
      const config = JSON.parse(await readFile(join(bundles, id), "utf8")) as {
        readonly annotations?: Readonly<Record<string, string>>;
      };
      assert.deepEqual(config.annotations ?? {}, takesAnnotations ? expected : {});
    }

    test("say to a runtime with its own containerd shim what is a sandbox, and which sandbox a container is in", async () => {
      await using pod = await bed.runPod(bed.shim.cri, {}, "recorded");
      const container = await pod.start();
      const { metadata, log_directory } = pod.config;
      const common = {
        "io.kubernetes.cri.sandbox-name": metadata?.name,
        "io.kubernetes.cri.sandbox-namespace": metadata?.namespace,
        "io.kubernetes.cri.sandbox-uid": metadata?.uid,
        "io.kubernetes.cri.sandbox-log-directory": log_directory,
      };
      await assertAnnotations(pod.id, {
        "io.kubernetes.cri.container-type": "sandbox",
        ...common,
      });
      await assertAnnotations(container, {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-id": pod.id,
        "io.kubernetes.cri.container-name": "main",
        "io.kubernetes.cri.image-name": bed.image,
        ...common,
      });
      assert.equal((await pod.exec(container, "sh", "-c", "exit 3")).exitCode, 3);
      // containerd's shims group by the id of the sandbox.
      if (takesAnnotations) {
        assert.equal(await containerdShimOf(container), await containerdShimOf(pod.id));
      }
    });

    test("say nothing of pods to runc, and to containerd the sandbox", async () => {
      await using pod = await bed.runPod(bed.shim.cri, {}, "plain");
      const container = await pod.start();
      await assertAnnotations(pod.id, {});
      await assertAnnotations(container, { "io.containerd.runc.v2.group": pod.id });
    });

    test("come from runtimes that were added to an engine that runs; removed ones are refused, and the link stays", async () => {
      await engine.reload({ runtimes: {} });
      await until("the runtime to go", async () => !(await handlers()).includes("recorded"));
      await assertUnknown();
      assert.equal(bed.shim.log.match(/"msg":"engine live"/g)?.length, 1);
      assert.match(bed.shim.log, /"msg":"engine configuration reloaded"/);
      assert.doesNotMatch(bed.shim.log, /engine link broken/);
    });
  });
});
