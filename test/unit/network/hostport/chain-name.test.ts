import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hostPortChainName, hostPortChainNames } from "../../../../src/network/hostport/legacy-chains.js";
import type { PortProtocol } from "../../../../src/shim/domain/port-mapping.js";
import { golden } from "./golden.js";

describe("hostPortChainName()", () => {
  for (const [ancestor, { vectors }] of Object.entries(golden.chainHash)) {
    // One vector of the file shows what comes out when the protocol is hashed in lower case.
    const right = vectors.filter(({ protocol }) => protocol === protocol.toUpperCase());
    test(`gives the ${String(right.length)} names of ${ancestor}`, () => {
      assert.ok(right.length > 0);
      for (const { id, hostPort, protocol, hostIP, chain } of right) {
        const mapping = { hostPort, protocol: protocol.toLowerCase() as PortProtocol, hostIp: hostIP };
        assert.equal(hostPortChainName(id, mapping), chain, JSON.stringify({ id, ...mapping }));
      }
    });
  }
});

describe("hostPortChainNames()", () => {
  test("gives both names of a mapping with a host address", () => {
    const names = hostPortChainNames("id", { hostPort: 80, protocol: "tcp", hostIp: "127.0.0.1" });
    assert.deepEqual(names, ["KUBE-HP-I53YVPJEZXV2CEJS", "KUBE-HP-HEJYKULY25GGDGJ5"]);
  });

  test("gives the one name of a mapping without", () => {
    const names = hostPortChainNames("id", { hostPort: 80, protocol: "udp", hostIp: "" });
    assert.deepEqual(names, ["KUBE-HP-WMVSONO42NAUFXSV"]);
  });
});
