/** `dockershim wipe` on a node with pods of kubenet: nothing of them is left, and nothing of others is touched. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import {
  containersWithLabel,
  createContainer,
  inspectContainer,
  inspectImage,
  removeContainer,
  startContainer,
} from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { makeLegacyPod } from "../support/legacy-pod.js";
import { type Exit, runProgram } from "../support/shim-process.js";
import { command } from "./kubenet-support.js";
import { NetworkNode } from "./pod-network-support.js";

await withOwnEngine(import.meta.url, [], () => {
  // A suite of its own: its node is opened when the engine runs.
  describe("a node with kubenet", () => {
    const node = NetworkNode.ofSuite("kubenet");

    test("wipe refuses while pods run, lists, removes all with --force, and has nothing to do then", async () => {
      const { bed } = node;
      const name = bed.newName();
      const uid = `uid-${name}`;
      const logs = join(bed.directory, `wiped_${name}_${uid}`);
      const pod = await node.runPod({
        metadata: { name, namespace: "wiped", uid, attempt: 0 },
        log_directory: logs,
      });
      await pod.start();
      const old = await makeLegacyPod(bed);
      const foreign = await createContainer(bed.newName("foreign"), {
        Image: bed.image,
        Cmd: ["sleep", "1000"],
      });
      bed.onClose(() => removeContainer(foreign));
      await startContainer(foreign);
      const { stateDirectory } = node.shim;
      const removed = await node.runPod();
      await node.shim.stop();
      await removeContainer(removed.id);
      const proxy = await bed.startProxy();
      const wipe = (...words: readonly string[]): Promise<Exit> =>
        runProgram([
          ...["wipe", ...node.flags, `--docker-endpoint=${proxy.endpoint}`, `--state-dir=${stateDirectory}`],
          ...words,
        ]);

      const listed = await wipe("--dry-run");
      assert.equal(listed.code, 0, listed.stderr);
      const pods = new RegExp(
        `^ {2}remove {2}pod wiped/${name} \\(running\\): 1 containers, network, logs$`,
        "m",
      );
      assert.match(listed.stdout, pods);
      assert.ok(
        listed.stdout.includes(`  remove  pod ${removed.id.slice(0, 12)}, whose containers are gone`),
      );
      assert.match(listed.stdout, /^ {2}remove {2}bridge cbr0$/m);
      assert.match(listed.stdout, /^ {2}keep {4}1 containers of other programs: .*foreign-/m);
      assert.match(listed.stdout, /Nothing is changed \(--dry-run\)\. 2 pods run: it needs --force/);
      const refused = await wipe();
      assert.equal(refused.code, 1);
      assert.match(
        refused.stderr,
        /wipe the node: 2 pods run; drain the node first, or use --force \(nothing is changed\)/,
      );
      assert.equal((await inspectContainer(pod.id))?.State.Running, true);

      const wiped = await wipe("--force");
      assert.equal(wiped.code, 0, wiped.stdout + wiped.stderr);
      // One that the engine makes slowly would appear when all is said to be done.
      assert.deepEqual(
        proxy.calls.filter((call) => call.startsWith("POST /containers/create?")),
        [],
      );
      assert.deepEqual(await containersWithLabel("io.kubernetes.docker.type"), []);
      assert.equal(await inspectContainer(old.sandbox), undefined);
      assert.equal((await inspectContainer(foreign))?.State.Running, true);
      assert.equal(await inspectImage("dockershim.local/pause:3"), undefined);
      assert.ok(!existsSync(stateDirectory));
      assert.ok(!existsSync(logs));
      assert.deepEqual(await readdir("/var/lib/cni/cache/results"), []);
      assert.doesNotMatch(await command("ip", "link", "show"), /cbr0/);
      for (const table of ["nat", "filter"])
        assert.doesNotMatch(await command("iptables", "-t", table, "-S"), /kubenet: /);

      const again = await wipe();
      assert.equal(again.code, 0, again.stderr);
      assert.doesNotMatch(again.stdout, /^ {2}remove {2}(pod|bridge|image|\d+ rules)/m);
      assert.ok(existsSync(dirname(stateDirectory)));
    });
  });
});
