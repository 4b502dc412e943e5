import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { deadline } from "../../../../src/lib/abort.js";
import { type Removal } from "../../../../src/network/cni/attachments.js";
import { cacheFileName, formatCacheEntry, type CacheEntry } from "../../../../src/network/libcni/cache.js";
import { parseNetworkList, type NetworkList } from "../../../../src/network/libcni/configuration.js";
import { type Attachment } from "../../../../src/network/libcni/network-list-runner.js";
import { turns, until } from "../../../fakes/turns.js";
import { attachmentsWith, heldNetns, livingNetns, oneAddress, sandboxId } from "./fake-plugins.js";
import { pluck } from "../../../support/pluck.js";

const never = new AbortController().signal;
const id = sandboxId("a");
const netns = livingNetns;
const portMappings = [{ hostPort: 80, containerPort: 80, protocol: "tcp", hostIP: "" }];

type Bed = Awaited<ReturnType<typeof attachmentsWith>>;
let fake: Bed["fake"];
let directory: string;
let cache: Bed["cache"];
let log: Bed["log"];
let natTable: Bed["natTable"];
let clock: Bed["clock"];
let attachments: Bed["attachments"];

beforeEach(async () => {
  const bed = await attachmentsWith("one", "two", "three");
  ({ fake, directory, cache, log, natTable, clock, attachments } = bed);
});
afterEach(() => fake[Symbol.asyncDispose]());

const listOf = (members: object, plugin: object = {}): NetworkList => {
  const capabilities = { portMappings: true };
  const plugins = ["one", "two", "three"].map((type) => ({ type, capabilities, ...plugin }));
  return parseNetworkList(JSON.stringify({ name: "net", cniVersion: "0.4.0", plugins, ...members }), "test");
};
const list = listOf({});
const attachment: Attachment = {
  containerId: id,
  netns,
  netnsIdentity: "first",
  ifName: "eth0",
  args: [["K8S_POD_NAME", "web"]],
  capabilityArgs: { portMappings },
  subject: 'pod "default/web"',
};
const removal: Removal = { ...attachment, args: [], capabilityArgs: {} };
/** As other programs leave it. */
const legacyEntry: CacheEntry = {
  ...{ containerId: id, ifName: "eth0", networkName: "net", config: list.text },
  ...{ cniArgs: [], capabilityArgs: {}, result: oneAddress },
};
const files = (): Promise<string[]> => readdir(join(directory, "results"));
const deletions = async (): Promise<readonly string[]> =>
  (await fake.order()).filter((call) => call.startsWith("DEL"));
const forgetCalls = (): Promise<void> => writeFile(join(fake.directory, "journal"), "");
async function added(by = list): Promise<CacheEntry> {
  await attachments.add(by, attachment, never);
  await forgetCalls();
  return (await cache.find(id)).entries[0]!;
}

describe("add()", () => {
  test("remembers what it was done with", async () => {
    const { args: cniArgs, capabilityArgs } = attachment;
    const expected = {
      ...legacyEntry,
      netns,
      netnsIdentity: "first",
      cniArgs,
      capabilityArgs,
      phase: "added",
    };
    assert.deepEqual(await added(), expected);
    assert.deepEqual(await attachments.addresses(id, "eth0"), ["10.1.2.3"]);
  });

  test("is known before its first plugin runs, with the last result before each further one", async () => {
    const seen = join(fake.directory, "seen");
    const path = join(directory, "results", `net-${id}-eth0`);
    const note = `cat '${path}' >> '${seen}'; echo >> '${seen}'; echo '${JSON.stringify(oneAddress)}'`;
    for (const type of ["one", "three"]) await fake.behave(type, "ADD", note);
    await attachments.add(list, attachment, never);
    const texts = (await readFile(seen, "utf8")).trim().split("\n");
    const entries = texts.map((text) => JSON.parse(text) as { result?: unknown; dockershim: unknown });
    assert.deepEqual(pluck(entries, "result"), [undefined, oneAddress]);
    const adding = { phase: "adding", netnsIdentity: "first" };
    assert.deepEqual(pluck(entries, "dockershim"), [adding, adding]);
  });
});

describe("remove()", () => {
  test("succeeds with a warning when there is neither memory nor network", async () => {
    await attachments.remove(removal, never);
    assert.deepEqual(pluck(log.linesAt("warn"), "message"), ["no network configuration for the tear-down"]);
  });

  test("finds what another shim remembered, and forgets it", async () => {
    // dockershim and cri-dockerd write no port mappings when they have lost the checkpoint.
    const args = { cniArgs: [["K8S_POD_NAME", "old"]] as const, capabilityArgs: { portMappings: [] } };
    const entry = { ...legacyEntry, ...args };
    const loopback = { ...entry, networkName: "cni-loopback" };
    const ofKubenet = { ...entry, networkName: "kubenet-loopback", ifName: "lo" };
    for (const each of [entry, loopback, ofKubenet]) {
      await writeFile(join(directory, "legacy", cacheFileName(each)), formatCacheEntry(each));
    }
    assert.deepEqual(await attachments.addresses(id, "eth0"), ["10.1.2.3"]);
    await attachments.remove({ ...removal, capabilityArgs: { portMappings } }, never);
    const calls = await fake.calls();
    assert.equal(calls.length, 3, "lo is not torn down by plugins");
    assert.deepEqual(calls[0]?.stdin["runtimeConfig"], { portMappings });
    assert.deepEqual(await readdir(join(directory, "legacy")), []);
  });

  test("uses the single plugin that kubenet of another shim has remembered, whatever the present list is", async () => {
    const config = '{"cniVersion":"0.1.0","name":"kubenet","type":"two","bridge":"cbr0"}';
    const result = { ip4: { ip: "10.1.2.3/24" }, dns: {} };
    const entry = { ...legacyEntry, networkName: "kubenet", config, result };
    await writeFile(join(directory, "legacy", cacheFileName(entry)), formatCacheEntry(entry));
    await attachments.remove({ ...removal, network: list }, never);
    const calls = await fake.calls();
    const used = calls.map(({ plugin, stdin }) => [plugin, stdin["name"], stdin["bridge"]].join());
    assert.deepEqual(used, ["two,kubenet,cbr0"]);
  });

  test("uses the present network for an entry without a readable configuration", async () => {
    const { phase: _phase, ...entry } = { ...(await added()), config: "{", phase: "added" };
    await writeFile(join(directory, "results", cacheFileName(entry)), formatCacheEntry(entry));
    await attachments.remove({ ...removal, network: list }, never);
    assert.equal((await deletions()).length, 3);
    assert.deepEqual(await files(), []);
  });

  let live: Map<string, string>;
  /** As entries of other programs are. */
  async function forgetIdentity(): Promise<void> {
    const { netnsIdentity: _identity, ...entry } = (await cache.find(id)).entries[0]!;
    await cache.write(entry);
  }
  const paths: readonly (readonly [string, string | undefined, () => unknown, string])[] = [
    ["the namespace is the path at which it is held", netns, () => undefined, heldNetns + id],
    ["a namespace that is gone is an empty path", "/proc/1234/ns/net", () => live.clear(), ""],
    ["no path is the remembered one, while the same namespace is there", undefined, () => undefined, netns],
    ["no path, and another namespace there now, is an empty path", undefined, () => live.set(netns, "2"), ""],
    ["another namespace than that of the ADD is an empty path", netns, () => live.set(netns, "2"), ""],
    ["the node's own namespace is an empty path", netns, () => fake.namespaces.own.add(netns), ""],
    ["a remembered path by process number without proof is an empty path", undefined, forgetIdentity, ""],
  ];
  for (const [rule, path, change, expected] of paths) {
    test(rule, async () => {
      live = fake.namespaces.living;
      await attachments.add(list, attachment, never);
      await forgetCalls();
      await change();
      const { netns: _netns, ...without } = removal;
      await attachments.remove(path === undefined ? without : { ...without, netns: path }, never);
      assert.deepEqual(pluck(await fake.calls(), "netns"), [expected, expected, expected]);
    });
  }

  test("runs the chain again without a namespace when that died under a plugin", async () => {
    await attachments.add(list, attachment, never);
    await forgetCalls();
    const died = join(directory, "died");
    await fake.behave("two", "DEL", `if [ -n "$CNI_NETNS" ]; then touch '${died}'; exit 1; fi`);
    const look = fake.namespaces.look.bind(fake.namespaces);
    fake.namespaces.look = (path) => (existsSync(died) ? undefined : look(path));
    const { netns: _netns, ...without } = removal;
    await attachments.remove(without, never);
    const calls = (await fake.calls()).map((call) => call.plugin + (call.netns === "" ? " without" : ""));
    assert.deepEqual(calls, ["three", "two", "three without", "two without", "one without"]);
  });
});

describe("the namespace that remove() holds", () => {
  /** The processes in it end as soon as they may, and the first plugin waits for that. */
  async function removeWhileProcessesEnd(): Promise<void> {
    const ended = join(directory, "ended");
    await fake.behave("three", "DEL", `until [ -e '${ended}' ]; do sleep 0.01; done`);
    const namespaceHeld = (): void => {
      fake.namespaces.living.delete(netns);
      writeFileSync(ended, "");
    };
    await attachments.remove({ ...removal, namespaceHeld }, deadline(10_000, "tear down"));
  }
  const usedByDel = async (): Promise<readonly string[]> => pluck(await fake.calls("DEL"), "netns");
  const held = heldNetns + id;

  test("outlives the processes in it until the last plugin has ended", async () => {
    await added();
    await removeWhileProcessesEnd();
    assert.deepEqual(await usedByDel(), [held, held, held]);
    assert.equal(fake.namespaces.held.size, 0);
  });

  const { netns: _netns, ...afterwards } = removal;
  for (const [whose, again] of [
    ["of its caller", () => attachments.remove(afterwards, never)],
    ["of the clean-up", () => attachments.removeRemembered(legacyEntry, never)],
  ] as const) {
    test(`is there for the next try ${whose} after a failure`, async () => {
      await added();
      await fake.behave("one", "DEL", "exit 1");
      await assert.rejects(removeWhileProcessesEnd());
      await fake.behaveAgain("one", "DEL");
      await forgetCalls();
      await again();
      assert.deepEqual(await usedByDel(), [held, held, held]);
      assert.equal(fake.namespaces.held.size, 0);
    });
  }
});

describe("masquerade rules", () => {
  const rule = `-A POSTROUTING -s 10.1.2.3/32 -m comment --comment "name: \\"net\\" id: \\"${id}\\"" -j CNI-${"0".repeat(24)}`;
  const masquerading = listOf({}, { ipMasq: true });
  beforeEach(() => {
    natTable.text = `*nat\n:CNI-${"0".repeat(24)} - [0:0]\n${rule}\nCOMMIT\n`;
  });

  test("that the bridge plugin leaves without a namespace are removed", async () => {
    await attachments.add(masquerading, attachment, never);
    fake.namespaces.living.clear();
    const { netns: _netns, ...without } = removal;
    await attachments.remove(without, never);
    assert.deepEqual(natTable.restored, [
      `*nat\n${rule.replace("-A", "-D")}\n-F CNI-${"0".repeat(24)}\n-X CNI-${"0".repeat(24)}\nCOMMIT\n`,
    ]);
  });

  test("are looked for after a second try of DEL, which finds the interface gone", async () => {
    await attachments.add(masquerading, attachment, never);
    await fake.behave("one", "DEL", "exit 1");
    await assert.rejects(attachments.remove(removal, never));
    assert.equal(natTable.restored.length, 0);
    await fake.behaveAgain("one", "DEL");
    await attachments.remove(removal, never);
    assert.equal(natTable.restored.length, 1);
  });
});

describe("collectGarbage()", () => {
  test("waits for set-ups that run, and asks for the living only then", async () => {
    const gate = join(directory, "gate");
    const wait = `while [ ! -e '${gate}' ]; do sleep 0.01; done`;
    await fake.behave("one", "ADD", `${wait}; echo '${JSON.stringify(oneAddress)}'`);
    let phase: string | undefined;
    const adding = attachments.add(list, attachment, never);
    await turns(5);
    const living = async () => {
      phase = (await cache.find(id)).entries[0]?.phase;
      return [{ containerId: id, ifName: "eth0" }];
    };
    const collecting = attachments.collectGarbage(list, living, never);
    await turns(5);
    await writeFile(gate, "");
    await Promise.all([adding, collecting]);
    assert.equal(phase, "added");
    assert.equal((await files()).length, 1);
  });

  test("is ended, with a plugin that hangs, when a pod has waited for a second", async () => {
    const newest = listOf({ cniVersion: "1.1.0" });
    const begun = join(fake.directory, "begun");
    await fake.behave("one", "GC", `: > '${begun}'; sleep 1000`);
    let ended = false;
    const collecting = attachments.collectGarbage(newest, async () => [], never);
    const failed = assert
      .rejects(collecting, { kind: "timeout", message: /because pods wait/ })
      .finally(() => (ended = true));
    await until("the plugin hangs", () => existsSync(begun));
    clock.pass(20_000);
    const adding = attachments.add(newest, attachment, never);
    await until("the pod waits", () => clock.timers.size === 1);
    clock.pass(999);
    await turns(5);
    assert.equal(ended, false);
    clock.pass(1);
    await Promise.all([failed, adding]);
    assert.deepEqual(await fake.order(), ["GC one", "ADD one", "ADD two", "ADD three"]);
  });
});

describe("check()", () => {
  test("asks the plugins about what is remembered, and throws their complaint", async () => {
    const entry = await added();
    assert.equal(await attachments.check(entry, never), true);
    assert.deepEqual(await fake.order(), ["CHECK one", "CHECK two", "CHECK three"]);
    for (const { netns: path, stdin } of await fake.calls())
      assert.deepEqual([path, stdin["prevResult"]], [netns, oneAddress]);
    await fake.behave("two", "CHECK", `echo '{"code":100,"msg":"no rule"}'; exit 1`);
    await assert.rejects(attachments.check(entry, never), /CNI plugin "two" CHECK for .*: no rule/);
  });

  const unasked: readonly (readonly [string, object, Partial<CacheEntry>])[] = [
    ["of a list that switches it off", { disableCheck: true }, {}],
    ["of a list of an older version", { cniVersion: "0.3.1" }, {}],
    ["of a set-up that never ended", {}, { phase: "adding" }],
  ];
  for (const [what, members, change] of unasked) {
    test(`asks nothing ${what}`, async () => {
      const entry = await added(listOf(members));
      assert.equal(await attachments.check({ ...entry, ...change }, never), false);
      assert.deepEqual(await fake.order(), []);
    });
  }
});

test("removeRemembered() runs nothing for what is not remembered any more", async () => {
  const entry = await added();
  assert.equal(await attachments.removeRemembered(entry, never), true);
  assert.equal((await deletions()).length, 3);
  assert.equal(await attachments.removeRemembered(entry, never), false);
  assert.equal((await deletions()).length, 3);
});
