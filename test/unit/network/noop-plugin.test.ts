import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { NoopNetworkPlugin } from "../../../src/network/noop/noop-plugin.js";
import { ShimError } from "../../../src/shim/base/errors.js";
import type { NetworkPlugin } from "../../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../base/temporary-directory.js";

const noAbort = new AbortController().signal;
const ip4 = "net/bridge/bridge-nf-call-iptables";
const ip6 = "net/bridge/bridge-nf-call-ip6tables";

interface Setting extends AsyncDisposable {
  readonly log: ReturnType<typeof recordingLog>;
  readonly plugin: NoopNetworkPlugin;
  readonly directory: string;
  read(setting: string): Promise<string>;
}

async function setUp(settings: Readonly<Record<string, string>>, modprobe = "true"): Promise<Setting> {
  const { path: directory, [Symbol.asyncDispose]: remove } = await temporaryDirectory();
  for (const [name, text] of Object.entries(settings)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  }
  const log = recordingLog();
  return {
    ...{ directory, log },
    plugin: new NoopNetworkPlugin({ reason: "for a test", log, sysctlRoot: directory, modprobe }),
    read: (setting) => readFile(join(directory, setting), "utf8"),
    [Symbol.asyncDispose]: remove,
  };
}

const warnings = ({ log }: Setting): readonly unknown[] =>
  log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["setting"]);

describe("NoopNetworkPlugin.start()", () => {
  test("lets both iptables see bridged traffic", async () => {
    await using at = await setUp({ [ip4]: "0\n", [ip6]: "0\n" });
    await at.plugin.start(noAbort);
    assert.equal((await at.read(ip4)).trim(), "1");
    assert.equal((await at.read(ip6)).trim(), "1");
    assert.deepEqual(warnings(at), []);
  });

  test("writes nothing where it is so already", async () => {
    await using at = await setUp({ [ip4]: "1\n", [ip6]: "1\n" });
    await at.plugin.start(noAbort);
    assert.equal(await at.read(ip4), "1\n", "the text that was there");
    assert.equal(await at.read(ip6), "1\n");
  });

  test("warns of a kernel without bridge filtering, once, and starts nevertheless", async () => {
    await using at = await setUp({});
    await at.plugin.start(noAbort);
    assert.deepEqual(warnings(at), [ip4]);
    await assert.rejects(at.read(ip4), { code: "ENOENT" });
  });

  test("does not mind a kernel without IPv6", async () => {
    await using at = await setUp({ [ip4]: "0" });
    await at.plugin.start(noAbort);
    assert.deepEqual(warnings(at), []);
    assert.equal(await at.read(ip4), "1");
  });

  for (const modprobe of ["/no/such/modprobe", "false"]) {
    test(`goes on when ${modprobe} fails`, async () => {
      await using at = await setUp({ [ip4]: "0", [ip6]: "0" }, modprobe);
      await at.plugin.start(noAbort);
      assert.equal(await at.read(ip4), "1");
      assert.deepEqual(
        at.log.lines.map(({ level }) => level),
        ["debug"],
      );
    });
  }

  test("ends with its signal when modprobe hangs", async () => {
    await using at = await setUp({ [ip4]: "0" });
    const modprobe = join(at.directory, "modprobe");
    await writeFile(modprobe, "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 });
    const plugin = new NoopNetworkPlugin({ reason: "", log: at.log, sysctlRoot: at.directory, modprobe });
    const stop = new AbortController();
    setImmediate(() => stop.abort(new ShimError("timeout", "too late")));
    await assert.rejects(plugin.start(stop.signal), { kind: "timeout" });
    assert.equal(await at.read(ip4), "0");
  });
});

test("NoopNetworkPlugin leaves addresses and ports to Docker", async () => {
  await using at = await setUp({});
  const plugin: NetworkPlugin = at.plugin;
  const pod = { namespace: "default", name: "web", sandboxId: "s", uid: "u" };
  const request = { ...pod, netns: "/proc/1/ns/net", annotations: {}, portMappings: [] };
  assert.equal(plugin.name, "kubernetes.io/no-op");
  assert.equal(plugin.dockerNetworkMode, "default");
  assert.equal(plugin.dockerPublishesPorts, true);
  assert.equal(await plugin.setUpPod(request, noAbort), undefined);
  assert.equal(await plugin.podAddresses(pod), undefined);
  assert.equal(plugin.notReadyReason(), undefined);
});
