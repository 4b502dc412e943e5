import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  offerExampleNetwork,
  writeExampleNetwork,
  type ExampleSettings,
} from "../../../src/shim/serve/example-network.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const versions = '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}';

/** A node with these plugins and, at first, no configuration directory. */
async function node(plugins: readonly string[]): Promise<AsyncDisposable & { settings: ExampleSettings }> {
  const at = await temporaryDirectory();
  const binDir = join(at.path, "bin");
  await mkdir(binDir);
  for (const name of plugins) {
    const path = join(binDir, name);
    await writeFile(path, `#!/bin/sh\ncat > /dev/null\necho '${versions}'\n`);
    await chmod(path, 0o755);
  }
  return {
    settings: {
      networkPlugin: "cni",
      cniConfDir: join(at.path, "net.d"),
      cniBinDirs: [binDir],
      podCidrs: [],
      writeExampleCniConfig: true,
    },
    [Symbol.asyncDispose]: () => at[Symbol.asyncDispose](),
  };
}

const all = ["bridge", "host-local", "portmap", "bandwidth", "firewall"];

describe("writeExampleNetwork()", () => {
  test("does nothing without the flag", async () => {
    await using at = await node(all);
    const settings = { ...at.settings, writeExampleCniConfig: false };
    assert.equal(await writeExampleNetwork(settings, recordingLog()), undefined);
    await assert.rejects(readdir(settings.cniConfDir), { code: "ENOENT" });
  });

  for (const networkPlugin of ["cni", "auto"] as const) {
    test(`writes a list of the installed plugins with --network-plugin=${networkPlugin}`, async () => {
      await using at = await node(["bridge", "host-local", "portmap"]);
      const { cniConfDir } = at.settings;
      const said = await writeExampleNetwork({ ...at.settings, networkPlugin }, recordingLog());
      const path = join(cniConfDir, "10-dockershim.conflist");
      assert.equal(said, `wrote ${path}`);
      const list = JSON.parse(await readFile(path, "utf8")) as { plugins: { type: string }[] };
      const found = list.plugins.map(({ type }) => type);
      assert.deepEqual(found, ["bridge", "portmap"]);
    });
  }

  test("takes the subnets of --pod-cidr", async () => {
    await using at = await node(all);
    const podCidrs = ["10.5.0.0/16", "fd00:5::/64"];
    await writeExampleNetwork({ ...at.settings, podCidrs }, recordingLog());
    const text = await readFile(join(at.settings.cniConfDir, "10-dockershim.conflist"), "utf8");
    for (const cidr of podCidrs) assert.ok(text.includes(cidr), text);
  });

  for (const present of ["10-dockershim.conflist", "87-podman.conf"]) {
    test(`leaves the directory as it is when there is ${present}, even without plugins`, async () => {
      await using at = await node([]);
      const { cniConfDir } = at.settings;
      await mkdir(cniConfDir);
      await writeFile(join(cniConfDir, present), "broken");
      const said = await writeExampleNetwork(at.settings, recordingLog());
      assert.equal(said, `not written: there is ${join(cniConfDir, present)}`);
      assert.deepEqual(await readdir(cniConfDir), [present]);
      assert.equal(await readFile(join(cniConfDir, present), "utf8"), "broken");
    });
  }

  test("writes nothing with another network plugin, and warns", async () => {
    for (const networkPlugin of ["kubenet", "no-op"] as const) {
      await using at = await node(all);
      const log = recordingLog();
      await writeExampleNetwork({ ...at.settings, networkPlugin }, log);
      await assert.rejects(readdir(at.settings.cniConfDir), { code: "ENOENT" });
      assert.equal(log.lines.filter(({ level }) => level === "warn").length, 1);
    }
  });

  test("fails when there is no configuration and none can be made", async () => {
    await using at = await node(["host-local"]);
    await assert.rejects(writeExampleNetwork(at.settings, recordingLog()), {
      kind: "unavailable",
      message: /^--write-example-cni-config: .*CNI plugins \[bridge\]: not installed$/,
    });
  });
});

describe("offerExampleNetwork()", () => {
  test("offers a list, and writes nothing", async () => {
    await using at = await node(all);
    const offer = await offerExampleNetwork(at.settings, recordingLog());
    assert.equal(offer?.path, join(at.settings.cniConfDir, "10-dockershim.conflist"));
    assert.ok("text" in offer.list && offer.list.text.includes('"bridge"'));
    await assert.rejects(readdir(at.settings.cniConfDir), { code: "ENOENT" });
  });

  test("names the missing plugins when no list can be made, and offers nothing beside a broken file", async () => {
    await using at = await node([]);
    const offer = await offerExampleNetwork(at.settings, recordingLog());
    assert.ok(offer !== undefined && "problem" in offer.list);
    assert.match(offer.list.problem, /\[bridge host-local\]: not installed/);
    await mkdir(at.settings.cniConfDir);
    await writeFile(join(at.settings.cniConfDir, "10-calico.conflist"), "{");
    assert.equal(await offerExampleNetwork(at.settings, recordingLog()), undefined);
  });
});
