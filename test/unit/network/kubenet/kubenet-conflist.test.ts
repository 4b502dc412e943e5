import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import {
  kubenetListText,
  type HairpinMode,
  type KubenetListOptions,
} from "../../../../src/network/kubenet/kubenet-conflist.js";
import { parsePodSubnets } from "../../../../src/network/pod-cidrs.js";

type BridgeConfiguration = Readonly<Record<string, unknown>> & { ipam: { ranges: unknown; routes: unknown } };

/** What dockershim 1.20.2 gave to the bridge plugin for 10.180.0.0/24 in promiscuous-bridge mode. */
const { generatedBridgeConfig } = JSON.parse(
  readFileSync(new URL("../../../golden/network/kubenet.json", import.meta.url), "utf8"),
) as { readonly generatedBridgeConfig: BridgeConfiguration };

function list(changes: Partial<KubenetListOptions> = {}) {
  const subnets = parsePodSubnets(["10.180.0.0/24"]);
  const usual = { cniVersion: "1.0.0", subnets, mtuBytes: 1460, plugins: new Set<never>() };
  const text = kubenetListText({ ...usual, hairpinMode: "promiscuous-bridge", ...changes });
  return JSON.parse(text) as { name: string; plugins: [BridgeConfiguration, ...{ type: string }[]] };
}

describe("kubenetListText()", () => {
  test("keeps what dockershim gave to the bridge plugin, so that its bridge and addresses go on", () => {
    const { name, plugins } = list();
    const { cniVersion: _version, name: goldenName, addIf: _unused, ...golden } = generatedBridgeConfig;
    const { forceAddress, promiscMode, ...bridge } = plugins[0];
    assert.equal(name, goldenName);
    assert.deepEqual(bridge, golden);
    assert.deepEqual([forceAddress, promiscMode], [true, true]);
  });

  test("has a range and a default route for each family", () => {
    const [{ ipam }] = list({ subnets: parsePodSubnets(["10.1.0.0/16", "fd00::/64"]) }).plugins;
    assert.deepEqual(ipam.ranges, [[{ subnet: "10.1.0.0/16" }], [{ subnet: "fd00::/64" }]]);
    assert.deepEqual(ipam.routes, [{ dst: "0.0.0.0/0" }, { dst: "::/0" }]);
  });

  for (const [hairpinMode, hairpin, promiscuous] of [
    ["hairpin-veth", true, false],
    ["promiscuous-bridge", false, true],
    ["none", false, false],
  ] as const satisfies readonly (readonly [HairpinMode, boolean, boolean])[]) {
    test(`sets hairpin ${hairpin} and promiscuous ${promiscuous} for ${hairpinMode}`, () => {
      const [bridge] = list({ hairpinMode }).plugins;
      assert.deepEqual([bridge["hairpinMode"], bridge["promiscMode"]], [hairpin, promiscuous]);
    });
  }
});
