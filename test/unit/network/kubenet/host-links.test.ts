import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseLinks, smallestMtuBytes } from "../../../../src/network/kubenet/host-links.js";

const link = (ifname: string, mtu: number, changes: object = {}) => ({
  ifname,
  mtu,
  flags: ["BROADCAST", "UP", "LOWER_UP"],
  address: "02:00:00:00:00:01",
  ...changes,
});

describe("smallestMtuBytes()", () => {
  const rows: readonly [name: string, links: readonly object[], expected: number | undefined][] = [
    ["the smallest", [link("eth0", 1500), link("eth1", 1400)], 1400],
    ["not of the loopback", [link("lo", 600, { flags: ["LOOPBACK", "UP"] }), link("eth0", 9000)], 9000],
    ["not of a tunnel", [link("tun0", 1300, { flags: ["POINTOPOINT", "UP"] }), link("eth0", 1500)], 1500],
    ["not of an interface that is down", [link("eth1", 1300, { flags: [] }), link("eth0", 1500)], 1500],
    ["not of cbr0", [link("cbr0", 1000), link("eth0", 1500)], 1500],
    ["not of its ports", [link("veth1", 1000, { master: "cbr0" }), link("eth0", 1500)], 1500],
    ["none without interfaces", [], undefined],
    ["none out of reason", [link("eth0", 68)], undefined],
  ];
  for (const [name, links, expected] of rows) {
    test(`takes ${name}`, () => {
      assert.equal(smallestMtuBytes(parseLinks(JSON.stringify(links))), expected);
    });
  }
});

describe("parseLinks()", () => {
  test("passes by what is no interface", () => {
    assert.deepEqual(parseLinks(`[null, {}, {"ifname":"x"}]`), []);
    assert.deepEqual(parseLinks("{}"), []);
  });
});
