/** Files that a power cut may leave of a pod with a network: Stop and Remove through the next shim leave nothing. */
import assert from "node:assert/strict";
import { readdir, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { until } from "../support/wait.js";
import { killPause, NetworkNode, removePause } from "./pod-network-support.js";

const results = "/var/lib/cni/cache/results";

/** The engine's container, which flushes its own files; then checkpoint, record and attachment. */
type Loss = readonly [name: string, container: "ended" | "gone", ...files: ("whole" | "empty" | "gone")[]];

const losses: readonly Loss[] = [
  ["all is there", "ended", "whole", "whole", "whole"],
  ["all is empty", "ended", "empty", "empty", "empty"],
  ["all is gone", "ended", "gone", "gone", "gone"],
  ["the container was removed, the checkpoint is back", "gone", "whole", "gone", "empty"],
  ["the container and the checkpoint were removed, the record is back", "gone", "gone", "whole", "whole"],
];

await withOwnEngine(import.meta.url, [], () => {
  describe("after a power cut", () => {
    const node = NetworkNode.ofSuite("cni");

    for (const [name, container, ...fates] of losses) {
      test(`${name}: the pod is listed as not ready, and nothing is left of it`, async () => {
        const { id } = await node.runPod();
        await node.assertHeld();
        await node.shim.kill();
        await (container === "ended" ? killPause(id) : removePause(id));
        const { stateDirectory } = node.shim;
        const [entry] = (await readdir(results)).filter((one) => one.includes(id));
        assert.ok(entry !== undefined);
        const files = [
          ...[join(stateDirectory, "sandbox", id), join(stateDirectory, "pods", `${id}.json`)],
          join(results, entry),
        ];
        for (const [index, path] of files.entries()) {
          if (fates[index] === "empty") await truncate(path);
          if (fates[index] === "gone") await rm(path);
        }
        await node.start();
        const expected = [{ id, state: PodSandboxState.SANDBOX_NOTREADY }];
        await until("the pod to be listed", async () => (await node.sandboxes()).length > 0);
        assert.deepEqual(await node.sandboxes(), expected);
        await node.stopAndRemove(id);
        await rm(join(stateDirectory, "quarantine"), { recursive: true, force: true });
        // The rules of iptables would be gone with the power: without the addresses of the attachment, plugins
        // cannot find theirs.
        const isOnDisk = (line: string): boolean => !/^ip6?tables-save /.test(line);
        const clean = node.clean.filter(isOnDisk);
        await until(
          "all to be gone",
          async () => (await node.holdings()).filter(isOnDisk).length <= clean.length,
        );
        assert.deepEqual((await node.holdings()).filter(isOnDisk), clean);
      });
    }
  });
});
