import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parsePodSubnets } from "../../../../src/network/pod-cidrs.js";

describe("parsePodSubnets()", () => {
  for (const [text, cidr, gateway] of [
    ["10.180.0.0/24", "10.180.0.0/24", "10.180.0.1"],
    ["10.180.0.77/24", "10.180.0.0/24", "10.180.0.1"],
    ["255.255.255.255/30", "255.255.255.252/30", "255.255.255.253"],
    ["fd00:180::/64", "fd00:180::/64", "fd00:180::1"],
    ["FD00:0180:0:0:1:2:3:4/64", "fd00:180::/64", "fd00:180::1"],
    ["fd00:0:0:1::/63", "fd00::/63", "fd00::1"],
    ["2001:db8:1:2:3:0:4:5/126", "2001:db8:1:2:3:0:4:4/126", "2001:db8:1:2:3:0:4:5"],
    ["::/8", "::/8", "::1"],
  ] as const) {
    test(`${text} is ${cidr} with the gateway ${gateway}`, () => {
      const [subnet, ...more] = parsePodSubnets([text]);
      assert.deepEqual(subnet, { family: cidr.includes(":") ? "ipv6" : "ipv4", cidr, gateway });
      assert.deepEqual(more, []);
    });
  }

  test("takes one of each family, also joined by a comma, in the order given", () => {
    for (const cidrs of [["fd00::/64, 10.1.0.0/16"], ["fd00::/64", "10.1.0.0/16"]]) {
      assert.deepEqual(
        parsePodSubnets(cidrs).map(({ cidr }) => cidr),
        ["fd00::/64", "10.1.0.0/16"],
      );
    }
  });

  for (const text of [
    "",
    "10.1.0.0",
    "10.1.0.0/33",
    "10.1.0/24",
    "10.1.0.0/31",
    "fd00::/127",
    "fd00::/129",
    "fd00::1%eth0/64",
    "::ffff:10.1.0.0/96",
    "10.1.0.0/16,10.2.0.0/16",
    "x/24",
    "10.1.0.0/-1",
  ]) {
    test(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(() => parsePodSubnets([text]), { kind: "invalid" });
    });
  }
});
