/** What a node still holds of dead pods when the shim starts: shown by `doctor network`, removed when it is certainly ours. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Report } from "../../src/doctor/judge/diagnose.js";
import { hostPortChainName } from "../../src/network/hostport/legacy-chains.js";
import { dockerEndpoint } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { runProgram } from "../support/shim-process.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command, feed } from "./kubenet-support.js";
import { NetworkNode, removePause, type PluginName } from "./pod-network-support.js";

const plugins: readonly PluginName[] = ["cni", "kubenet"];
const foreign = "f".repeat(64);

await withOwnEngine(import.meta.url, [], () => {
  for (const plugin of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);

      /** What the check of orphaned resources says, one a line. */
      const doctor = async (): Promise<string> => {
        const { stdout } = await runProgram([
          ...["doctor", "network", "--json", ...node.flags, `--docker-endpoint=${dockerEndpoint}`],
          `--state-dir=${node.shim.stateDirectory}`,
        ]);
        const { findings } = JSON.parse(stdout) as Report;
        return findings.flatMap(({ check, what }) => (check === "orphans" ? `${what}\n` : [])).join("");
      };

      /** Host ports of kubenet pods as dockershim opened them. */
      async function openAsDockershim(...sandboxIds: readonly string[]): Promise<readonly string[]> {
        const chains = sandboxIds.map((id) => hostPortChainName(id, { hostPort: 80, protocol: "tcp" }));
        const lines = chains.flatMap((chain) => [
          `:${chain} - [0:0]`,
          `-A KUBE-HOSTPORTS -p tcp -m comment --comment "old_ns hostport 80" -m tcp --dport 80 -j ${chain}`,
          `-A ${chain} -p tcp -m comment --comment "old_ns hostport 80" -m tcp -j DNAT --to-destination 10.180.0.5:80`,
        ]);
        const text = ["*nat", ":KUBE-HOSTPORTS - [0:0]", ...lines, "COMMIT\n"].join("\n");
        await feed(text, "iptables-restore", "--noflush");
        return chains;
      }

      test("doctor shows them and changes nothing, a start removes what is ours, and the rest stays", async () => {
        const dead = await node.runPod();
        const living = await node.runPod();
        await node.shim.kill();
        const [ofDead = "", ofLiving = "", ofForeignContainer = ""] = await openAsDockershim(
          dead.id,
          living.id,
          foreign,
        );
        await removePause(dead.id);
        const held = await node.holdings();

        const found = await doctor();
        const ours = (text: string): RegExp => new RegExp(`^orphaned: .*${text}`, "m");
        for (const what of ["cached attachment of eth0", "address 10\\.", "address fd00", "CNI-DN-", ofDead])
          assert.match(found, ours(what));
        assert.match(
          found,
          new RegExp(`^of unknown owner: .*${ofForeignContainer}, host port 80/tcp of pod "old_ns"`, "m"),
        );
        assert.ok(!found.includes(ofLiving), found);
        assert.deepEqual(await node.holdings(), held);

        await node.start();
        const save = (): Promise<string> => command("iptables-save", "-t", "nat");
        await until("the dead pod's host ports to go", async () => !(await save()).includes(ofDead));
        for (const chain of [ofLiving, ofForeignContainer]) assert.ok((await save()).includes(chain));
        for (const { id } of [dead, living]) await node.stopAndRemove(id);
        if (plugin === "cni") await command("iptables", "-t", "nat", "-F", ofLiving);
        assert.ok((await save()).includes(ofForeignContainer));
        await command("iptables", "-t", "nat", "-F", "KUBE-HOSTPORTS");
        for (const chain of plugin === "cni" ? [ofLiving, ofForeignContainer] : [ofForeignContainer]) {
          await command("iptables", "-t", "nat", "-F", chain);
          await command("iptables", "-t", "nat", "-X", chain);
        }
        await command("iptables", "-t", "nat", "-X", "KUBE-HOSTPORTS");
        await node.assertClean();
        assert.equal(await doctor(), "");
      });

      if (!long && plugin === "kubenet") return;
      test("nothing is removed on another engine than before, where every pod looks dead", async () => {
        const dead = await node.runPod();
        await node.shim.kill();
        await removePause(dead.id);
        const path = join(node.shim.stateDirectory, "engine-id");
        const id = await readFile(path, "utf8");
        await writeFile(path, "ANOTHER\n");
        const held = await node.holdings();
        await node.start();
        await node.shim.untilLogged(/engine has changed, keeping pod network resources/);
        assert.deepEqual(await node.holdings(), held);
        await node.shim.kill();
        await writeFile(path, id);
        await node.start();
        await node.stopAndRemove(dead.id);
        await node.assertClean();
      });
    });
  }
});
