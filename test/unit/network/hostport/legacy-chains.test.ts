import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  hostPortChainName,
  legacyChains,
  chainsOfSandbox,
  removalText,
} from "../../../../src/network/hostport/legacy-chains.js";
import type { PortProtocol } from "../../../../src/domain/sandbox.js";
import { golden, webChains, webId, webMappings, otherChain } from "./golden.js";
import { parseSavedTable, targetOf } from "../../../../src/network/iptables/saved-table.js";

describe("hostPortChainName()", () => {
  for (const [program, { vectors }] of Object.entries(golden.chainHash)) {
    // One vector of the file shows what comes out when the protocol is hashed in lower case.
    const right = vectors.filter(({ protocol }) => protocol === protocol.toUpperCase());
    test(`gives the ${right.length} names of ${program}`, () => {
      assert.ok(right.length > 0);
      for (const { id, hostPort, protocol, hostIP, chain } of right) {
        const mapping = { hostPort, protocol: protocol.toLowerCase() as PortProtocol, hostIp: hostIP };
        assert.equal(hostPortChainName(id, mapping), chain, JSON.stringify({ id, ...mapping }));
      }
    });
  }
});

const chains = legacyChains(parseSavedTable(golden.natTableAfterAdd));
const web = { sandboxId: webId, namespace: "default", name: "web", portMappings: webMappings };

describe("legacyChains()", () => {
  test("reads IPv6 destinations and host addresses", () => {
    const name = "KUBE-HP-H75EA4HGD56SGYLM";
    const rule = `-A ${name} -d ::1/128 -p tcp -m comment --comment "web_default hostport 80" -m tcp -j DNAT`;
    const table = `*nat\n:${name} - [0:0]\n${rule} --to-destination [fd00:180::5]:80\nCOMMIT`;
    const [chain] = legacyChains(parseSavedTable(table));
    assert.equal(chain?.destination, "fd00:180::5");
    assert.equal(chain.hostIp, "::1");
    // By the hash with that address, without knowing the mappings.
    const owner = { sandboxId: "id", namespace: "", name: "", portMappings: [] };
    assert.deepEqual(chainsOfSandbox([chain], owner), [name]);
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

const before = parseSavedTable(golden.natTableAfterAdd);

describe("removalText()", () => {
  test("keeps the base chain while another chain is left", () => {
    const text = removalText(before, new Set(webChains))!;
    assert.equal(text.split("\n").filter((line) => line.startsWith("-X ")).length, 3);
    assert.ok(!text.includes("-X KUBE-HOSTPORTS") && !text.includes("PREROUTING"));
  });

  test("removes the base chain and the ways to it with the last chain, but not kube-proxy's chain", () => {
    const after = parseSavedTable(golden.natTableAfterRemove);
    const lines = removalText(after, new Set([otherChain]))!.split("\n");
    const changed = lines.filter((line) => line.startsWith("-D ")).map((line) => line.split(" ")[1]);
    assert.deepEqual(changed, ["KUBE-HOSTPORTS", "PREROUTING", "OUTPUT", "POSTROUTING"]);
    assert.equal(lines.at(-3), "-X KUBE-HOSTPORTS");
    assert.ok(!lines.some((line) => line.includes("-X KUBE-MARK-MASQ")));
  });

  test("keeps a base chain with a rule of another program", () => {
    const theirs = "-A KUBE-HOSTPORTS -p tcp --dport 1 -j ACCEPT\nCOMMIT";
    const after = parseSavedTable(golden.natTableAfterRemove.replace("COMMIT", theirs));
    assert.ok(!removalText(after, new Set([otherChain]))!.includes("-X KUBE-HOSTPORTS"));
  });

  test("removes a base chain that was left alone", () => {
    const rules = before.rules.filter((rule) => targetOf(rule) === "KUBE-HOSTPORTS");
    const lonely = { ...before, chains: ["KUBE-HOSTPORTS"], rules };
    assert.ok(removalText(lonely, new Set())!.includes("-X KUBE-HOSTPORTS"));
  });
});
