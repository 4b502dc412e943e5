import assert from "node:assert/strict";
import { test } from "node:test";
import { parseInterfaces } from "../../../src/shim/stats/network-interfaces.js";
import { readGolden } from "./golden-cgroup.js";

test("parseInterfaces() reads the recorded file, without lo", async () => {
  const { netDev } = await readGolden("v2");
  assert.deepEqual(parseInterfaces(netDev), [
    {
      name: "eth0",
      received: { bytes: 1182, packets: 13, errors: 0, dropped: 0 },
      transmitted: { bytes: 126, packets: 3, errors: 0, dropped: 0 },
    },
  ]);
});

test("parseInterfaces() puts eth0 first and keeps names with colons and full columns", () => {
  const line = (name: string, first: number): string =>
    `${name}:${[first, ...Array.from({ length: 15 }, (_, index) => first + index + 1)].join(" ")}`;
  const text = [
    "Inter-| x",
    " face | y",
    line("net1", 100),
    line("eth0:1", 200),
    line("  eth0", 300),
    "",
  ].join("\n");
  const interfaces = parseInterfaces(text);
  assert.deepEqual(
    interfaces.map(({ name }) => name),
    ["eth0", "net1", "eth0:1"],
  );
  assert.deepEqual(interfaces[0], {
    name: "eth0",
    received: { bytes: 300, packets: 301, errors: 302, dropped: 303 },
    transmitted: { bytes: 308, packets: 309, errors: 310, dropped: 311 },
  });
});

test("parseInterfaces() leaves out lines with too few columns", () => {
  const text = "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n  eth1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
  assert.deepEqual(
    parseInterfaces(text).map(({ name }) => name),
    ["eth1"],
  );
});

test("parseInterfaces() takes the first hundred interfaces, and eth0 at any position", () => {
  const line = (name: string): string => `${name}: ${Array.from({ length: 16 }, () => 1).join(" ")}`;
  const many = Array.from({ length: 500 }, (_, index) => line(`d${index}`));
  const names = parseInterfaces([...many.slice(0, 300), line("eth0"), ...many.slice(300)].join("\n")).map(
    ({ name }) => name,
  );
  assert.equal(names.length, 100);
  assert.deepEqual([names[0], names[1], names.at(-1)], ["eth0", "d0", "d98"]);
});
