/** The configuration that is offered to those who have none, with the real plugins. */
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { createCniParts, createCniPlugin } from "../../src/network/cni/create-cni-plugin.js";
import { PluginVersions } from "../../src/network/libcni/versions.js";
import { exampleForPlugins, writeExampleConflist } from "../../src/network/example/example-conflist.js";
import { recordingLog } from "../fakes/recording-log.js";
import { until } from "../support/wait.js";
import { inNamespaces, pluginDirs } from "../support/isolated-engine.js";
import { answerIn, ask, command, makePod } from "./kubenet-support.js";

const never = new AbortController().signal;

await inNamespaces(import.meta.url, ["sysctl"], () => {
  test("the example works as soon as it is written: addresses of both families, a way out, host ports", async () => {
    const confDir = "/run/net.d";
    await mkdir(confDir);
    const log = recordingLog();
    const options = {
      reason: "for a test",
      confDir,
      binDirs: pluginDirs,
      cacheDir: "/var/lib/cni/cache",
      log,
    };
    const parts = createCniParts(options);
    const podCidrs = ["10.180.2.0/24", "fd00:180:2::/64"];
    const versions = new PluginVersions(parts.invoker);
    const text = await exampleForPlugins({ podCidrs }, { invoker: parts.invoker, versions }, never);
    const path = await writeExampleConflist(confDir, text);
    assert.equal(await readFile(path, "utf8"), text);

    const cni = createCniPlugin(options, parts);
    await cni.start(never);
    assert.equal(cni.notReadyReason(), undefined);
    const before = await command("iptables-save", "-t", "nat");
    await using pod = await makePod("web");
    const request = {
      ...pod,
      annotations: {},
      portMappings: [{ protocol: "tcp", containerPort: 8080, hostPort: 18080, hostIp: "" }] as const,
    };
    const addresses = await cni.setUpPod(request, never);
    assert.match(addresses.join(" "), /^10\.180\.2\.\d+ fd00:180:2::\w+$/);
    using _server = await answerIn(pod.netns, { port: 8080, text: "hello" });
    for (const [host, port] of [
      [addresses[0] ?? "", 8080],
      [addresses[1] ?? "", 8080],
      ["10.180.2.1", 18080],
      ["fd00:180:2::1", 18080],
    ] as const) {
      for (const caller of [undefined, pod.netns]) {
        // For a second or two after its birth the bridge does not use its IPv6 address.
        await until(`an answer from ${host} port ${String(port)}`, async () =>
          (await ask(caller, { protocol: "tcp", host, port })) === "hello" ? true : undefined,
        );
      }
    }
    await cni.tearDownPod(request, never);
    await cni.stop();
    const rules = (save: string): readonly string[] =>
      save.split("\n").filter((line) => /CNI-(?:DN-)?[0-9a-f]{21}/.test(line));
    assert.deepEqual(rules(before), []);
    assert.deepEqual(rules(await command("iptables-save", "-t", "nat")), []);
  });
});
