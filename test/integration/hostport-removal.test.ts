/** Host ports that dockershim left in real tables of both backends. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { LegacyHostPorts } from "../../src/network/hostport/legacy-host-ports.js";
import { Conntrack } from "../../src/network/hostport/conntrack.js";
import { HostIptables } from "../../src/network/iptables/host-iptables.js";
import { recordingLog } from "../fakes/recording-log.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { command, feed } from "./kubenet-support.js";

const golden = JSON.parse(
  readFileSync(new URL("../golden/network/hostport.json", import.meta.url), "utf8"),
) as { readonly natTableAfterAdd: string; readonly natTableAfterRemove: string };

const never = new AbortController().signal;
const web = {
  sandboxId: "8dbd9e392a964056b7a24c8b1d2c3f5e",
  namespace: "default",
  name: "web",
  portMappings: [
    { protocol: "tcp", containerPort: 80, hostPort: 18080, hostIp: "" },
    { protocol: "udp", containerPort: 53, hostPort: 18053, hostIp: "" },
    { protocol: "sctp", containerPort: 132, hostPort: 18132, hostIp: "" },
  ],
} as const;
const three = { sandboxId: "gone", namespace: "default", name: "three", portMappings: [] };

/** Chains and rules without their order, comments and counters. */
function linesOf(save: string): readonly string[] {
  return save
    .split("\n")
    .filter((line) => /^[:-]/.test(line))
    .map((line) => line.replace(/\[\d+:\d+\]/, ""))
    .sort();
}

await inNamespaces(import.meta.url, ["conntrack", "iptables-nft", "iptables-legacy"], () => {
  for (const backend of ["nft", "legacy"] as const) {
    describe(`host ports of dockershim in ${backend} tables`, () => {
      test("are found, removed for their sandbox only, and with the last one go the base chains", async () => {
        const save = (): Promise<string> => command(`iptables-${backend}-save`, "-t", "nat");
        await feed(golden.natTableAfterAdd, `iptables-${backend}-restore`);
        const log = recordingLog();
        // kube-proxy's chains are in this backend and in no other, whatever plain iptables is.
        const iptables = new HostIptables({ mode: "auto", log });
        assert.equal((await iptables.chosen(never)).tools.version.backend, backend);
        const ports = new LegacyHostPorts({ iptables, conntrack: new Conntrack(log), log });
        await ports.start(never);
        assert.equal(ports.present, true);

        await ports.remove(web, never);
        assert.deepEqual(linesOf(await save()), linesOf(golden.natTableAfterRemove));
        await ports.remove(web, never);
        assert.deepEqual(linesOf(await save()), linesOf(golden.natTableAfterRemove));

        await ports.remove(three, never, []);
        // The chain of kube-proxy is not ours to remove.
        assert.deepEqual(
          linesOf(await save()).filter((line) => line.includes("KUBE") || line.startsWith("-")),
          [":KUBE-MARK-MASQ - "],
        );
        assert.equal(ports.present, false);
        assert.deepEqual(
          log.lines.filter(({ level, message }) => level === "warn" && !message.includes("plain iptables")),
          [],
        );
        await command(`iptables-${backend}`, "-t", "nat", "-X", "KUBE-MARK-MASQ");
      });
    });
  }

  test("rules are ensured once, also after they were deleted, and refused with iptables' own words", async () => {
    const iptables = await new HostIptables({ mode: "auto", log: recordingLog() }).chosen(never);
    const rule = {
      table: "filter",
      chain: "FORWARD",
      words: ["-m", "comment", "--comment", "two words", "-j", "ACCEPT"],
    } as const;
    for (const family of ["ipv4", "ipv6"] as const) {
      assert.equal(await iptables.ensureRule(family, rule, never), true);
      assert.equal(await iptables.ensureRule(family, rule, never), false);
      await command(family === "ipv4" ? "iptables" : "ip6tables", "-D", "FORWARD", ...rule.words);
      assert.equal(await iptables.ensureRule(family, rule, never), true);
      assert.equal(await iptables.policy(family, "FORWARD", never), "ACCEPT");
    }
    await assert.rejects(iptables.restore("ipv4", "*nat\n-A NO-SUCH -j ACCEPT\nCOMMIT\n", never), {
      kind: "unknown",
    });
  });
});
