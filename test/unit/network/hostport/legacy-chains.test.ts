import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { legacyChains, chainsOfSandbox } from "../../../../src/network/hostport/legacy-chains.js";
import { parseSavedTable } from "../../../../src/network/iptables/saved-table.js";
import { golden, webChains, webId, webMappings } from "./golden.js";

const chains = legacyChains(parseSavedTable(golden.natTableAfterAdd));
const web = { sandboxId: webId, namespace: "default", name: "web", portMappings: webMappings };

describe("legacyChains()", () => {
  test("tells pod, port, protocol and address of each chain", () => {
    assert.equal(chains.length, 4);
    assert.deepEqual(
      chains.find(({ chain }) => chain === "KUBE-HP-O2ZIJD4ZHVTKCVDM"),
      {
        chain: "KUBE-HP-O2ZIJD4ZHVTKCVDM",
        pod: { namespace: "default", name: "web" },
        hostPort: 18053,
        protocol: "udp",
        destination: "10.180.0.5",
      },
    );
  });

  test("reads IPv6 destinations and host addresses", () => {
    const [chain] = legacyChains(
      parseSavedTable(
        [
          "*nat",
          ":KUBE-HP-H75EA4HGD56SGYLM - [0:0]",
          `-A KUBE-HP-H75EA4HGD56SGYLM -d ::1/128 -p tcp -m comment --comment "web_default hostport 80" -m tcp -j DNAT --to-destination [fd00:180::5]:80`,
          "COMMIT",
        ].join("\n"),
      ),
    );
    assert.equal(chain?.destination, "fd00:180::5");
    assert.equal(chain.hostIp, "::1");
    // By the hash with that address, without knowing the mappings.
    const owner = { sandboxId: "id", namespace: "", name: "", portMappings: [] };
    assert.deepEqual(chainsOfSandbox([chain], owner), ["KUBE-HP-H75EA4HGD56SGYLM"]);
  });
});

describe("chainsOfSandbox()", () => {
  const rows: readonly [
    name: string,
    change: Partial<typeof web> | { portMappings: [] },
    others: readonly string[] | undefined,
    found: readonly string[],
  ][] = [
    ["finds the chains of its port mappings", {}, undefined, webChains],
    ["finds them without the mappings, by what the rules tell", { portMappings: [] }, undefined, webChains],
    ["finds nothing for another sandbox", { sandboxId: "other" }, undefined, []],
    ["finds nothing for another sandbox of the pod while the owner lives", { sandboxId: "new" }, [webId], []],
    ["finds leaked chains of the pod when no sandbox owns them", { sandboxId: "new" }, ["x"], webChains],
    ["goes by name and namespace, not by one of them", { sandboxId: "new", namespace: "kube" }, [], []],
  ];
  for (const [name, change, others, found] of rows) {
    test(name, () => {
      assert.deepEqual([...chainsOfSandbox(chains, { ...web, ...change }, others)].sort(), found);
    });
  }

  test("finds a chain of dockershim, which left the host address out, for a mapping with one", () => {
    const chain = { chain: "KUBE-HP-I53YVPJEZXV2CEJS" };
    const mapping = { protocol: "tcp", containerPort: 8, hostPort: 80, hostIp: "127.0.0.1" } as const;
    const owner = { sandboxId: "id", namespace: "", name: "", portMappings: [mapping] };
    assert.deepEqual(chainsOfSandbox([chain], owner), [chain.chain]);
  });
});
