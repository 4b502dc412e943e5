import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readCpu } from "../../../src/shim/stats/cgroup/cpu-memory-io.js";
import { KeyedText, numberIn, pressureIn } from "../../../src/shim/stats/text-scanner.js";
import { parseInterfaces } from "../../../src/shim/stats/network-interfaces.js";

describe("numberIn()", () => {
  for (const [text, expected] of [
    [undefined, undefined],
    ["", undefined],
    ["max\n", undefined],
    ["-1\n", undefined],
    ["0\n", 0],
    ["4096", 4096],
    ["123456789012345678\n", Number("123456789012345678")],
    // The highest multiple of a page of 4 KiB, and of 64 KiB.
    ["9223372036854771712\n", undefined],
    ["9223372036854710272\n", undefined],
  ] as const) {
    test(`of ${JSON.stringify(text)}`, () => {
      assert.equal(numberIn(text), expected);
    });
  }
});

test("readCpu() takes the CPU time of 256 processors after three months for a number", () => {
  const nanoseconds = "1990656000000000000";
  const text = (controller: string, file: string) =>
    controller === "cpuacct" && file === "cpuacct.usage" ? `${nanoseconds}\n` : undefined;
  assert.equal(readCpu(text, undefined)?.usageNanoseconds, Number(nanoseconds));
});

describe("KeyedText", () => {
  const text = new KeyedText("rss_huge 1\ntotal_rss 2\nrss 3\nlimit max\nlast 4");

  test("finds whole keys only, in any order", () => {
    const found = ["last", "rss", "rss_huge", "total_rss", "rss"].map((key) => text.value(key));
    assert.deepEqual(found, [4, 3, 1, 2, 3]);
  });

  test("has no value for keys that are not there, and for those without a number", () => {
    for (const key of ["huge", "total", "limit", "max", "4", "las"])
      assert.equal(text.value(key), undefined, key);
    assert.equal(new KeyedText("").value("rss"), undefined);
  });
});

describe("pressureIn()", () => {
  const none = { totalMicroseconds: 0, avg10: 0, avg60: 0, avg300: 0 };
  const some = "some avg10=0.07 avg60=12.30 avg300=100.00 total=123456789\n";
  const parsed = { totalMicroseconds: 123_456_789, avg10: 0.07, avg60: 12.3, avg300: 100 };

  test("has zeros without the second line, and no statistics without the first", () => {
    assert.deepEqual(pressureIn(some), { some: parsed, full: none });
    for (const text of [some.replace("some", "full"), "", undefined])
      assert.equal(pressureIn(text), undefined);
  });

  test("passes over lines that are none of those", () => {
    const others = "other avg10=1.00\nsome avg10=\nsome avg10=0.00 avg60=0.00 avg300=0.00 total=1 more=2\n";
    assert.deepEqual(pressureIn(`${others}${some}`), { some: parsed, full: none });
    assert.equal(pressureIn(others), undefined);
  });
});

test("parseInterfaces() puts eth0 first and keeps names with colons and full columns", () => {
  const line = (name: string, first: number): string =>
    `${name}:${[first, ...Array.from({ length: 15 }, (_, index) => first + index + 1)].join(" ")}`;
  const short = "  eth1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
  const lines = [
    "Inter-| x",
    " face | y",
    short,
    line("net1", 100),
    line("eth0:1", 200),
    line("  eth0", 300),
    "",
  ];
  const [eth0, ...others] = parseInterfaces(lines.join("\n"));
  assert.deepEqual(eth0, {
    name: "eth0",
    received: { bytes: 300, packets: 301, errors: 302, dropped: 303 },
    transmitted: { bytes: 308, packets: 309, errors: 310, dropped: 311 },
  });
  const names = others.map(({ name }) => name);
  assert.deepEqual(names, ["net1", "eth0:1"], "the line with too few columns is left out");
});

test("parseInterfaces() takes the first hundred interfaces, and eth0 at any position", () => {
  const line = (name: string): string => `${name}: ${Array.from({ length: 16 }, () => 1).join(" ")}`;
  const many = Array.from({ length: 500 }, (_, index) => line(`d${index}`));
  const interfaces = parseInterfaces([...many.slice(0, 300), line("eth0"), ...many.slice(300)].join("\n"));
  const names = interfaces.map(({ name }) => name);
  assert.equal(names.length, 100);
  assert.deepEqual([names[0], names[1], names.at(-1)], ["eth0", "d0", "d98"]);
});
