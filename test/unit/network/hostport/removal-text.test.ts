import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { removalText } from "../../../../src/network/hostport/legacy-chains.js";
import { parseSavedTable, targetOf } from "../../../../src/network/iptables/saved-table.js";
import { golden, otherChain, webChains } from "./golden.js";

const before = parseSavedTable(golden.natTableAfterAdd);

describe("removalText()", () => {
  test("removes the rules that lead to the chains and the chains, and names nothing else", () => {
    const text = removalText(before, new Set([otherChain]))!;
    assert.deepEqual(text.split("\n"), [
      "*nat",
      `-D KUBE-HOSTPORTS -p tcp -m comment --comment "three_default hostport 18081" -m tcp --dport 18081 -j ${otherChain}`,
      `-F ${otherChain}`,
      `-X ${otherChain}`,
      "COMMIT",
      "",
    ]);
  });

  test("keeps the base chain while another chain is left", () => {
    const text = removalText(before, new Set(webChains))!;
    assert.equal(text.split("\n").filter((line) => line.startsWith("-X ")).length, 3);
    assert.ok(!text.includes("-X KUBE-HOSTPORTS") && !text.includes("PREROUTING"));
  });

  test("removes the base chain and the ways to it with the last chain, but not kube-proxy's chain", () => {
    const after = parseSavedTable(golden.natTableAfterRemove);
    const lines = removalText(after, new Set([otherChain]))!.split("\n");
    assert.deepEqual(
      lines.filter((line) => line.startsWith("-D ")).map((line) => line.split(" ")[1]),
      ["KUBE-HOSTPORTS", "PREROUTING", "OUTPUT", "POSTROUTING"],
    );
    assert.equal(lines.at(-3), "-X KUBE-HOSTPORTS");
    assert.ok(!lines.some((line) => line.includes("-X KUBE-MARK-MASQ")));
  });

  test("keeps a base chain in which somebody else has a rule", () => {
    const after = parseSavedTable(
      golden.natTableAfterRemove.replace("COMMIT", "-A KUBE-HOSTPORTS -p tcp --dport 1 -j ACCEPT\nCOMMIT"),
    );
    assert.ok(!removalText(after, new Set([otherChain]))!.includes("-X KUBE-HOSTPORTS"));
  });

  test("has nothing to say about a table without the chains", () => {
    assert.equal(removalText(before, new Set(["KUBE-HP-ABSENT"])), undefined);
    assert.equal(removalText({ chains: ["PREROUTING"], rules: [] }, new Set(webChains)), undefined);
  });

  test("removes a base chain that was left alone", () => {
    const lonely = {
      ...before,
      chains: ["KUBE-HOSTPORTS"],
      rules: before.rules.filter((rule) => targetOf(rule) === "KUBE-HOSTPORTS"),
    };
    assert.ok(removalText(lonely, new Set())!.includes("-X KUBE-HOSTPORTS"));
  });
});
