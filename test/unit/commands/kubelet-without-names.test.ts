import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { NodeFiles } from "../../../src/migrate/node/node-files.js";
import { kubeletWithoutNames } from "../../../src/shim/commands/kubelet-without-names.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

async function withProcess(path: string, words: readonly string[], endpoint: string) {
  const directory = join(path, "proc", "42");
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "cmdline"), words.map((word) => `${word}\0`).join(""));
  return kubeletWithoutNames(endpoint, new NodeFiles(path));
}

describe("kubeletWithoutNames()", () => {
  const served = "unix:///run/dockershim/cadvisor.sock";
  const lacks =
    "the kubelet (process 42) lacks --containerd=/run/dockershim/cadvisor.sock: docs/container-metrics.md";
  for (const { words, endpoint, expected } of [
    { words: ["/usr/bin/kubelet", "--v=2"], endpoint: served, expected: lacks },
    { words: ["/usr/bin/kubelet", "--containerd=/run/other.sock"], endpoint: "fd://", expected: lacks },
    {
      words: ["/usr/bin/kubelet", "--containerd", "/var/run/dockershim/cadvisor.sock"],
      endpoint: served,
      expected: undefined,
    },
    { words: ["/usr/bin/kubelet"], endpoint: "", expected: undefined },
    { words: ["/usr/bin/dockerd"], endpoint: served, expected: undefined },
  ]) {
    test(`${expected === undefined ? "is silent" : "warns"} given ${words.join(" ")} and "${endpoint}"`, async () => {
      await using directory = await temporaryDirectory();
      assert.equal(await withProcess(directory.path, words, endpoint), expected);
    });
  }
});
