import type { HostPortOwner } from "../../../../src/shim/ports/network-plugin.js";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { HostPortClaims, requireFreePorts } from "../../../../src/network/hostport/host-port-claims.js";
import type { PortMapping } from "../../../../src/domain/sandbox.js";
import { never } from "../iptables/fake-commands.js";
import { pluck } from "../../../support/pluck.js";

function owner(name: string, ...portMappings: Partial<PortMapping>[]): HostPortOwner {
  const mapping = { protocol: "tcp", containerPort: 80, hostPort: 8080, hostIp: "" } as const;
  return {
    sandboxId: `id-${name}`,
    namespace: "default",
    name,
    portMappings: portMappings.map((change) => ({ ...mapping, ...change })),
  };
}

describe("requireFreePorts()", () => {
  type Row = [name: string, left: Partial<PortMapping>, right: Partial<PortMapping>, conflict: boolean];
  const rows: readonly Row[] = [
    ["the same port", {}, {}, true],
    ["another port", { hostPort: 1 }, {}, false],
    ["another protocol", { protocol: "udp" }, {}, false],
    ["no host port", { hostPort: 0 }, { hostPort: 0 }, false],
    ["two addresses", { hostIp: "192.0.2.1" }, { hostIp: "192.0.2.2" }, false],
    ["one address twice", { hostIp: "192.0.2.1" }, { hostIp: "192.0.2.1" }, true],
    ["one address and all", { hostIp: "192.0.2.1" }, {}, true],
    ["one address and all of its family", { hostIp: "192.0.2.1" }, { hostIp: "0.0.0.0" }, true],
    ["one address and all of the other family", { hostIp: "192.0.2.1" }, { hostIp: "::" }, false],
    ["all of both families", { hostIp: "0.0.0.0" }, { hostIp: "::" }, false],
    ["one IPv6 address in two spellings", { hostIp: "fd00::1" }, { hostIp: "FD00:0::0001" }, true],
  ];
  for (const [name, left, right, conflict] of rows) {
    test(`${name}: ${conflict ? "conflict" : "free"}, both ways`, () => {
      const check = (wanted: Partial<PortMapping>, taken: Partial<PortMapping>) => () =>
        requireFreePorts(owner("new", wanted), [owner("old", taken)]);
      for (const way of [check(left, right), check(right, left)]) {
        if (conflict) assert.throws(way, { kind: "conflict" });
        else way();
      }
    });
  }

  test("names port, pod and owner", () => {
    const wanted = owner("new", { hostIp: "192.0.2.1" });
    assert.throws(() => requireFreePorts(wanted, [owner("old", {})]), {
      message: `host port 8080/tcp on 192.0.2.1 for pod "new_default": taken by pod "old_default" (sandbox id-old)`,
    });
  });
});

describe("HostPortClaims", () => {
  test("of two pods at once the first has the port, until it is released", async () => {
    const claims = new HostPortClaims();
    const results = await Promise.allSettled(["a", "b"].map((name) => claims.claim(owner(name, {}), never)));
    assert.deepEqual(pluck(results, "status"), ["fulfilled", "rejected"]);
    claims.release(owner("a", {}));
    await claims.claim(owner("b", {}), never);
  });

  test("a port is taken by what is written down, until that sandbox is torn down", async () => {
    const claims = new HostPortClaims(async () => [owner("old", {})]);
    await assert.rejects(claims.claim(owner("new", {}), never), { kind: "conflict" });
    claims.release(owner("old", {}));
    await claims.claim(owner("new", {}), never);
  });
});
