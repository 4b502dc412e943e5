import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { parseNetworkList, type NetworkList } from "../../../../src/network/libcni/configuration.js";
import type { CniArgument } from "../../../../src/network/libcni/invoke-plugin.js";
import type { JsonObject } from "../../../../src/lib/json/exact-json.js";
import { NetworkListRunner, type Attachment } from "../../../../src/network/libcni/network-list-runner.js";
import { pluginErrorCode } from "../../../../src/network/libcni/plugin-error.js";
import { silentLogger } from "../../../../src/lib/log.js";
import { FakePlugins, livingNetns, oneAddress } from "../cni/fake-plugins.js";
import { golden } from "../cni/golden.js";
import { pluck } from "../../../support/pluck.js";

const never = new AbortController().signal;
const attachment: Attachment = {
  containerId: "abc",
  netns: livingNetns,
  netnsIdentity: "first",
  ifName: "eth0",
  args: [],
  capabilityArgs: {},
  subject: 'pod "a/b"',
};
const plugins = [{ type: "one" }, { type: "two" }, { type: "three" }];
const listOf = (cniVersion: string, members: object = {}): NetworkList =>
  parseNetworkList(JSON.stringify({ name: "net", cniVersion, plugins, ...members }), "test");

let fake: FakePlugins;
let runner: NetworkListRunner;
beforeEach(async () => {
  fake = await FakePlugins.create("one", "two", "three");
  runner = new NetworkListRunner(fake.invoker(), silentLogger());
});
afterEach(() => fake[Symbol.asyncDispose]());

test("environment and stdin are those of the Go library, but for the digits that it loses", async () => {
  interface Protocol {
    readonly addFirst: { readonly env: Readonly<Record<string, string>>; readonly stdin: JsonObject };
    readonly addSecond: { readonly stdin: JsonObject };
    readonly cacheFile: { readonly content: { config: string; cniArgs: readonly CniArgument[] } };
  }
  const recorded = golden<Protocol>("protocol.json");
  for (const type of ["echoplug", "echotwo"]) await fake.install(type);
  const text = Buffer.from(recorded.cacheFile.content.config, "base64").toString("utf8");
  const { env } = recorded.addFirst;
  fake.namespaces.living.set(env["CNI_NETNS"]!, "recorded");
  const portMappings = [{ containerPort: 80, hostIP: "", hostPort: 18080, protocol: "tcp" }];
  const as = {
    ...{ containerId: env["CNI_CONTAINERID"]!, netns: env["CNI_NETNS"]!, ifName: env["CNI_IFNAME"]! },
    ...{ args: recorded.cacheFile.content.cniArgs, netnsIdentity: "recorded", subject: "recorded" },
    capabilityArgs: { portMappings, ipRanges: [[{ subnet: "" }]] },
  };
  await runner.add(parseNetworkList(text, "recorded"), as, never);
  const [first, second] = await fake.calls("ADD");
  const { command, containerId, netns, ifName, args } = first!;
  const given = ["COMMAND", "CONTAINERID", "NETNS", "IFNAME", "ARGS"].map((name) => env[`CNI_${name}`]);
  assert.deepEqual([command, containerId, netns, ifName, args], given);
  // The library sends ...568, and 1.5 for the 1.50 in the file.
  assert.match(first?.stdinText ?? "", /"a":12345678901234567[,}]/);
  assert.match(first?.stdinText ?? "", /"b":1\.50[,}]/);
  assert.deepEqual(first?.stdin, recorded.addFirst.stdin);
  assert.deepEqual(second?.stdin, recorded.addSecond.stdin);
});

test("add() names plugin, command and pod when a plugin succeeds and prints no result", async () => {
  await fake.behave("one", "ADD", "echo hello");
  const message = /^CNI plugin "one" ADD for pod "a\/b": failed to unmarshal raw result: .*"hello\\n"$/;
  await assert.rejects(runner.add(listOf("0.4.0"), attachment, never), { message });
});

describe("delete()", () => {
  for (const [version, given] of Object.entries({ "0.3.1": undefined, "0.4.0": oneAddress })) {
    test(`runs last to first, at ${version} ${given === undefined ? "without" : "with"} the result`, async () => {
      await runner.delete(listOf(version), attachment, oneAddress, never);
      assert.deepEqual(await fake.order(), ["DEL three", "DEL two", "DEL one"]);
      for (const { stdin } of await fake.calls()) assert.deepEqual(stdin["prevResult"], given);
    });
  }

  test("goes on when a plugin does not know the container", async () => {
    await fake.behave("two", "DEL", `echo '{"code":3,"msg":"unknown container"}'; exit 1`);
    await runner.delete(listOf("0.4.0"), attachment, undefined, never);
    assert.deepEqual(await fake.order(), ["DEL three", "DEL two", "DEL one"]);
  });

  test("leaves out a result that does not fit the configuration", async () => {
    await runner.delete(listOf("0.4.0"), attachment, { cniVersion: "1.0.0", ips: [] }, never);
    await runner.delete(listOf("0.1.0"), attachment, { cniVersion: "1.0.0", ips: [] }, never);
    assert.equal((await fake.order()).length, 6);
  });
});

describe("check()", () => {
  test("is refused below 0.4.0, and nothing when the list switches it off", async () => {
    await assert.rejects(runner.check(listOf("0.3.1"), attachment, oneAddress, never), {
      message: 'configuration version "0.3.1" does not support the CHECK command',
    });
    await runner.check(listOf("0.4.0", { disableCheck: true }), attachment, oneAddress, never);
    assert.deepEqual(await fake.order(), []);
  });
});

describe("collectGarbage() and status()", () => {
  test("run nothing below 1.1.0", async () => {
    await runner.collectGarbage(listOf("1.0.0"), [], never);
    await runner.status(listOf("1.0.0"), never);
    await runner.collectGarbage(listOf("1.1.0", { disableGC: true }), [], never);
    assert.deepEqual(await fake.calls("GC", "STATUS"), []);
  });

  test("GC names the valid attachments and goes on after a failure", async () => {
    await fake.behave("one", "GC", "exit 1");
    const valid = [{ containerId: "abc", ifName: "eth0" }];
    await assert.rejects(runner.collectGarbage(listOf("1.1.0"), valid, never), /CNI plugin "one" GC: /);
    const calls = await fake.calls("GC");
    assert.deepEqual(pluck(calls, "plugin"), ["one", "two", "three"]);
    assert.deepEqual(calls[0]?.stdin["cni.dev/valid-attachments"], [{ containerID: "abc", ifname: "eth0" }]);
    assert.deepEqual([calls[0].containerId, calls[0].netns, calls[0].ifName], ["", "", ""]);
  });

  test("STATUS stops at the first complaint and keeps its code", async () => {
    await fake.behave("two", "STATUS", `echo '{"code":50,"msg":"no backend"}'; exit 1`);
    await assert.rejects(runner.status(listOf("1.1.0"), never), (error) => pluginErrorCode(error) === 50);
    assert.deepEqual(pluck(await fake.calls("STATUS"), "plugin"), ["one", "two"]);
  });
});

for (const [what, wrong] of [
  ["an empty container id", { containerId: "" }],
  ["a container id with a slash", { containerId: "a/b" }],
  ["a long interface name", { ifName: "x".repeat(16) }],
  ["an interface name with a blank", { ifName: "eth 0" }],
  ["the interface name ..", { ifName: ".." }],
] as const) {
  test(`add() refuses ${what} before anything runs`, async () => {
    await assert.rejects(runner.add(listOf("0.4.0"), { ...attachment, ...wrong }, never));
    assert.deepEqual(await fake.order(), []);
  });
}
