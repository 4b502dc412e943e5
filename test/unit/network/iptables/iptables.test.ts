import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { IptablesTools } from "../../../../src/network/iptables/detect.js";
import { Iptables, type Rule } from "../../../../src/network/iptables/iptables.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "./fake-commands.js";

const tools: IptablesTools = {
  version: { text: "1.8.9", parts: [1, 8, 9], backend: "nft" },
  suffix: "",
  reason: "for a test",
  differsFromDefault: false,
};
const rule: Rule = {
  table: "nat",
  chain: "OUTPUT",
  words: ["-m", "comment", "--comment", "two words", "-j", "X"],
};

function setUp(
  answer: (command: RecordedCommand) => Answer | Promise<Answer>,
  suffix: IptablesTools["suffix"] = "",
) {
  const run = fakeCommands(answer);
  const pauses: number[] = [];
  const pause = async (milliseconds: number): Promise<void> => void pauses.push(milliseconds);
  return { run, pauses, iptables: new Iptables({ ...tools, suffix }, { run, pause }) };
}

const has = (word: string) => (command: RecordedCommand) => command.words.includes(word);

describe("Iptables", () => {
  test("ensureRule() appends a rule that is not there, with waiting, each word as it is", async () => {
    const { iptables, run } = setUp((command) => (has("-C")(command) ? { exitCode: 1 } : undefined));
    assert.equal(await iptables.ensureRule("ipv4", rule, never), true);
    assert.deepEqual(
      run.ran.map(({ program, words }) => [program, ...words]),
      ["-C", "-A"].map((action) => ["iptables", "-w", "5", "-t", "nat", action, "OUTPUT", ...rule.words]),
    );
  });

  test("ensureRule() does not take a failing check for an absent rule", async () => {
    const { iptables, run } = setUp(() => ({ exitCode: 2, stderr: "Chain 'OUTPUT' does not exist\n" }));
    await assert.rejects(iptables.ensureRule("ipv4", rule, never), (error) => {
      assert.ok(error instanceof ShimError);
      assert.equal(error.fields["exitCode"], 2);
      assert.equal(error.fields["stderr"], "Chain 'OUTPUT' does not exist");
      assert.ok(error.message.includes("does not exist"));
      return true;
    });
    assert.equal(run.ran.length, 1);
  });

  test("a busy table is tried again, with growing pauses", async () => {
    let failures = 2;
    const { iptables, pauses } = setUp(() => (failures-- > 0 ? { exitCode: 4 } : { stdout: "*nat\n" }));
    assert.equal(await iptables.save("ipv4", "nat", never), "*nat\n");
    assert.deepEqual(pauses, [200, 400]);
  });

  test("a table that stays busy is unavailable", async () => {
    const { iptables, run } = setUp(() => ({ exitCode: 4, stderr: "Resource temporarily unavailable" }));
    await assert.rejects(iptables.save("ipv4", "nat", never), { kind: "unavailable" });
    assert.equal(run.ran.length, 5);
  });

  test("restore() hands over the text, keeping chains that it does not name", async () => {
    const { iptables, run } = setUp(() => undefined, "-legacy");
    await iptables.restore("ipv6", "*nat\nCOMMIT\n", never);
    assert.deepEqual(run.lines(), ["ip6tables-legacy-restore -w 5 --noflush --counters"]);
    assert.equal(run.ran[0]?.input, "*nat\nCOMMIT\n");
  });

  test("runs one command at a time for a family, and the families side by side", async () => {
    const running: string[] = [];
    const ends: (() => void)[] = [];
    const { iptables } = setUp(async ({ program }) => {
      running.push(program);
      await new Promise<void>((resolve) => ends.push(resolve));
      return undefined;
    });
    const all = (["ipv4", "ipv4", "ipv6"] as const).map((family) => iptables.save(family, "nat", never));
    while (running.length < 2) await new Promise(setImmediate);
    for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
    assert.deepEqual(running, ["iptables-save", "ip6tables-save"]);
    while (ends.length > 0 || running.length < 3) {
      ends.shift()?.();
      await new Promise(setImmediate);
    }
    await Promise.all(all);
    assert.equal(running.length, 3);
  });
});
