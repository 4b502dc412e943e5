import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { Iptables, type AddressFamily } from "../../../../src/network/iptables/iptables.js";
import { masqueradeRule, NodeRules } from "../../../../src/network/kubenet/node-rules.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "../iptables/fake-commands.js";
import { handClock } from "./kubenet-parts.js";

const { commandsInOrder } = JSON.parse(
  readFileSync(new URL("../../../golden/network/kubenet.json", import.meta.url), "utf8"),
) as { readonly commandsInOrder: readonly string[] };

describe("masqueradeRule()", () => {
  test("is dockershim's to the word", () => {
    const { rule } = masqueradeRule("10.0.0.0/8")!;
    const golden = commandsInOrder.find((line) => line.includes("-A POSTROUTING"))!;
    assert.ok(golden.endsWith(` -t nat ${rule.words.join(" ")}`), golden);
    assert.deepEqual([rule.table, rule.chain], ["nat", "POSTROUTING"]);
  });

  test("is of the family of the CIDR", () => {
    assert.equal(masqueradeRule("10.0.0.0/8")?.family, "ipv4");
    assert.equal(masqueradeRule("fd00::/8")?.family, "ipv6");
  });

  test("is none when nothing is outside", () => {
    assert.equal(masqueradeRule("0.0.0.0/0"), undefined);
    assert.equal(masqueradeRule("::/0"), undefined);
  });
});

function setUp(answer: (command: RecordedCommand) => Answer, families: AddressFamily[] = ["ipv4", "ipv6"]) {
  const run = fakeCommands(answer);
  const log = recordingLog();
  const clock = handClock();
  const version = { text: "1.8.9", parts: [1, 8, 9], backend: "nft" } as const;
  const tools = { version, suffix: "", reason: "", differsFromDefault: false } as const;
  const iptables = new Iptables(tools, { run, pause: async () => {} });
  const options = {
    iptables,
    nonMasqueradeCidr: "10.0.0.0/8",
    families: () => new Set(families),
    log,
    clock,
  };
  return { run, log, clock, rules: new NodeRules(options) };
}

const accepting: Answer = { stdout: "-P FORWARD ACCEPT\n" };
const dropping: Answer = { stdout: "-P FORWARD DROP\n" };
const missing: Answer = { exitCode: 1 };
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("NodeRules", () => {
  test("lets pods through a FORWARD chain that drops, in the families of the pods", async () => {
    const { rules, run } = setUp(
      ({ words }) => (words.includes("-S") ? dropping : words.includes("-C") ? missing : undefined),
      ["ipv6"],
    );
    assert.equal(await rules.ensureForwarding(never), true);
    const added = run.ran.filter(({ words }) => words.includes("-A"));
    assert.deepEqual(
      added.map(({ program, words }) => [program, words[5], words[6], words[7]].join(" ")),
      ["ip6tables FORWARD -i cbr0", "ip6tables FORWARD -o cbr0"],
    );
  });

  test("adds nothing to a FORWARD chain that accepts", async () => {
    const { rules, run } = setUp(() => accepting);
    assert.equal(await rules.ensureForwarding(never), false);
    assert.ok(!run.ran.some(({ words }) => words.includes("-A")));
  });

  test("looks once at the FORWARD chain for pods that come at once, and anew for the next one", async () => {
    const { rules, run } = setUp(() => accepting, ["ipv4"]);
    await Promise.all(Array.from({ length: 10 }, () => rules.ensureForwarding(never)));
    assert.equal(run.ran.length, 1);
    await rules.ensureForwarding(never);
    assert.equal(run.ran.length, 2);
  });

  test("takes a kernel without a filter for IPv6 for one that drops nothing", async () => {
    const { rules } = setUp(({ program }) =>
      program === "ip6tables" ? { exitCode: 3, stderr: "no table" } : accepting,
    );
    assert.equal(await rules.ensureForwarding(never), false);
  });

  test("writes a rule again that somebody has wiped out", async () => {
    let present = false;
    const { rules, run, clock } = setUp(({ words }) => {
      if (words.includes("-S")) return accepting;
      if (words.includes("-A")) present = true;
      return words.includes("-C") && !present ? missing : undefined;
    });
    const added = (): number => run.ran.filter(({ words }) => words.includes("-A")).length;
    await rules.start(never);
    assert.equal(added(), 1);
    present = false;
    clock.advance(60_000);
    for (let turns = 0; turns < 20 && clock.waiting === 0; turns += 1) await turn();
    assert.equal(added(), 2);
    rules.stop();
    assert.equal(clock.waiting, 0);
  });

  test("has a problem while the rule cannot be written, and tries again soon", async () => {
    let fails = true;
    const { rules, clock, log } = setUp(({ words }) =>
      words.includes("-S") ? accepting : fails ? { exitCode: 3, stderr: "no nat" } : undefined,
    );
    await rules.start(never);
    assert.match(rules.problem ?? "", /no nat/);
    clock.advance(5000);
    for (let turns = 0; turns < 20 && clock.waiting === 0; turns += 1) await turn();
    assert.equal(log.lines.filter(({ level }) => level === "warn").length, 1);
    fails = false;
    clock.advance(5000);
    for (let turns = 0; turns < 20 && clock.waiting === 0; turns += 1) await turn();
    assert.equal(rules.problem, undefined);
    rules.stop();
  });
});
