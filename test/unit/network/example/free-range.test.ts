import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { findFreeBridge, findFreePlace, readNodeRanges } from "../../../../src/network/example/free-range.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

describe("findFreePlace()", () => {
  const bridges = ["cni0", "dockershim0"];
  const candidates = ["10.213.0.0/16", "10.214.0.0/16"];
  const rows: readonly (readonly [string, string, string, string])[] = [
    ["nothing in the way", "192.168.0.0/24", "eth0", "10.213.0.0/16 on cni0"],
    ["a smaller range inside", "10.213.7.0/24", "eth0", "10.214.0.0/16 on cni0"],
    ["one address inside", "10.213.255.255/32", "eth0", "10.214.0.0/16 on cni0"],
    ["the same range", "10.213.0.0/16", "docker0", "10.214.0.0/16 on cni0"],
    ["a neighbour", "10.212.0.0/16", "eth0", "10.213.0.0/16 on cni0"],
    ["the bridge of an earlier use", "10.214.0.1/16", "cni0", "10.214.0.0/16 on cni0"],
    ["a bridge of that name with other addresses", "10.88.0.1/16", "cni0", "10.213.0.0/16 on dockershim0"],
  ];
  for (const [what, cidr, interfaceName, expected] of rows) {
    test(`with ${what}: ${expected}`, () => {
      const found = findFreePlace(bridges, candidates, [{ cidr, interfaceName }]);
      assert.equal(`${found.cidr} on ${found.bridge}`, expected);
    });
  }

  test("with a range around all: an error that names it", () => {
    assert.throws(
      () => findFreePlace(bridges, candidates, [{ cidr: "10.0.0.0/8", interfaceName: "tun0" }]),
      /\(10\.0\.0\.0\/8 on tun0\): give one with --pod-cidr$/,
    );
  });
});

test("findFreeBridge() passes by a bridge with addresses of another range", () => {
  const taken = [{ cidr: "10.1.0.1/24", interfaceName: "cni0" }];
  assert.equal(findFreeBridge(["cni0", "own0"], "10.1.0.0/24", taken), "cni0");
  assert.equal(findFreeBridge(["cni0", "own0"], "10.2.0.0/24", taken), "own0");
  assert.equal(findFreeBridge(["cni0", "own0"], undefined, taken), "own0");
  assert.throws(() => findFreeBridge(["cni0"], "10.2.0.0/24", taken), /cni0/);
});

test("readNodeRanges() has all routes but the default one, and all addresses of interfaces", async () => {
  await using at = await temporaryDirectory();
  const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT   \n";
  const rows = [
    "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0   ",
    "eth1\t0000D50A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0   ",
    "wg0\t0102030A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0   ",
  ];
  await writeFile(join(at.path, "route"), `${head}${rows.join("\n")}\n`);
  const found = await readNodeRanges(join(at.path, "route"));
  assert.deepEqual(found.slice(0, 2), [
    { cidr: "10.213.0.0/16", interfaceName: "eth1" },
    { cidr: "10.3.2.1/32", interfaceName: "wg0" },
  ]);
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  for (const { family, cidr } of own) {
    if (family === "IPv4") assert.ok(found.some((range) => range.cidr === cidr));
  }
});
