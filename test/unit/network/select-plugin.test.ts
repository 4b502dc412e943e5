import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { selectNetworkPlugin } from "../../../src/network/select-plugin.js";
import { isKind, messageOf } from "../../../src/shim/base/errors.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../base/temporary-directory.js";

describe("selectNetworkPlugin()", () => {
  test("auto gives no-op on a node without CNI, and says why", async () => {
    await using at = await temporaryDirectory();
    const log = recordingLog();
    const cniConfDir = join(at.path, "net.d");
    const plugin = await selectNetworkPlugin({ name: "auto", cniConfDir }, log);
    assert.equal(plugin.name, "kubernetes.io/no-op");
    assert.ok(plugin.reason.includes(cniConfDir) && plugin.reason.includes("does not exist"));
    assert.deepEqual(log.lines, []);
  });

  test("auto gives no-op on a node with CNI, says why, and warns: addresses will be others than expected", async () => {
    await using at = await temporaryDirectory();
    const log = recordingLog();
    const plugin = await selectNetworkPlugin({ name: "auto", cniConfDir: at.path }, log);
    assert.equal(plugin.name, "kubernetes.io/no-op");
    assert.ok(plugin.reason.includes(at.path) && plugin.reason.includes("no CNI plugin"));
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ["warn"],
    );
  });

  test("auto does not take a file for the directory", async () => {
    await using at = await temporaryDirectory();
    const cniConfDir = join(at.path, "net.d");
    await writeFile(cniConfDir, "");
    const plugin = await selectNetworkPlugin({ name: "auto", cniConfDir }, recordingLog());
    assert.ok(plugin.reason.includes("does not exist"));
  });

  test("no-op was asked for, whatever the node has", async () => {
    await using at = await temporaryDirectory();
    const log = recordingLog();
    const plugin = await selectNetworkPlugin({ name: "no-op", cniConfDir: at.path }, log);
    assert.equal(plugin.name, "kubernetes.io/no-op");
    assert.equal(plugin.reason, "--network-plugin=no-op");
    assert.deepEqual(log.lines, []);
  });

  for (const name of ["cni", "kubenet"] as const) {
    test(`${name} is refused by name: this version does not have it`, async () => {
      const choosing = selectNetworkPlugin({ name, cniConfDir: "/etc/cni/net.d" }, recordingLog());
      await assert.rejects(choosing, (error) => {
        assert.ok(messageOf(error).startsWith(`--network-plugin=${name}: `));
        return isKind(error, "unsupported");
      });
    });
  }
});
