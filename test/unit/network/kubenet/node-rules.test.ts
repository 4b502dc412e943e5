import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { orAbort } from "../../../../src/lib/abort.js";
import { HostIptables } from "../../../../src/network/iptables/host-iptables.js";
import type { AddressFamily } from "../../../../src/network/iptables/iptables.js";
import type { RunCommand } from "../../../../src/network/iptables/run-command.js";
import { masqueradeRule, NodeRules } from "../../../../src/network/kubenet/node-rules.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { turns } from "../../../fakes/turns.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "../iptables/fake-commands.js";

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

  test("is none when nothing is outside", () => {
    assert.equal(masqueradeRule("0.0.0.0/0"), undefined);
    assert.equal(masqueradeRule("::/0"), undefined);
  });
});

function setUp(
  answer: (command: RecordedCommand) => Answer,
  families: AddressFamily[] = ["ipv4", "ipv6"],
  nonMasqueradeCidrs: readonly string[] = ["10.0.0.0/8"],
) {
  const run = fakeCommands((command) =>
    command.words.includes("--version") ? { stdout: "iptables v1.8.9 (nf_tables)" } : answer(command),
  );
  const log = recordingLog();
  const clock = new ManualClock();
  const iptables = new HostIptables({ mode: "nft", log, run });
  const options = { iptables, nonMasqueradeCidrs, log, clock };
  return { run, log, clock, rules: new NodeRules({ ...options, families: () => new Set(families) }) };
}

const accepting: Answer = { stdout: "-P FORWARD ACCEPT\n" };
const dropping: Answer = { stdout: "-P FORWARD DROP\n" };
const missing: Answer = { exitCode: 1 };

describe("NodeRules", () => {
  test("lets pods through a FORWARD chain that drops, in the families of the pods", async () => {
    const { rules, run } = setUp(
      ({ words }) => (words.includes("-S") ? dropping : words.includes("-C") ? missing : undefined),
      ["ipv6"],
    );
    assert.equal(await rules.ensureForwarding(never), true);
    const added = run.ran.filter(({ words }) => words.includes("-A"));
    const found = added.map(({ program, words }) => [program, ...words.slice(5, 8)].join(" "));
    assert.deepEqual(found, ["ip6tables FORWARD -i cbr0", "ip6tables FORWARD -o cbr0"]);
  });

  test("masquerades what leaves the cluster in both families, where there is a network of each", async () => {
    const { rules, run } = setUp(
      ({ words }) => (words.includes("-S") ? accepting : words.includes("-C") ? missing : undefined),
      ["ipv4", "ipv6"],
      ["10.61.0.0/16", "fd61::/48"],
    );
    await rules.start(never);
    rules.stop();
    const added = run.ran.filter(({ words }) => words.includes("-A"));
    const found = added.map(({ program, words }) => `${program} ${words.slice(-5).join(" ")}`);
    assert.deepEqual(found, [
      "iptables ! -d 10.61.0.0/16 -j MASQUERADE",
      "ip6tables ! -d fd61::/48 -j MASQUERADE",
    ]);
  });

  test("writes the rules of one family when those of the other fail, and names the failure", async () => {
    const { rules, run } = setUp(
      ({ program, words }) => {
        if (program === "iptables" && words.includes("nat")) return { exitCode: 4, stderr: "no such table" };
        return words.includes("-S") ? dropping : words.includes("-C") ? missing : undefined;
      },
      ["ipv6"],
      ["10.61.0.0/16", "fd61::/48"],
    );
    await rules.start(never);
    rules.stop();
    assert.match(rules.problem ?? "", /no such table/);
    const added = run.ran.filter(({ words }) => words.includes("-A") && !words.includes("-C"));
    const found = added.map(({ program, words }) => `${program} ${words.slice(-5).join(" ")}`);
    assert.equal(found[0], "ip6tables ! -d fd61::/48 -j MASQUERADE");
    assert.equal(found.length, 3);
  });

  test("looks once at the FORWARD chain for pods that come within seconds, anew later and after a start", async () => {
    const { rules, run, clock } = setUp(() => accepting, ["ipv4"]);
    const looks = (): number => run.ran.filter(({ words }) => words.includes("-S")).length;
    await Promise.all(Array.from({ length: 10 }, () => rules.ensureForwarding(never)));
    await rules.ensureForwarding(never);
    assert.equal(looks(), 1);
    clock.pass(10_000);
    await rules.ensureForwarding(never);
    assert.equal(looks(), 2);
    // As after a restart of the engine.
    await rules.start(never);
    assert.equal(looks(), 3);
    await rules.ensureForwarding(never);
    assert.equal(looks(), 3);
    rules.stop();
  });

  test("looks anew when pods have another address family than before", async () => {
    const families: AddressFamily[] = ["ipv4"];
    const { rules, run } = setUp(({ program }) => (program === "ip6tables" ? dropping : accepting), families);
    assert.equal(await rules.ensureForwarding(never), false);
    families.push("ipv6");
    assert.equal(await rules.ensureForwarding(never), true);
    assert.ok(run.ran.some(({ program, words }) => program === "ip6tables" && words.includes("-C")));
  });

  test("stop() ends a look that hangs, without a problem and without another one", async () => {
    const log = recordingLog();
    const clock = new ManualClock();
    let running = 0;
    const run: RunCommand = (_program, _words, { signal }) => {
      running += 1;
      return orAbort(new Promise(() => undefined), signal);
    };
    const iptables = new HostIptables({ mode: "auto", log, run });
    const options = { iptables, log, clock, nonMasqueradeCidrs: ["10.0.0.0/8"] };
    const rules = new NodeRules({ ...options, families: () => new Set() });
    const starting = rules.start(never);
    await turns(1);
    assert.equal(running, 1);
    rules.stop();
    await starting;
    assert.deepEqual([rules.problem, clock.timers.size, log.lines.length], [undefined, 0, 0]);
  });

  test("takes a kernel without a filter for IPv6 for one that drops nothing", async () => {
    const { rules } = setUp(({ program }) =>
      program === "ip6tables" ? { exitCode: 3, stderr: "no table" } : accepting,
    );
    assert.equal(await rules.ensureForwarding(never), false);
  });

  test("writes a rule again after another program has removed it", async () => {
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
    clock.pass(60_000);
    await turns(20);
    assert.equal(added(), 2);
    rules.stop();
    assert.equal(clock.timers.size, 0);
  });
});
