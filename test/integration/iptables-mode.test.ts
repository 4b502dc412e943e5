/** Rules of the node, and host ports that dockershim left, in real tables of both backends of iptables. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { hostNatTables, removeNatRules } from "../../src/network/cni/nat-rules.js";
import { Conntrack } from "../../src/network/hostport/conntrack.js";
import { LegacyHostPorts } from "../../src/network/hostport/legacy-host-ports.js";
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

const golden = JSON.parse(
  readFileSync(new URL("../golden/network/hostport.json", import.meta.url), "utf8"),
) as { readonly natTableAfterAdd: string; readonly natTableAfterRemove: string };

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

await inNamespaces(import.meta.url, ["iptables-nft", "iptables-legacy", "flock", "conntrack"], () => {
  for (const backend of backends) {
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

  for (const backend of backends) {
    const other = backend === "nft" ? "legacy" : "nft";
    describe(`--iptables-mode=${backend}`, () => {
      const log = recordingLog();
      const iptables = new HostIptables({ mode: backend, log });

      test("puts the rules of the node there, once, and nowhere else", async () => {
        for (const family of ["iptables", "ip6tables"])
          await command(`${family}-${backend}`, "-P", "FORWARD", "DROP");
        const both = new Set(["ipv4", "ipv6"] as const);
        const options = { iptables, log, families: () => both, nonMasqueradeCidrs: ["10.0.0.0/8"] };
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
