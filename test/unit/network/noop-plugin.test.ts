import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { NoopNetworkPlugin } from "../../../src/network/noop/noop-plugin.js";
import type { NetworkPlugin } from "../../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { fakeCommands, never } from "./iptables/fake-commands.js";

function noop(sysctlRoot: string): NetworkPlugin {
  return new NoopNetworkPlugin({
    reason: "for a test",
    log: recordingLog(),
    sysctlRoot,
    run: fakeCommands(),
  });
}

test("NoopNetworkPlugin lets iptables see the traffic of Docker's bridge", async () => {
  await using at = await temporaryDirectory();
  const setting = join(at.path, "net/bridge/bridge-nf-call-iptables");
  await mkdir(join(at.path, "net/bridge"), { recursive: true });
  await writeFile(setting, "0\n");
  await noop(at.path).start(never);
  assert.equal((await readFile(setting, "utf8")).trim(), "1");
});

test("NoopNetworkPlugin is not ready, and refuses pods, while the engine has no default network", async () => {
  const plugin = noop("/nowhere");
  await plugin.engineFound({ local: true, defaultNetwork: false });
  assert.match(plugin.notReadyReason() ?? "", /"bridge": "none" in daemon\.json/);
  const pod = { namespace: "default", name: "web", sandboxId: "s", uid: "u" };
  const request = { ...pod, netns: "/proc/1/ns/net", annotations: {}, portMappings: [] };
  await assert.rejects(plugin.setUpPod(request, never), {
    kind: "unavailable",
    message: /no default network/,
  });
  await plugin.engineFound({ local: true, defaultNetwork: true });
  assert.equal(plugin.notReadyReason(), undefined);
  assert.equal(await plugin.setUpPod(request, never), undefined);
});
