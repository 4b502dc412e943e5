import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { dedupRules, DedupRules } from "../../../../src/network/kubenet/ebtables.js";
import { parsePodSubnets } from "../../../../src/network/kubenet/pod-subnets.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never } from "../iptables/fake-commands.js";

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

describe("DedupRules", () => {
  test("makes the chain and the way to it, once, and again for another address of the bridge", async () => {
    let address = "02:00:00:00:00:01";
    const run = fakeCommands(({ program, words }) => {
      if (program === "ip") return links(address);
      return words.includes("-L") && words.includes("KUBE-DEDUP") ? { exitCode: 255 } : undefined;
    });
    const rules = new DedupRules(recordingLog(), run);
    const written = (): number => run.ran.filter(({ words }) => words.includes("-A")).length;
    await rules.ensure(subnets, never);
    assert.ok(run.lines().includes("ebtables -t filter -N KUBE-DEDUP"));
    assert.equal(run.lines().at(-1), "ebtables -t filter -A OUTPUT -j KUBE-DEDUP");
    assert.equal(written(), 5);
    await rules.ensure(subnets, never);
    assert.equal(written(), 5);
    address = "02:00:00:00:00:02";
    await rules.ensure(subnets, never);
    assert.equal(written(), 10);
  });

  test("empties a chain that is there, and leaves the way to it", async () => {
    const run = fakeCommands(({ program, words }) => {
      if (program === "ip") return links("02:00:00:00:00:01");
      return words.includes("OUTPUT") && words.includes("-L") ? { stdout: "-j KUBE-DEDUP \n" } : undefined;
    });
    await new DedupRules(recordingLog(), run).ensure(subnets, never);
    assert.ok(run.lines().includes("ebtables -t filter -F KUBE-DEDUP"));
    assert.ok(!run.lines().some((line) => line.includes("-A OUTPUT")));
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
