import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { kubeletWithoutNames } from "../../../src/shim/serve/kubelet-without-names.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

async function withProcess(path: string, words: readonly string[], endpoint: string, answer?: string) {
  const directory = join(path, "proc", "42");
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "cmdline"), words.map((word) => `${word}\0`).join(""));
  const unit = join(path, "etc/systemd/system/kubelet.service");
  await mkdir(dirname(unit), { recursive: true });
  await writeFile(unit, "[Service]\nExecStart=/usr/bin/kubelet\n");
  return kubeletWithoutNames(endpoint, new NodeFiles(path), (program) =>
    Promise.resolve(program === "/usr/bin/kubelet" ? answer : undefined),
  );
}

describe("kubeletWithoutNames()", () => {
  const served = "unix:///run/dockershim/cadvisor.sock";
  const lacks =
    "the kubelet (process 42) lacks --containerd=/run/dockershim/cadvisor.sock: docs/run/container-metrics.md";
  const kubelet = "/usr/bin/kubelet";
  for (const [words, endpoint, answer, expected] of [
    [[kubelet, "--v=2"], served, undefined, lacks],
    [[kubelet, "--containerd=/run/other.sock"], "fd://", undefined, lacks],
    [[kubelet, "--containerd", "/var/run/dockershim/cadvisor.sock"], served, undefined, undefined],
    [[kubelet], served, "Kubernetes v1.24.0", lacks],
    [[kubelet], served, "Kubernetes v1.23.17", undefined],
    [[kubelet], served, "Kubernetes v1.36.2", lacks],
    // It would not start with the flag.
    [[kubelet], served, "Kubernetes v1.37.0", undefined],
    [[kubelet, "--network-plugin=cni"], served, undefined, undefined],
    [[kubelet], "", undefined, undefined],
    [["/usr/bin/dockerd"], served, undefined, undefined],
  ] as const) {
    test(`${expected === undefined ? "is silent" : "warns"} given ${words.join(" ")}, "${endpoint}" and ${answer ?? "no version"}`, async () => {
      await using directory = await temporaryDirectory();
      assert.equal(await withProcess(directory.path, words, endpoint, answer), expected);
    });
  }
});
