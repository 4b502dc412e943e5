import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseNetworkList, requireUsable } from "../../../../src/network/libcni/configuration.js";
import {
  exampleConflist,
  exampleForPlugins,
  writeExampleConflist,
} from "../../../../src/network/example/example-conflist.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { never } from "../iptables/fake-commands.js";
import { debianPlugins } from "../kubenet/kubenet-parts.js";

const typesIn = (text: string): readonly string[] =>
  requireUsable(parseNetworkList(text, "example")).plugins.map(({ type }) => type);

describe("exampleConflist()", () => {
  test("has the networks that are asked for, and refuses what is none", () => {
    const text = exampleConflist({ podCidrs: ["10.5.0.0/16", "fd00:5::/64"] });
    assert.ok(text.includes("10.5.0.0/16") && text.includes("fd00:5::/64") && text.includes("::/0"));
    assert.throws(() => exampleConflist({ podCidrs: ["10.5.0.0"] }), { kind: "invalid" });
  });
});

describe("exampleForPlugins()", () => {
  test("has the installed plugins and the newest version that all of them speak", async () => {
    const plugins = debianPlugins("bandwidth");
    plugins.installed.set("firewall", ["0.4.0"]);
    const text = await exampleForPlugins({}, { invoker: plugins, versions: plugins }, never);
    assert.deepEqual(typesIn(text), ["bridge", "portmap", "firewall"]);
    assert.equal(parseNetworkList(text, "example").cniVersion, "0.4.0");
  });

  test("is unavailable without a bridge, and says what is missing", async () => {
    const plugins = debianPlugins("bridge");
    await assert.rejects(exampleForPlugins({}, { invoker: plugins, versions: plugins }, never), {
      kind: "unavailable",
      message: "CNI plugins [bridge]: not installed",
    });
  });
});

describe("writeExampleConflist()", () => {
  test("makes the directory and a file that others can read, and nothing else", async () => {
    await using at = await temporaryDirectory();
    const directory = join(at.path, "cni", "net.d");
    const path = await writeExampleConflist(directory, "{}\n");
    assert.equal(await readFile(path, "utf8"), "{}\n");
    assert.equal((await stat(path)).mode & 0o777, 0o644);
    assert.deepEqual(await readdir(directory), ["10-dockershim.conflist"]);
  });

  for (const name of ["10-dockershim.conflist", "99-own.conf", "x.json"]) {
    test(`refuses when there is ${name}, and leaves it as it is`, async () => {
      await using at = await temporaryDirectory();
      await writeFile(join(at.path, name), "mine");
      await assert.rejects(writeExampleConflist(at.path, "{}"), (error: Error) => {
        assert.ok(error.message.includes(join(at.path, name)));
        return true;
      });
      assert.deepEqual(await readdir(at.path), [name]);
      assert.equal(await readFile(join(at.path, name), "utf8"), "mine");
    });
  }
});
