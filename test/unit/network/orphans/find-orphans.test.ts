import assert from "node:assert/strict";
import { mkdir, readdir, writeFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type CacheEntry } from "../../../../src/network/libcni/cache.js";
import { removeOrphanedAttachments } from "../../../../src/network/orphans/remove-orphaned-attachments.js";
import {
  readHoldings,
  type Holdings,
  reservedAddresses,
} from "../../../../src/network/orphans/held-resources.js";
import { chainNames, readNatRules } from "../../../../src/network/cni/nat-rules.js";
import {
  attachmentsToKeep,
  compareHoldings,
  orphanedChains,
} from "../../../../src/network/orphans/find-orphans.js";
import { OrphanedNetworks } from "../../../../src/network/orphans/orphaned-networks.js";
import type { CniParts } from "../../../../src/network/cni/create-cni-plugin.js";
import { attachmentsWith, sandboxId } from "../cni/fake-plugins.js";
import { golden } from "../cni/golden.js";
import { golden as hostPorts, otherChain, webChains, webId } from "../hostport/golden.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { pluck } from "../../../support/pluck.js";

const never = new AbortController().signal;
const recordedId = "8dbd9e392a964056b7a24c8b1d2c3f5e0a1b2c3d4e5f60718293a4b5c6d7e8f9";
const { tables } = golden<{ tables: Record<string, string> }>("nat-tables.json");
const fullTable = tables["chain/add-portmap"] ?? "";

const entry = (containerId: string, extra: Partial<CacheEntry> = {}): CacheEntry => ({
  ...{ containerId, ifName: "eth0", networkName: "demo", cniArgs: [], capabilityArgs: {} },
  phase: "added",
  ...extra,
});
const nothing: Holdings = { cacheEntries: [], addresses: [], natTables: [] };
const known = (living: readonly string[], own: readonly string[] = []) => {
  return { livingIds: new Set(living), ownIds: new Set(own) };
};

/** The parts of the network of plugins, with a recorded table. */
async function partsWith(...types: readonly string[]) {
  const bed = await attachmentsWith(...types);
  bed.natTable.text = fullTable;
  return { ...bed, natTables: async () => [bed.natTable] };
}

describe("compareHoldings()", () => {
  const address = { address: "10.88.0.2", networkName: "demo", dataDir: "/x" };
  const holdings: Holdings = {
    cacheEntries: [entry(recordedId)],
    addresses: [{ ...address, containerId: recordedId, ifName: "eth0" }],
    natTables: [{ family: "ipv4", save: fullTable }],
  };

  test("finds everything of a dead container, certainly ours by our record of it", () => {
    const found = compareHoldings(holdings, known([], [recordedId]));
    assert.deepEqual(
      found.map(({ kind, ownerId, certainlyOurs }) => [kind, ownerId, certainlyOurs]),
      ["cacheEntry", "address", "natRules"].map((kind) => [kind, recordedId, true]),
    );
  });

  const certainty: readonly (readonly [string, Partial<CacheEntry>, readonly string[], string, boolean])[] = [
    ["an entry of another runtime is not ours", { phase: undefined as never }, [], recordedId, false],
    ["an entry of another shim, on another engine perhaps, is not ours", {}, [], recordedId, false],
    ["a record of the sandbox makes it ours", { phase: undefined as never }, [recordedId], recordedId, true],
    ["an id that is none of the engine's is not ours", {}, ["short"], "short", false],
  ];
  for (const [rule, extra, own, containerId, expected] of certainty) {
    test(rule, () => {
      const cacheEntries = [entry(containerId, extra)];
      const [found] = compareHoldings({ ...nothing, cacheEntries }, known([], own));
      assert.equal(found?.certainlyOurs, expected);
    });
  }

  test("a chain to which no rule leads has its owner by its name, if anything tells of the pair", () => {
    const [, chain = ""] = chainNames("demo", recordedId);
    const natTables = [{ family: "ipv4" as const, save: `:${chain} - [0:0]\n` }];
    const [unknown] = compareHoldings({ ...nothing, natTables }, known([]));
    const { kind, ownerId, certainlyOurs } = unknown!;
    assert.deepEqual([kind, ownerId, certainlyOurs], ["natChain", undefined, false]);
    const cacheEntries = [entry(recordedId)];
    const [, chainOfOurs] = compareHoldings({ ...nothing, cacheEntries, natTables }, known([], [recordedId]));
    assert.equal(chainOfOurs?.certainlyOurs, true);
    // It may be about to get its rule.
    assert.deepEqual(compareHoldings({ ...nothing, cacheEntries, natTables }, known([recordedId])), []);
  });
});

test("OrphanedNetworks.find() asks for the living after it has read, so that a new pod is never taken for dead", async () => {
  const order: string[] = [];
  const parts = {
    cache: { list: async () => (order.push("read"), []) },
    natTables: async () => [],
  } as unknown as CniParts;
  const known = async () => {
    order.push("asked");
    return { livingIds: new Set<string>(), ownIds: new Set<string>() };
  };
  await new OrphanedNetworks(parts, async () => []).find(known, never);
  assert.deepEqual(order, ["read", "asked"]);
});

test("removeOrphanedAttachments() undoes what is certainly ours and dead, and leaves the rest", async () => {
  const bed = await partsWith("one", "host-local");
  const { fake, directory, natTable, natTables, cache, invoker, attachments } = bed;
  await using _ = fake;
  const [dead, living] = [sandboxId("a"), sandboxId("b")];
  const dataDir = join(directory, "ipam");
  const config = JSON.stringify({
    name: "demo",
    plugins: [{ type: "one", ipam: { type: "host-local", dataDir } }],
  });
  for (const containerId of [dead, living]) await cache.write(entry(containerId, { config }));
  await mkdir(join(dataDir, "demo"), { recursive: true });
  const reserve = (address: string, id: string): Promise<void> =>
    writeFile(join(dataDir, "demo", address), `${id}\r\neth0`);
  await reserve("10.0.0.2", dead);
  await reserve("10.0.0.3", living);
  await reserve("10.0.0.4", sandboxId("c"));
  await writeFile(join(dataDir, "demo", "last_reserved_ip.0"), "10.0.0.4");
  // The real one removes all files of the container.
  const removal = `grep -l "$CNI_CONTAINERID" '${dataDir}'/demo/* | xargs rm -f; exit 0`;
  await fake.behave("host-local", "DEL", removal);

  const addressDir = join(directory, "none");
  const findings = compareHoldings(
    await readHoldings({ cache, natTables, networks: [], addressDir }, never),
    known([living], [recordedId, dead]),
  );
  const done = await removeOrphanedAttachments(findings, { attachments, invoker, natTables }, never);
  assert.deepEqual(done.failed, []);
  const cleaned = done.cleaned.map(({ kind, ownerId }) => `${kind} ${ownerId}`);
  assert.deepEqual(cleaned, [`cacheEntry ${dead}`, `address ${dead}`, `natRules ${recordedId}`]);
  const left = done.left.map(({ kind, ownerId }) => `${kind} ${ownerId}`);
  assert.deepEqual(left, [`address ${sandboxId("c")}`]);
  assert.deepEqual(await readdir(join(directory, "results")), [`demo-${living}-eth0`]);
  assert.deepEqual(await readdir(join(dataDir, "demo")), ["10.0.0.3", "10.0.0.4", "last_reserved_ip.0"]);
  assert.deepEqual(readNatRules(natTable.text).containers, []);
  assert.match(natTable.text, /-A PREROUTING .* -j CNI-HOSTPORT-DNAT/, "what all pods share stays");
  const release = (await fake.calls("DEL")).find(({ plugin }) => plugin === "host-local");
  assert.deepEqual([release?.containerId, release?.stdin["name"], release?.ifName], [dead, "demo", "eth0"]);
});

test("removeOrphanedAttachments() goes on after a failure and says what failed", async () => {
  const { fake, directory, natTables, cache, invoker, attachments } = await partsWith("one");
  await using _ = fake;
  await cache.write(entry(recordedId, { config: '{"name":"demo","plugins":[{"type":"one"}]}' }));
  await fake.behave("one", "DEL", "exit 1");
  const holdings = await readHoldings({ cache, natTables, networks: [], addressDir: directory }, never);
  const done = await removeOrphanedAttachments(
    compareHoldings(holdings, known([], [recordedId])),
    { attachments, invoker, natTables },
    never,
  );
  assert.deepEqual(done.failed.map(({ finding }) => finding.kind).join(), "cacheEntry");
  assert.match(done.failed[0]?.reason ?? "", /^CNI plugin "one" DEL for sandbox /);
  assert.deepEqual(pluck(done.cleaned, "kind"), ["natRules"]);
  assert.equal((await readdir(join(directory, "results"))).length, 1, "kept for the next try");
});

describe("attachmentsToKeep()", () => {
  const [dead = "", living = "", foreign = "", bare = ""] = ["a", "b", "c", "d"].map(sandboxId);
  const holdings = {
    cacheEntries: [entry(dead), entry(living), { ...entry(foreign), ifName: "net1" }],
    addresses: [],
    natTables: [],
  };

  test("are all but those that are certainly ours and dead, and our living sandboxes of which nothing is known", () => {
    const keys = attachmentsToKeep("demo", holdings, known([living, bare], [dead, living, bare]));
    assert.deepEqual(keys, [
      { containerId: living, ifName: "eth0" },
      { containerId: foreign, ifName: "net1" },
      { containerId: bare, ifName: "eth0" },
    ]);
  });
});

describe("orphanedChains()", () => {
  const natTables = [
    { family: "ipv4", save: hostPorts.natTableAfterAdd },
    { family: "ipv6", save: "" },
  ] as const;
  const rows: readonly [
    name: string,
    living: readonly string[],
    own: readonly string[],
    ours: readonly string[],
    strange: readonly string[],
  ][] = [
    ["chains of a dead sandbox that we have noted are ours", [], [webId], webChains, [otherChain]],
    ["chains of a container that is still there are left out", [webId], [webId], [], [otherChain]],
    ["chains of unknown owners are perhaps not ours", [], [], [], [...webChains, otherChain]],
  ];
  for (const [name, living, own, ours, strange] of rows) {
    test(name, async () => {
      const found = await orphanedChains(natTables, { livingIds: new Set(living), ownIds: new Set(own) });
      const names = (certainlyOurs: boolean): readonly string[] =>
        found
          .filter((finding) => finding.certainlyOurs === certainlyOurs)
          .map((finding) => (finding.kind === "hostPortChain" ? finding.chain : finding.kind))
          .sort();
      assert.deepEqual([names(true), names(false)], [[...ours].sort(), [...strange].sort()]);
    });
  }
});

describe("reservedAddresses()", () => {
  test("reads the files of addresses, and nothing else", async () => {
    await using at = await temporaryDirectory();
    const directory = join(at.path, "net");
    await mkdir(directory);
    const addresses = {
      "10.1.0.2": "abc\r\neth0",
      "fd00::2": "def\r\nnet1",
      "10.1.0.3": "old",
      "10.1.0.4": "",
    };
    const others = { "last_reserved_ip.0": "10.1.0.2", lock: "" };
    for (const [name, content] of Object.entries({ ...addresses, ...others }))
      await writeFile(join(directory, name), content);
    await mkdir(join(directory, "10.1.0.5"));
    await symlink("10.1.0.2", join(directory, "10.1.0.6"));
    const found = await reservedAddresses(at.path, "net");
    const texts = found.map(({ address, containerId, ifName }) => `${address} ${containerId} ${ifName}`);
    assert.deepEqual(texts.sort(), ["10.1.0.2 abc eth0", "10.1.0.3 old eth0", "fd00::2 def net1"]);
  });
});
