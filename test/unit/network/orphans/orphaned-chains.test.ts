import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orphanedChains } from "../../../../src/network/orphans/find-orphans.js";
import { golden, otherChain, webChains, webId } from "../hostport/golden.js";

const tables = [
  { family: "ipv4", save: golden.natTableAfterAdd },
  { family: "ipv6", save: "" },
] as const;

describe("orphanedChains()", () => {
  const rows: readonly [
    name: string,
    living: readonly string[],
    own: readonly string[],
    ours: readonly string[],
    strange: readonly string[],
  ][] = [
    ["chains of a dead sandbox that we have noted are ours", [], [webId], webChains, [otherChain]],
    ["chains of a container that is still there are left out", [webId], [webId], [], [otherChain]],
    ["chains of nobody that is known are perhaps not ours", [], [], [], [...webChains, otherChain]],
  ];
  for (const [name, living, own, ours, strange] of rows) {
    test(name, async () => {
      const found = await orphanedChains(tables, { livingIds: new Set(living), ownIds: new Set(own) });
      const names = (certainlyOurs: boolean): readonly string[] =>
        found
          .filter((finding) => finding.certainlyOurs === certainlyOurs)
          .map(({ chain }) => chain)
          .sort();
      assert.deepEqual([names(true), names(false)], [[...ours].sort(), [...strange].sort()]);
    });
  }

  test("says family, port and pod, as far as the rules tell", async () => {
    const found = await orphanedChains(tables, { livingIds: new Set(), ownIds: new Set([webId]) });
    const udp = found.find(({ chain }) => chain === "KUBE-HP-O2ZIJD4ZHVTKCVDM");
    assert.equal(udp?.what, 'ipv4 nat: KUBE-HP-O2ZIJD4ZHVTKCVDM, host port 18053/udp of pod "web_default"');
    assert.equal(udp.ownerId, webId);
  });
});
