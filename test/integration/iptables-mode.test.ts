/** Rules of the node in real tables of both backends of iptables. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { hostNatTables, removeNatRules } from "../../src/network/cni/nat-rules.js";
import { HostIptables } from "../../src/network/iptables/host-iptables.js";
import { NodeRules } from "../../src/network/kubenet/node-rules.js";
import { recordingLog } from "../fakes/recording-log.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { command, feed } from "./kubenet-support.js";

const never = new AbortController().signal;
const backends = ["nft", "legacy"] as const;
const families = { ipv4: "iptables", ipv6: "ip6tables" } as const;

const save = async (backend: string, table: string): Promise<string> =>
  (await command(`iptables-${backend}-save`, "-t", table)) +
  (await command(`ip6tables-${backend}-save`, "-t", table));

/** What bridge (`ipMasq`) and portmap make for pods, as far as it names them. */
function podRules(ids: readonly string[]): string {
  const lines = ids.flatMap((id) => {
    const own = `CNI-${id.slice(0, 24)}`;
    const ports = `CNI-DN-${id.slice(0, 21)}`;
    const comment = `-m comment --comment "name: \\"demo\\" id: \\"${id}\\""`;
    return [
      ...[own, ports].map((chain) => `:${chain} - [0:0]`),
      `-A ${own} ${comment} -j ACCEPT`,
      `-A ${ports} -p tcp --dport 80 -j RETURN`,
      `-A POSTROUTING ${comment} -j ${own}`,
      `-A CNI-HOSTPORT-DNAT -m comment --comment "dnat name: \\"demo\\" id: \\"${id}\\"" -j ${ports}`,
    ];
  });
  return ["*nat", ":CNI-HOSTPORT-DNAT - [0:0]", ...lines, "COMMIT", ""].join("\n");
}

await inNamespaces(import.meta.url, ["iptables-nft", "iptables-legacy", "flock"], () => {
  for (const backend of backends) {
    const other = backend === "nft" ? "legacy" : "nft";
    describe(`--iptables-mode=${backend}`, () => {
      const log = recordingLog();
      const iptables = new HostIptables({ mode: backend, log });

      test("puts the rules of the node there, once, and nowhere else", async () => {
        for (const family of ["iptables", "ip6tables"])
          await command(`${family}-${backend}`, "-P", "FORWARD", "DROP");
        const both = new Set(["ipv4", "ipv6"] as const);
        const options = { iptables, log, families: () => both, nonMasqueradeCidr: "10.0.0.0/8" };
        for (let starts = 0; starts < 2; starts += 1) {
          const rules = new NodeRules(options);
          await rules.start(never);
          assert.equal(rules.problem, undefined);
          rules.stop();
        }
        const countIn = async (where: string, table: string, comment: string): Promise<number> =>
          (await save(where, table)).split(`--comment "${comment}`).length - 1;
        assert.equal(await countIn(backend, "nat", "kubenet: SNAT"), 1);
        assert.equal(await countIn(backend, "filter", "kubenet: pod traffic"), 4);
        assert.equal(await countIn(other, "nat", "kubenet: "), 0);
        assert.equal(await countIn(other, "filter", "kubenet: "), 0);
        for (const family of ["iptables", "ip6tables"]) {
          await command(`${family}-${backend}`, "-P", "FORWARD", "ACCEPT");
          await command(`${family}-${backend}`, "-F", "FORWARD");
        }
        await command(`iptables-${backend}`, "-t", "nat", "-F", "POSTROUTING");
      });

      test("rules of a dead pod go from wherever plugins have put them", async () => {
        const plain = (await command("iptables", "--version")).includes("nf_tables") ? "nft" : "legacy";
        const [gone, stays] = ["a".repeat(64), "b".repeat(64)];
        const places = new Set([backend, plain]);
        for (const place of places) {
          for (const program of Object.values(families)) {
            await feed(podRules([gone, stays]), `${program}-${place}-restore`, "--noflush");
          }
        }
        await removeNatRules(hostNatTables(iptables), new Set([gone]), never);
        for (const place of places) {
          const text = await save(place, "nat");
          assert.ok(!text.includes("aaaaaaaa"), text);
          assert.equal(text.split(`\\"${stays}\\"`).length - 1, 6, text);
          for (const program of Object.values(families))
            await command(`${program}-${place}`, "-t", "nat", "-F");
          for (const program of Object.values(families))
            await command(`${program}-${place}`, "-t", "nat", "-X");
        }
      });
    });
  }

  test("a change waits for another program that holds the lock for longer than iptables itself waits", async () => {
    const holder = execFile(
      "flock",
      ["/run/xtables.lock", "sh", "-c", "echo held; exec sleep 7"],
      () => undefined,
    );
    assert.ok(holder.stdout);
    await once(holder.stdout, "data");
    const log = recordingLog();
    const chosen = await new HostIptables({ mode: "legacy", log }).chosen(never);
    const rule = { table: "nat", chain: "POSTROUTING", words: ["-d", "192.0.2.9", "-j", "ACCEPT"] } as const;
    assert.equal(await chosen.ensureRule("ipv4", rule, never), true);
    assert.equal(holder.exitCode, 0, "the lock was held until then");
  });
});
