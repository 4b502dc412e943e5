import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { dedupRules, DedupRules } from "../../../../src/network/kubenet/ebtables.js";
import { parsePodSubnets } from "../../../../src/network/pod-cidrs.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { turns, until } from "../../../fakes/turns.js";
import { fakeCommands, never, type Answer } from "../iptables/fake-commands.js";

const subnets = parsePodSubnets(["10.180.0.0/24", "fd00:180::/64"]);
const links = (address: string) => ({
  stdout: JSON.stringify([{ ifname: "cbr0", mtu: 1500, flags: [], address }]),
});

test("dedupRules() lets gateways pass before it drops the rest of each subnet", () => {
  assert.deepEqual(
    dedupRules("02:00:00:00:00:01", subnets).map((words) => words.join(" ")),
    [
      "-p IPv4 -s 02:00:00:00:00:01 -o veth+ --ip-src 10.180.0.1 -j ACCEPT",
      "-p IPv6 -s 02:00:00:00:00:01 -o veth+ --ip6-src fd00:180::1 -j ACCEPT",
      "-p IPv4 -s 02:00:00:00:00:01 -o veth+ --ip-src 10.180.0.0/24 -j DROP",
      "-p IPv6 -s 02:00:00:00:00:01 -o veth+ --ip6-src fd00:180::/64 -j DROP",
    ],
  );
});

/** The filter table of ebtables, of which each command takes a while. */
class FakeEbtables {
  address = "02:00:00:00:00:01";
  /** Undefined until it is made. */
  chain: string[] | undefined;
  output: string[] = [];
  readonly run = fakeCommands(async ({ program, words }) => {
    await turns(1 + (this.run.ran.length % 3));
    return program === "ip" ? links(this.address) : this.#answer(words);
  });
  written = (): number => this.run.lines().filter((line) => /-[FNAD] /.test(line)).length;

  #answer([, , verb, name, ...rule]: readonly string[]): Answer {
    const known = name === "OUTPUT" ? this.output : this.chain;
    if (verb === "-N") {
      if (known !== undefined) return { exitCode: 255, stderr: "Chain already exists" };
      this.chain = [];
      return undefined;
    }
    if (known === undefined) return { exitCode: 255, stderr: "Chain doesn't exist" };
    if (verb === "-F") known.length = 0;
    else if (verb === "-A") known.push(rule.join(" "));
    else if (verb === "-D") known.splice(known.indexOf(rule.join(" ")), 1);
    else return { stdout: ["Bridge table: filter", "", ...known, ""].join("\n") };
    return undefined;
  }
}
const wanted = (address = "02:00:00:00:00:01"): readonly string[] =>
  dedupRules(address, subnets).map((words) => words.join(" "));

describe("DedupRules", () => {
  test("are there once, in their order, after first set-ups at once", async () => {
    for (let round = 0; round < 20; round += 1) {
      const ebtables = new FakeEbtables();
      const rules = new DedupRules(recordingLog(), ebtables.run);
      const pod = async (wait: number): Promise<void> => {
        await turns(wait);
        await rules.ensure(subnets, never);
      };
      await Promise.all([pod(0), pod(round % 7), pod(round)]);
      assert.deepEqual(ebtables.chain, wanted());
      assert.deepEqual(ebtables.output, ["-j KUBE-DEDUP"]);
    }
  });

  test("are those of the last address when it changes between set-ups at once", async () => {
    const ebtables = new FakeEbtables();
    const rules = new DedupRules(recordingLog(), ebtables.run);
    const first = rules.ensure(subnets, never);
    await until("it is being written", () => ebtables.run.ran.length >= 4);
    ebtables.address = "02:00:00:00:00:02";
    await Promise.all([first, rules.ensure(subnets, never)]);
    assert.deepEqual(ebtables.chain, wanted(ebtables.address));
    assert.deepEqual(ebtables.output, ["-j KUBE-DEDUP"]);
  });

  test("are compared with what is there after a while, and written again when others removed them", async () => {
    const [ebtables, clock] = [new FakeEbtables(), new ManualClock()];
    const rules = new DedupRules(recordingLog(), ebtables.run, clock);
    await rules.ensure(subnets, never);
    const written = ebtables.written();
    clock.pass(60_000);
    await rules.ensure(subnets, never);
    assert.equal(ebtables.written(), written, "they were as they should be");
    const commands = ebtables.run.ran.length;
    await rules.ensure(subnets, never);
    assert.equal(ebtables.run.ran.length, commands + 1, "the next pod looks at the bridge alone");

    // As `ebtables -F` does it.
    [ebtables.chain, ebtables.output] = [[], []];
    clock.pass(60_000);
    await rules.ensure(subnets, never);
    assert.deepEqual([ebtables.chain, ebtables.output], [wanted(), ["-j KUBE-DEDUP"]]);

    ebtables.chain.reverse();
    clock.pass(60_000);
    await rules.ensure(subnets, never);
    assert.deepEqual(ebtables.chain, wanted());

    // As firewalld does it.
    [ebtables.chain, ebtables.output] = [undefined, ["-j OTHERS"]];
    clock.pass(60_000);
    await rules.ensure(subnets, never);
    assert.deepEqual([ebtables.chain, ebtables.output], [wanted(), ["-j OTHERS", "-j KUBE-DEDUP"]]);
  });

  test("are reached by one way: others are removed", async () => {
    const ebtables = new FakeEbtables();
    ebtables.chain = [];
    ebtables.output = ["-j KUBE-DEDUP", "-j OTHERS", "-j KUBE-DEDUP", "-j KUBE-DEDUP"];
    await new DedupRules(recordingLog(), ebtables.run).ensure(subnets, never);
    assert.deepEqual(ebtables.output.toSorted(), ["-j KUBE-DEDUP", "-j OTHERS"]);
  });

  test("that a caller left half written are written again by the next one, whatever they were before", async () => {
    const ebtables = new FakeEbtables();
    const rules = new DedupRules(recordingLog(), ebtables.run);
    await rules.ensure(subnets, never);
    ebtables.address = "02:00:00:00:00:02";
    const caller = new AbortController();
    const before = ebtables.run.ran.length;
    const left = rules.ensure(subnets, caller.signal);
    left.catch(() => undefined);
    await until("it is being written", () => ebtables.run.ran.length >= before + 4);
    caller.abort(new Error("it left"));
    await assert.rejects(left);
    ebtables.address = "02:00:00:00:00:01";
    await rules.ensure(subnets, never);
    assert.deepEqual(ebtables.chain, wanted());
  });

  test("logs a failure, and does it again with the next pod", async () => {
    let fails = true;
    const run = fakeCommands(({ program }) =>
      program === "ip" ? links("02:00:00:00:00:01") : fails ? "notFound" : undefined,
    );
    const log = recordingLog();
    const rules = new DedupRules(log, run);
    await rules.ensure(subnets, never);
    assert.equal(log.lines[0]?.level, "warn");
    fails = false;
    await rules.ensure(subnets, never);
    assert.ok(run.lines().some((line) => line.includes("-A KUBE-DEDUP")));
  });
});
