import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LegacyHostPorts } from "../../../../src/network/hostport/legacy-host-ports.js";
import { Conntrack } from "../../../../src/network/hostport/conntrack.js";
import { HostIptables } from "../../../../src/network/iptables/host-iptables.js";
import type { RunCommand } from "../../../../src/network/iptables/run-command.js";
import { KubenetNode } from "../../../../src/network/kubenet/kubenet-node.js";
import { NodeRules } from "../../../../src/network/kubenet/node-rules.js";
import { orAbort } from "../../../../src/lib/abort.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { until } from "../../../fakes/turns.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "../iptables/fake-commands.js";

const nft: Answer = { stdout: "iptables v1.8.9 (nf_tables)" };
const links: Answer = { stdout: `[{"ifname":"eth0","mtu":1400,"flags":["UP"]}]` };

/** A node whose programs succeed, unless `answer` says otherwise. */
function setUp(answer: (command: RecordedCommand) => Answer = () => undefined, mtuBytes = 0) {
  const run = fakeCommands((command) => {
    const special = answer(command);
    if (special !== undefined) return special;
    if (command.words.includes("--version")) return nft;
    if (command.words.includes("-S")) return { stdout: "-P FORWARD ACCEPT" };
    return command.program === "ip" ? links : undefined;
  });
  return { run, ...nodeOn(run, mtuBytes) };
}

function nodeOn(run: RunCommand, mtuBytes = 0) {
  const log = recordingLog();
  const clock = new ManualClock();
  const iptables = new HostIptables({ mode: "auto", log, run });
  const families = (): ReadonlySet<"ipv4"> => new Set(["ipv4"]);
  const rules = new NodeRules({ iptables, nonMasqueradeCidrs: ["10.0.0.0/8"], families, log, clock });
  const legacyHostPorts = new LegacyHostPorts({ iptables, conntrack: new Conntrack(log, run), log });
  const configured: number[] = [];
  const source = {
    configure: async (change: { mtuBytes?: number }) => void configured.push(change.mtuBytes ?? -1),
  };
  const parts = { source, rules, legacyHostPorts, mtuBytes, run, log, sysctlRoot: "/does/not/exist" };
  return { node: new KubenetNode(parts), log, clock, legacyHostPorts, configured };
}

describe("KubenetNode", () => {
  test("touches nothing before the engine is found, and nothing at all when that is elsewhere", async () => {
    const { node, run } = setUp();
    assert.match(node.problem ?? "", /when the Docker Engine answers$/);
    void node.engineFound({ local: false });
    assert.match(node.problem ?? "", /on the host of the Docker Engine only.*not visible from here/);
    await node.stop();
    assert.deepEqual(run.lines(), []);
  });

  test("prepares the node once the engine is found on it, and looks once more when it comes back", async () => {
    const { node, run, configured } = setUp();
    void node.engineFound({ local: true });
    void node.engineFound({ local: true });
    assert.equal(node.problem, "kubenet is preparing the node");
    await until("the node is prepared", () => node.problem === undefined);
    const count = (part: string): number => run.lines().filter((line) => line.includes(part)).length;
    assert.deepEqual([count("modprobe"), count("-C POSTROUTING"), configured], [1, 1, [1400]]);
    void node.engineFound({ local: true });
    assert.equal(node.problem, undefined);
    await until("the rules are looked at", () => count("-C POSTROUTING") === 2);
    assert.equal(count("modprobe"), 1);
    await node.stop();
  });

  test("begins when an engine elsewhere has given way to one here, and ends when it is the other way round", async () => {
    const { node, clock } = setUp();
    void node.engineFound({ local: false });
    void node.engineFound({ local: true });
    await until("the node is prepared", () => node.problem === undefined);
    assert.equal(clock.timers.size, 1);
    void node.engineFound({ local: false });
    assert.match(node.problem ?? "", /not visible from here/);
    assert.equal(clock.timers.size, 0);
    await node.stop();
  });

  const hangs = { "finding out the backend": /^iptables-nft-save$/, "writing the rules": /^iptables$/ };
  for (const [what, program] of Object.entries(hangs)) {
    test(`a node whose iptables hangs at ${what} is not ready, says so, and is when it answers`, async () => {
      let hangs = true;
      const { node, clock, log } = setUp(({ program: name, words }) => {
        if (!hangs || !program.test(name) || words.includes("--version")) return undefined;
        throw new ShimError("timeout", `run ${name}: not finished after 30s`);
      });
      void node.engineFound({ local: true });
      await until("the first try is over", () => clock.timers.size === 1);
      assert.match(node.problem ?? "", /^kubenet cannot write its rules: .*not finished after 30s/);
      hangs = false;
      clock.pass(5000);
      await until("the second try is over", () => node.problem === undefined);
      const message = "cannot write the iptables rules of kubenet";
      assert.equal(log.lines.filter((line) => line.message === message).length, 1);
      await node.stop();
    });
  }

  test("a look for dockershim's host ports that hangs keeps no node from being ready, but tear-downs look", async () => {
    const save = new AbortController();
    const plain = setUp().run;
    const { node, legacyHostPorts } = nodeOn((program, words, options) =>
      program === "iptables-save"
        ? orAbort(new Promise(() => undefined), AbortSignal.any([options.signal, save.signal]))
        : plain(program, words, options),
    );
    void node.engineFound({ local: true });
    await until("the node is prepared", () => node.problem === undefined);
    assert.equal(legacyHostPorts.present, true);
    await node.stop();
  });

  test("a pod that comes while the node is being prepared waits for that, as long as its caller does", async () => {
    let goOn!: () => void;
    const waiting = new Promise<void>((resolve) => (goOn = resolve));
    const plain = setUp().run;
    const { node } = nodeOn(async (program, words, options) => {
      if (program === "modprobe") await waiting;
      return plain(program, words, options);
    });
    await node.settled(never);
    void node.engineFound({ local: true });
    const late = AbortSignal.abort(new ShimError("timeout", "too late"));
    await assert.rejects(node.settled(late), { kind: "timeout" });
    const settled = node.settled(never);
    goOn();
    await settled;
    assert.equal(node.problem, undefined);
    await node.stop();
  });

  test("stop() ends a command that hangs", async () => {
    const run: RunCommand = (_program, _words, { signal }) => orAbort(new Promise(() => undefined), signal);
    const { node, log, clock } = nodeOn(run);
    void node.engineFound({ local: true });
    await node.stop();
    assert.deepEqual([log.lines, clock.timers.size], [[], 0]);
  });

  for (const [output, expected] of [
    [links, 1400],
    [{ stdout: "[]" }, 1460],
    [{ exitCode: 1 }, 1460],
    ["notFound", 1460],
  ] as const) {
    test(`finds the MTU ${expected} when ip says ${JSON.stringify(output)}`, async () => {
      const { node, configured } = setUp(({ program }) => (program === "ip" ? output : undefined));
      void node.engineFound({ local: true });
      await until("the node is prepared", () => node.problem === undefined);
      assert.deepEqual(configured, [expected]);
      await node.stop();
    });
  }
});
