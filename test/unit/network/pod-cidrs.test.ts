import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PodCidrs, parsePodSubnets } from "../../../src/network/pod-cidrs.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { pluck } from "../../support/pluck.js";

type Sources = Partial<Pick<ConstructorParameters<typeof PodCidrs>[0], "flag" | "remembered">>;

function setUp({ flag = [], remembered = [] }: Sources) {
  const log = recordingLog();
  const written: (readonly string[])[] = [];
  const used: (readonly string[])[] = [];
  const remember = async (cidrs: readonly string[]): Promise<void> => void written.push(cidrs);
  const cidrs = new PodCidrs({ flag, remembered, remember, log });
  const told = (...from: readonly string[]): Promise<void> =>
    cidrs.told(from, async (accepted) => void used.push(accepted));
  const warnings = (): number => log.linesAt("warn").length;
  return { cidrs, told, written, used, warnings };
}

describe("PodCidrs", () => {
  const one = "10.1.0.0/16";
  const two = "10.2.0.0/16";
  const three = "10.3.0.0/16";
  type Cidrs = readonly string[];
  /** `used` are those that the plugin gets; the same ones are remembered. */
  type Row = readonly [name: string, sources: Sources, told: readonly Cidrs[], used: Cidrs, current: Cidrs];
  const rows: readonly Row[] = [
    ["those of the flag win", { flag: [one], remembered: [three] }, [[two]], [], [one]],
    ["without a flag the first of the kubelet count", {}, [[one], [two]], [one], [one]],
    ["those of the last run count until the kubelet tells others", { remembered: [one] }, [], [], [one]],
    ["the kubelet's first replace those of before", { remembered: [one] }, [[two], [three]], [two], [two]],
    ["the kubelet's first that repeat the last run's stay", { remembered: [one] }, [[one], [two]], [], [one]],
    ["invalid ones fix nothing", {}, [["10.1.0.0/33"], ["x"], [one, "10.9.0.0/16"], [two]], [two], [two]],
    ["host bits are cut off", {}, [["10.1.7.7/16", "fd00::7/64"]], [one, "fd00::/64"], [one, "fd00::/64"]],
  ];
  for (const [name, sources, told, used, current] of rows) {
    test(name, async () => {
      const at = setUp(sources);
      for (const cidrs of told) await at.told(...cidrs);
      const expected = used.length === 0 ? [] : [used];
      assert.deepEqual([at.cidrs.current, at.used, at.written], [current, expected, expected]);
    });
  }

  test("what the plugin does not accept is not remembered, and may be told again", async () => {
    const { cidrs, told, written } = setUp({});
    const refuse = (): Promise<void> => Promise.reject(new Error("no"));
    await assert.rejects(cidrs.told([one], refuse), /no/);
    assert.deepEqual([cidrs.current, written], [[], []]);
    await told(two);
    assert.deepEqual([cidrs.current, written], [[two], [[two]]]);
  });

  test("another one is warned of once, however often the kubelet says it", async () => {
    const { told, warnings } = setUp({ flag: [one] });
    await told(two);
    await told(two);
    assert.equal(warnings(), 1);
    await told(three);
    assert.equal(warnings(), 2);
  });

  test("the problem is that of the last one that made no sense, until there is a good one", async () => {
    const { cidrs, told } = setUp({});
    assert.equal(cidrs.problem, undefined);
    await told("10.1.0.0/33");
    assert.match(String(cidrs.problem), /^pod CIDR "10\.1\.0\.0\/33": not a network/);
    await told(one);
    assert.equal(cidrs.problem, undefined);
    assert.match(setUp({ flag: ["10.1.0.1/32"] }).cidrs.problem ?? "", /too small for a pod/);
  });
});

describe("parsePodSubnets()", () => {
  for (const [text, cidr, gateway] of [
    ["10.180.0.0/24", "10.180.0.0/24", "10.180.0.1"],
    ["10.180.0.77/24", "10.180.0.0/24", "10.180.0.1"],
    ["255.255.255.255/30", "255.255.255.252/30", "255.255.255.253"],
    ["fd00:180::/64", "fd00:180::/64", "fd00:180::1"],
    ["FD00:0180:0:0:1:2:3:4/64", "fd00:180::/64", "fd00:180::1"],
    ["fd00:0:0:1::/63", "fd00::/63", "fd00::1"],
    ["2001:db8:1:2:3:0:4:5/126", "2001:db8:1:2:3:0:4:4/126", "2001:db8:1:2:3:0:4:5"],
    ["::/8", "::/8", "::1"],
  ] as const) {
    test(`${text} is ${cidr} with the gateway ${gateway}`, () => {
      const [subnet, ...more] = parsePodSubnets([text]);
      assert.deepEqual(subnet, { family: cidr.includes(":") ? "ipv6" : "ipv4", cidr, gateway });
      assert.deepEqual(more, []);
    });
  }

  test("takes one of each family, also joined by a comma, in the order given", () => {
    for (const cidrs of [["fd00::/64, 10.1.0.0/16"], ["fd00::/64", "10.1.0.0/16"]]) {
      assert.deepEqual(pluck(parsePodSubnets(cidrs), "cidr"), ["fd00::/64", "10.1.0.0/16"]);
    }
  });

  const refused = ["", "10.1.0.0", "10.1.0.0/33", "10.1.0/24", "10.1.0.0/31", "fd00::/127", "fd00::/129"];
  const more = ["fd00::1%eth0/64", "::ffff:10.1.0.0/96", "10.1.0.0/16,10.2.0.0/16", "x/24", "10.1.0.0/-1"];
  for (const text of [...refused, ...more]) {
    test(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(() => parsePodSubnets([text]), { kind: "invalid" });
    });
  }
});
