/** Pods on a chain of real plugins: whatever fails, and however a pod ends, nothing is left of it. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { removeOrphanedAttachments } from "../../src/network/orphans/remove-orphaned-attachments.js";
import { readHoldings } from "../../src/network/orphans/held-resources.js";
import { compareHoldings } from "../../src/network/orphans/find-orphans.js";
import type { PodNetworkTearDown } from "../../src/shim/ports/network-plugin.js";
import { CniNode, never, requestFor, type PluginFault } from "./cni-support.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { command, makePod, type TestPod } from "./kubenet-support.js";

/** The plugins that every list here has; the faulty plugin stands before, between or behind them. */
const plugins = 5;
/** Without `--long` the first one and one in the middle: each plugin of a chain fails in pod-network-failing-plugins.test.ts. */
const places = long ? Array.from({ length: plugins + 1 }, (_, place) => place) : [0, 3];

const withoutNamespace = (pod: TestPod): PodNetworkTearDown => {
  const { netns: _netns, ...rest } = requestFor(pod);
  return rest;
};

await inNamespaces(import.meta.url, [], () => {
  let node: CniNode;
  /** What is there once the chains and the bridge that all pods share have been made. */
  let clean: readonly string[];
  let pod: TestPod;

  async function start(...options: Parameters<typeof CniNode.create>): Promise<void> {
    node = await CniNode.create(...options);
    await using first = await makePod("first");
    await node.plugin.setUpPod(requestFor(first), never);
    await node.plugin.tearDownPod(requestFor(first), never);
    clean = await node.holdings();
    pod = await makePod("web");
  }
  const stop = async (): Promise<void> => {
    await command("ip", "netns", "delete", pod.netns.split("/").at(-1) ?? "").catch(() => undefined);
    await node[Symbol.asyncDispose]();
  };
  const assertClean = async (): Promise<void> => assert.deepEqual(await node.holdings(), clean);

  describe("a chain of bridge, portmap, bandwidth, firewall and tuning", () => {
    before(() => start());
    after(stop);

    test("gives a pod addresses of both families, host ports, rules and a cache entry, and takes all back", async () => {
      const addresses = await node.plugin.setUpPod(requestFor(pod), never);
      assert.match(addresses.join(" "), /^10\.181\.0\.\d+ fd00:181::[0-9a-f]+$/);
      assert.deepEqual(await node.plugin.podAddresses(pod), addresses);
      const held = (await node.holdings()).filter((line) => !clean.includes(line)).join("\n");
      for (const trace of [
        ...[/^link veth/m, /^link bwp/m, /^address 10\.181/m, /^address fd00/m, /^cached chain-/m],
        ...[/^iptables-save .*CNI-DN-/m, /^ip6tables-save .*CNI-DN-/m, /MASQUERADE/, /CNI-FORWARD .*ACCEPT/],
      ]) {
        assert.match(held, trace);
      }
      const lo = await pod.exec("ip", "-o", "address", "show", "dev", "lo");
      assert.match(lo, /127\.0\.0\.1/);
      await node.plugin.tearDownPod(requestFor(pod), never);
      await assertClean();
      await node.plugin.tearDownPod(requestFor(pod), never);
      await assertClean();
    });

    const ends: readonly (readonly [string, () => Promise<void>])[] = [
      [
        "the namespace gone",
        async () => {
          await command("ip", "netns", "delete", pod.netns.split("/").at(-1) ?? "");
          await node.plugin.tearDownPod(withoutNamespace(pod), never);
        },
      ],
      [
        "the namespace gone, though its path is given",
        async () => {
          await command("ip", "netns", "delete", pod.netns.split("/").at(-1) ?? "");
          await node.plugin.tearDownPod(requestFor(pod), never);
        },
      ],
      [
        "the namespace unknown to the caller, but alive",
        () => node.plugin.tearDownPod(withoutNamespace(pod), never),
      ],
      [
        "the configuration gone",
        async () => {
          await node.emptyConfDir();
          await node.parts.cache.open();
          await node.plugin.tearDownPod(requestFor(pod), never);
        },
      ],
      [
        "the configuration gone and the shim restarted",
        async () => {
          await node.emptyConfDir();
          await node.restart();
          assert.match(node.plugin.notReadyReason() ?? "", /^cni config uninitialized: no networks found in/);
          await node.plugin.tearDownPod(requestFor(pod), never);
        },
      ],
      [
        "the port mappings and the pod's name forgotten, and the shim restarted",
        async () => {
          await node.restart();
          const { sandboxId, netns } = pod;
          await node.plugin.tearDownPod(
            { namespace: "", name: "", sandboxId, netns, portMappings: [] },
            never,
          );
        },
      ],
      [
        "nothing but what is remembered, after a crash of the engine",
        async () => {
          await command("ip", "netns", "delete", pod.netns.split("/").at(-1) ?? "");
          await node.restart();
          const { cache, natTables } = node.parts;
          const find = async (livingIds: readonly string[]) =>
            compareHoldings(await readHoldings({ cache, natTables, networks: [] }, never), {
              livingIds: new Set(livingIds),
              ownIds: new Set([pod.sandboxId]),
            });
          assert.deepEqual(await find([pod.sandboxId]), []);
          const findings = await find([]);
          assert.deepEqual(
            [...new Set(findings.map(({ kind }) => kind))],
            ["cacheEntry", "address", "natRules"],
          );
          const done = await removeOrphanedAttachments(findings, node.parts, never);
          assert.deepEqual([done.failed, done.left], [[], []]);
        },
      ],
      [
        "an address that only its file tells of",
        async () => {
          const { cache, natTables } = node.parts;
          // As if the DEL had been run by a plugin that lost its way to host-local.
          const [entry] = (await cache.find(pod.sandboxId)).entries;
          assert.ok(entry !== undefined);
          const networks = [node.plugin.network()].filter((network) => network !== undefined);
          const findings = compareHoldings(await readHoldings({ cache, natTables, networks }, never), {
            livingIds: new Set(),
            ownIds: new Set([pod.sandboxId]),
          });
          const addresses = findings.filter(({ kind }) => kind === "address");
          assert.equal(addresses.length, 2);
          await removeOrphanedAttachments(addresses, node.parts, never);
          const held = await node.holdings();
          assert.deepEqual(
            held.filter((line) => line.startsWith("address ")),
            [],
          );
          await node.plugin.tearDownPod(requestFor(pod), never);
        },
      ],
    ];
    for (const [what, end] of ends) {
      test(`nothing is left of a pod torn down with ${what}`, async () => {
        await pod[Symbol.asyncDispose]();
        pod = await makePod("web");
        await node.configure();
        await node.restart();
        await node.plugin.setUpPod(requestFor(pod), never);
        assert.notDeepEqual(await node.holdings(), clean);
        await end();
        await assertClean();
        pod = await renewed(pod);
      });
    }

    async function renewed(old: TestPod): Promise<TestPod> {
      await command("ip", "netns", "delete", old.netns.split("/").at(-1) ?? "").catch(() => undefined);
      return makePod("web");
    }
  });

  for (const place of places) {
    describe(`a chain with a faulty plugin at place ${String(place)}`, () => {
      // At the first place there is no interface yet, and the bridge plugin makes the result anew.
      before(() => start(place, { setUpMs: 8000, tearDownMs: 8000 }));
      after(stop);

      for (const fault of ["fail", "garbage"] satisfies PluginFault[]) {
        test(`is undone by the tear-down when that one's ADD ends with ${fault}`, async () => {
          await node.injectFault("ADD", fault);
          await assert.rejects(
            node.plugin.setUpPod(requestFor(pod), never),
            /^ShimError: CNI plugin "faulty-plugin" ADD for pod "default\/web": /,
          );
          await node.plugin.tearDownPod({ ...requestFor(pod), unfinished: true }, never);
          await assertClean();
          await node.clearFaults();
        });
      }

      test("undoes everything at a later tear-down when the shim is killed in the middle", async () => {
        await node.injectFault("ADD", "fail");
        await assert.rejects(node.plugin.setUpPod(requestFor(pod), never));
        // Without the tear-down that follows in a shim that lives.
        await node.restart();
        assert.equal(await node.plugin.podAddresses(pod), undefined);
        await node.plugin.tearDownPod(requestFor(pod), never);
        await assertClean();
        await node.clearFaults();
      });

      test("undoes everything once that one's DEL succeeds, also by another shim", async () => {
        await node.plugin.setUpPod(requestFor(pod), never);
        await node.injectFault("DEL", "fail");
        for (let attempt = 0; attempt < 2; attempt += 1) {
          await assert.rejects(node.plugin.tearDownPod(requestFor(pod), never), /"faulty-plugin" DEL/);
        }
        await node.restart();
        await assert.rejects(node.plugin.tearDownPod(requestFor(pod), never), /"faulty-plugin" DEL/);
        await node.clearFaults();
        await node.plugin.tearDownPod(requestFor(pod), never);
        await assertClean();
      });
    });
  }
});
