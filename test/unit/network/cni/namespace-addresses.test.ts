import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import {
  ipv4Addresses,
  ipv6Addresses,
  namespaceAddresses,
} from "../../../../src/network/cni/namespace-addresses.js";
import { until } from "../../../support/wait.js";
import { namespacesSeen } from "./fake-plugins.js";

const local = (...addresses: readonly string[]): string =>
  [
    "Main:",
    "  +-- 10.1.0.0/24 2 0 2",
    "     |-- 10.1.0.0",
    "        /24 link UNICAST",
    "Local:",
    "     |-- 127.0.0.1",
    "        /32 host LOCAL",
    ...addresses.flatMap((address) => [`     |-- ${address}`, "        /32 host LOCAL"]),
    "     |-- 10.1.0.255",
    "        /32 link BROADCAST",
  ].join("\n");
const head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
const byDefault = "eth0\t00000000\t0100010A\t0003\t0\t0\t0\t00000000\n";
const route = (name: string): string =>
  `${head}${byDefault}${name}\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n`;

describe("ipv4Addresses()", () => {
  const rows: readonly (readonly [string, string, string, readonly string[]])[] = [
    ["one in the range that is routed to the interface", local("10.1.0.5"), route("eth0"), ["10.1.0.5"]],
    ["not those of other interfaces", local("10.1.0.5", "10.9.0.1"), route("eth0"), ["10.1.0.5"]],
    ["a single one that is routed by itself", local("10.7.0.5"), head + byDefault, ["10.7.0.5"]],
    ["none when nothing tells which", local("10.7.0.5", "10.9.0.1"), head, []],
    ["none", local(), head, []],
    ["none where there are no files", "", "", []],
  ];
  for (const [what, trie, routes, expected] of rows) {
    test(`finds ${what}`, () => assert.deepEqual(ipv4Addresses(trie, routes, "eth0"), expected));
  }
});

test("ipv6Addresses() finds global ones of the interface in their short form", () => {
  const text = [
    "00000000000000000000000000000001 01 80 10 80       lo",
    "fe80000000000000a8bbccfffe000001 02 40 20 80     eth0",
    "fd000181000000000000000000000005 02 40 00 80     eth0",
    "fd000181000000000000000000000006 03 40 00 80     net1",
    "",
  ].join("\n");
  assert.deepEqual(ipv6Addresses(text, "eth0"), ["fd00:181::5"]);
});

test("ipv4Addresses() compares no address with every route", (t) => {
  const parts = Array.from({ length: 30_000 }, (_, index) => [index >> 8, index & 255] as const);
  const routes = parts.map(([high, low]) => {
    const destination = [low, high, 20, 10].map((part) => part.toString(16).padStart(2, "0")).join("");
    return `eth0\t${destination}\t00000000\t0001\t0\t0\t0\tFFFFFFFF`;
  });
  const addresses = local(...parts.map(([high, low]) => `10.30.${high}.${low}`), "10.20.1.1");
  const has = t.mock.method(Set.prototype, "has");
  assert.deepEqual(ipv4Addresses(addresses, head + routes.join("\n"), "eth0"), ["10.20.1.1"]);
  const comparisons = has.mock.callCount();
  assert.ok(comparisons > 0 && comparisons < 100_000, String(comparisons));
});

describe("namespaceAddresses()", () => {
  const netns = `/proc/${process.pid}/ns/net`;
  const namespaces = namespacesSeen(() => ({ identity: "this", own: false }));

  test("agree with what the kernel tells the processes inside", async () => {
    for (const [name, own = []] of Object.entries(networkInterfaces())) {
      // Of addresses of the node that no range is routed to, nothing tells which interface has them.
      if (name === "lo" || own.some(({ netmask }) => netmask === "255.255.255.255")) continue;
      // Other programs change interfaces between the two looks.
      await until(`the addresses of ${name} agree`, async () => {
        const found = await namespaceAddresses(namespaces, { netns, netnsIdentity: "this" }, name);
        const present = networkInterfaces()[name];
        const addresses = (present ?? []).map(({ address }) => address);
        const global = addresses.filter((address) => !address.startsWith("fe80"));
        // Node.js does not list an interface that is down.
        return present === undefined || isDeepStrictEqual([...(found ?? [])].sort(), global.sort());
      });
    }
  });

  test("are not told of another namespace than the pod's", async () => {
    const looking = namespaceAddresses(namespaces, { netns, netnsIdentity: "other" }, "eth0");
    await assert.rejects(looking, { kind: "precondition" });
  });

  test("are unknown for a path that leads through no process", async () => {
    assert.equal(await namespaceAddresses(namespaces, { netns: "/run/netns/x" }, "eth0"), undefined);
  });
});
