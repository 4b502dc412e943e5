import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { removeOrphanedAttachments } from "../../../../src/network/orphans/remove-orphaned-attachments.js";
import type { CniNetworkPlugin } from "../../../../src/network/cni/cni-plugin.js";
import {
  createCniParts,
  createPluginOn,
  type CniParts,
  type CniPluginOptions,
} from "../../../../src/network/cni/create-cni-plugin.js";
import type { NatTable } from "../../../../src/network/cni/nat-rules.js";
import type { Finding } from "../../../../src/network/orphans/find-orphans.js";
import type { PodNetworkRequest } from "../../../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { turns, until } from "../../../fakes/turns.js";
import { FakeNatTable, FakePlugins, heldNetns, livingNetns, oneAddress, sandboxId } from "./fake-plugins.js";
import { FixedSource } from "./fixed-source.js";
import { pluck } from "../../../support/pluck.js";

const never = new AbortController().signal;
const request: PodNetworkRequest = {
  namespace: "default",
  name: "web",
  uid: "u",
  sandboxId: sandboxId("a"),
  netns: livingNetns,
  annotations: {},
  portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080, hostIp: "" }],
};

/** As plugins are told them. */
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" }];

let fake: FakePlugins;
let directory: string;
let source: FixedSource;
let log: ReturnType<typeof recordingLog>;
let plugin: CniNetworkPlugin;

beforeEach(async () => {
  fake = await FakePlugins.create("one", "two", "loopback");
  directory = await mkdtemp(join(tmpdir(), "cni-plugin-"));
  source = new FixedSource();
  source.use({}, { type: "one", capabilities: { portMappings: true } }, { type: "two" });
  log = recordingLog();
  plugin = await made();
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
  await fake[Symbol.asyncDispose]();
});

function optionsWith(options: Partial<CniPluginOptions>) {
  return {
    reason: "test",
    binDirs: [fake.binDir],
    cacheDir: directory,
    legacyResultDirs: [],
    natTables: async () => [new FakeNatTable()],
    namespaces: fake.namespaces,
    log,
    ...options,
  };
}

/** As after a restart: another object on the same directories. */
async function made(options: Partial<CniPluginOptions> = {}): Promise<CniNetworkPlugin> {
  const all = optionsWith(options);
  const created = createPluginOn(source, "cni", all, createCniParts(all));
  await created.start(never);
  return created;
}

const chain = async (): Promise<readonly string[]> =>
  (await fake.order()).filter((call) => !call.endsWith("loopback"));
const files = (): Promise<string[]> => readdir(join(directory, "results"));

test("setUpPod() brings up lo, runs the chain and answers with the addresses", async () => {
  assert.deepEqual(await plugin.setUpPod(request, never), ["10.1.2.3"]);
  assert.deepEqual(await fake.order(), ["ADD loopback", "ADD one", "ADD two"]);
  const [loopback, one] = await fake.calls();
  assert.deepEqual([loopback?.stdin["cniVersion"], loopback?.ifName], ["0.4.0", "eth0"]);
  const pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web";
  assert.equal(one?.args, `${pod};K8S_POD_INFRA_CONTAINER_ID=${request.sandboxId};K8S_POD_UID=u`);
  assert.deepEqual(one.stdin["runtimeConfig"], { portMappings });
});

test("podAddresses() answers from what is stored, also after a restart, without running anything", async () => {
  await plugin.setUpPod(request, never);
  const before = (await fake.calls()).length;
  assert.deepEqual(await plugin.podAddresses(request), ["10.1.2.3"]);
  const restarted = await made();
  assert.deepEqual(await restarted.podAddresses(request), ["10.1.2.3"]);
  assert.equal((await fake.calls()).length, before);
  await restarted.tearDownPod(request, never);
  assert.equal(await restarted.podAddresses(request), undefined);
  assert.equal(await plugin.podAddresses({ ...request, sandboxId: sandboxId("f") }), undefined);
});

describe("a failed ADD", () => {
  const unfinished = { ...request, unfinished: true };

  test("is reported with its own error, and undone by the tear-down of its caller alone", async () => {
    await fake.behave("two", "ADD", `echo '{"code":7,"msg":"bad"}'; exit 1`);
    await assert.rejects(plugin.setUpPod(request, never), {
      message: 'CNI plugin "two" ADD for pod "default/web": bad (code 7)',
    });
    assert.deepEqual(await chain(), ["ADD one", "ADD two"]);
    assert.equal(await plugin.podAddresses(request), undefined);
    await plugin.tearDownPod(unfinished, never);
    assert.deepEqual((await chain()).slice(2), ["DEL two", "DEL one"]);
    assert.deepEqual(await files(), []);
    await plugin.tearDownPod(unfinished, never);
    assert.equal((await chain()).length, 4, "what was undone is not undone again");
  });

  test("by a deadline is an error that says so", async () => {
    plugin = await made({ timeouts: { setUpMs: 1500 } });
    await fake.behave("two", "ADD", "sleep 1000");
    const message =
      /^CNI plugin "two" ADD for pod "default\/web": killed: .*not finished after 1\.5s; it waited for: CNI plugin "two" ADD .*$/;
    await assert.rejects(plugin.setUpPod(request, never), { kind: "timeout", message });
    await plugin.tearDownPod(unfinished, never);
    assert.deepEqual(await chain(), ["ADD one", "ADD two", "DEL two", "DEL one"]);
  });

  test("by a caller that leaves can be undone all the same", async () => {
    const caller = new AbortController();
    await fake.behave("one", "ADD", `touch '${directory}/running'; sleep 1000`);
    const setUp = plugin.setUpPod(request, caller.signal);
    setUp.catch(() => undefined);
    await until("the plugin runs", () => existsSync(join(directory, "running")));
    caller.abort();
    await assert.rejects(setUp, { kind: "cancelled" });
    await plugin.tearDownPod(unfinished, never);
    assert.deepEqual(await chain(), ["ADD one", "DEL two", "DEL one"]);
    assert.deepEqual(await files(), []);
  });

  test("is undone with its own list, arguments and result, also when others are in use by then", async () => {
    const own = source.now;
    await fake.behave("two", "ADD", "exit 1");
    await assert.rejects(plugin.setUpPod(request, never));
    source.use({ name: "other" }, { type: "two" });
    await (await made()).tearDownPod({ ...unfinished, portMappings: [] }, never);
    const add = (await fake.calls("ADD")).find((call) => call.plugin === "one");
    const deletions = await fake.calls("DEL");
    assert.deepEqual(pluck(deletions, "plugin"), ["two", "one"]);
    for (const { stdin, args, netns } of deletions) {
      assert.deepEqual([stdin["name"], stdin["prevResult"]], [own.network?.name, oneAddress]);
      assert.deepEqual([args, netns], [add?.args, heldNetns + unfinished.sandboxId]);
    }
    assert.deepEqual(deletions.at(-1)?.stdin["runtimeConfig"], add?.stdin["runtimeConfig"]);
  });

  test("is undone once before the same sandbox is set up again", async () => {
    await fake.behave("two", "ADD", "exit 1");
    await assert.rejects(plugin.setUpPod(request, never));
    await fake.behaveAgain("two", "ADD");
    await plugin.setUpPod(request, never);
    assert.deepEqual((await chain()).slice(2), ["DEL two", "DEL one", "ADD one", "ADD two"]);
  });

  test("whose undo fails is still known, and undone by the next run", async () => {
    await fake.behave("two", "ADD", "exit 1");
    await fake.behave("one", "DEL", "exit 1");
    await assert.rejects(plugin.setUpPod(request, never), /"two" ADD/);
    await assert.rejects(plugin.tearDownPod(unfinished, never), /"one" DEL/);
    assert.equal((await files()).length, 1);
    const restarted = await made();
    assert.equal(await restarted.podAddresses(request), undefined);
    await fake.behaveAgain("one", "DEL");
    await restarted.tearDownPod(unfinished, never);
    assert.deepEqual(await files(), []);
  });

  test("that was never begun is not undone, unless what is remembered cannot be read", async () => {
    await plugin.tearDownPod(unfinished, never);
    assert.deepEqual(await chain(), []);
    await writeFile(join(directory, "results", `net-${request.sandboxId}-eth0`), "{");
    await plugin.tearDownPod(unfinished, never);
    assert.deepEqual(await chain(), ["DEL two", "DEL one"]);
    assert.deepEqual(await files(), []);
  });
});

describe("tearDownPod()", () => {
  test("works when the configuration has disappeared, with and without a restart", async () => {
    await plugin.setUpPod(request, never);
    source.now = { problem: "no networks found in /conf" };
    await plugin.tearDownPod(request, never);
    assert.deepEqual((await chain()).slice(2), ["DEL two", "DEL one"]);

    source.use({}, { type: "one" });
    await plugin.setUpPod({ ...request, sandboxId: sandboxId("b") }, never);
    source.now = { problem: "no networks found in /conf" };
    source.last = undefined;
    await (await made()).tearDownPod({ ...request, sandboxId: sandboxId("b") }, never);
    assert.deepEqual(await files(), []);
  });

  test("offers port mappings and pod CIDRs of today when nothing is remembered", async () => {
    source.use({}, { type: "one", capabilities: { portMappings: true, ipRanges: true } });
    await plugin.podCidrChanged(["10.1.0.0/24"]);
    await plugin.tearDownPod(request, never);
    const [call] = await fake.calls();
    const ipRanges = [[{ subnet: "10.1.0.0/24" }]];
    assert.deepEqual(call?.stdin["runtimeConfig"], { portMappings, ipRanges });
  });

  test("goes on when the caller leaves", async () => {
    await plugin.setUpPod(request, never);
    const begun = join(fake.directory, "begun");
    await fake.behave("two", "DEL", `: > '${begun}'; sleep 0.1`);
    const caller = new AbortController();
    const tearDown = plugin.tearDownPod(request, caller.signal);
    await until("a plugin runs", () => existsSync(begun));
    caller.abort();
    await tearDown;
    assert.deepEqual(await files(), []);
  });

  test("ends a plugin that hangs by a deadline, and succeeds at the next try", async () => {
    plugin = await made({ timeouts: { tearDownMs: 300 } });
    await plugin.setUpPod(request, never);
    await fake.behave("two", "DEL", "sleep 1000");
    await assert.rejects(plugin.tearDownPod(request, never), { kind: "timeout" });
    await fake.behaveAgain("two", "DEL");
    await (await made()).tearDownPod(request, never);
    assert.deepEqual(await files(), []);
  });

  test("of a pod whose name cannot be said to plugins is possible, its set-up is not", async () => {
    const odd = { ...request, name: "a;b" };
    await assert.rejects(plugin.setUpPod(odd, never), { kind: "invalid" });
    await plugin.tearDownPod(odd, never);
    const args = pluck(await fake.calls(), "args").join();
    assert.ok(!args.includes("a;b"));
  });
});

describe("readiness", () => {
  test("ends with the configuration, with the reason, and comes back by itself", async () => {
    assert.equal(plugin.notReadyReason(), undefined);
    source.now = { problem: "no networks found in /conf" };
    assert.equal(plugin.notReadyReason(), "cni config uninitialized: no networks found in /conf");
    await assert.rejects(plugin.setUpPod(request, never), { kind: "unavailable" });
    assert.deepEqual(await fake.order(), []);
    source.use({}, { type: "one" });
    assert.equal(plugin.notReadyReason(), undefined);
  });

  test("needs a pod CIDR for a plugin that declares ipRanges", async () => {
    source.use({}, { type: "one", capabilities: { ipRanges: true } });
    assert.equal(plugin.notReadyReason(), "cni config needs ipRanges but no PodCIDR set");
    await assert.rejects(plugin.setUpPod(request, never), /needs ipRanges/);
    await plugin.podCidrChanged(["10.1.0.0/24,fd00::/64"]);
    assert.equal(plugin.notReadyReason(), undefined);
    await plugin.setUpPod(request, never);
    const one = (await fake.calls()).find((call) => call.plugin === "one");
    const ipRanges = [[{ subnet: "10.1.0.0/24" }], [{ subnet: "fd00::/64" }]];
    assert.deepEqual(one?.stdin["runtimeConfig"], { ipRanges });
  });

  test("is what the plugins of a 1.1.0 list answer to STATUS", async () => {
    await fake.behave("one", "STATUS", `echo '{"code":50,"msg":"no backend"}'; exit 1`);
    source.use({ cniVersion: "1.1.0" }, { type: "one" });
    plugin = await made();
    assert.equal(plugin.notReadyReason(), 'CNI plugin "one" STATUS: no backend (code 50)');
    assert.equal(plugin.describe()["status"], plugin.notReadyReason());
    assert.equal((await fake.calls("STATUS")).length, 1, "the answer is kept for a while");
  });
});

test("start() does not wait for a source whose plugins hang; the first pod waits for it", async () => {
  const known = source.now;
  source.now = { problem: "being read" };
  let end!: () => void;
  source.start = () => new Promise((resolve) => (end = resolve));
  plugin = await made();
  assert.equal(plugin.notReadyReason(), "cni config uninitialized: being read");
  const caller = new AbortController();
  const left = plugin.setUpPod(request, caller.signal);
  const setUp = plugin.setUpPod({ ...request, sandboxId: sandboxId("b") }, never);
  caller.abort();
  await assert.rejects(left, { kind: "cancelled" });
  source.now = known;
  end();
  assert.deepEqual(await setUp, ["10.1.2.3"]);
});

for (const verb of ["ADD", "DEL"] as const) {
  test(`pods whose ${verb} hangs, however many, hold up no other pod`, async () => {
    const gate = join(directory, "gate");
    const good = sandboxId("0");
    const of = (name: string): PodNetworkRequest => ({ ...request, name, sandboxId: sandboxId(name) });
    const stuck = Array.from({ length: 12 }, (_, index) => of((index + 1).toString(16)));
    if (verb === "DEL") for (const pod of stuck) await plugin.setUpPod(pod, never);
    const wait = `while [ ! -e '${gate}' ]; do sleep 0.05; done; exec cat /dev/null`;
    const reply = `[ $CNI_COMMAND = DEL ] || echo '${JSON.stringify(oneAddress)}'`;
    await fake.behave("two", verb, `[ $CNI_CONTAINERID = ${good} ] || { ${wait}; }; ${reply}`);
    const work = stuck.map((pod) =>
      verb === "ADD" ? plugin.setUpPod(pod, never) : plugin.tearDownPod(pod, never),
    );
    const ended = Promise.allSettled(work);
    let hanging = 0;
    await until("all hang", () => {
      void fake.calls(verb).then((calls) => (hanging = calls.filter((call) => call.plugin === "two").length));
      return hanging === stuck.length;
    });
    assert.deepEqual(await plugin.setUpPod(of("0"), never), ["10.1.2.3"]);
    await plugin.tearDownPod(of("0"), never);
    await writeFile(gate, "");
    await ended;
  });
}

test("a pod with host ports on a network without portMappings is set up with a warning", async () => {
  source.use({}, { type: "one" });
  await plugin.setUpPod(request, never);
  assert.ok(log.lines.some(({ level, message }) => level === "warn" && message.includes("host ports")));
});

describe("of one sandbox", () => {
  const { sandboxId: containerId } = request;
  const ours = { what: "x", ownerId: containerId, certainlyOurs: true };
  const place = { networkName: "net", dataDir: "/nowhere", address: "10.1.2.3" };
  const address = { ...place, containerId, ifName: "eth0" };
  const orphans: readonly Finding[] = [
    { kind: "natRules", family: "ipv4", ...ours },
    { kind: "natChain", family: "ipv4", chain: "CNI-0123456789abcdef01234567", ...ours },
    { kind: "address", address, ...ours },
  ];

  let parts: CniParts;
  /** Whether a plugin was at work at each look at the rules and each release of an address. */
  let beside: boolean[];
  beforeEach(async () => {
    const busy = join(fake.directory, "busy");
    beside = [];
    // Takes its time, and fails when another one is at work.
    await fake.behave("two", "DEL", `mkdir '${busy}' || exit 1; sleep 0.3; rmdir '${busy}'`);
    const look = (): void => void beside.push(existsSync(busy));
    const natTables = (): Promise<NatTable[]> => (look(), Promise.resolve([new FakeNatTable()]));
    const options = optionsWith({ natTables });
    parts = createCniParts(options);
    plugin = createPluginOn(source, "cni", options, parts);
    await plugin.start(never);
    await plugin.setUpPod(request, never);
  });
  const remembered = async (): Promise<Finding> => {
    const [entry] = await parts.cache.list();
    assert.ok(entry !== undefined);
    return { kind: "cacheEntry", entry, ...ours };
  };

  test("a tear-down waits for the clean-up, and what it finds undone is not undone again", async () => {
    const finding = await remembered();
    const cleaning = removeOrphanedAttachments([finding], parts, never);
    await plugin.tearDownPod({ ...request, unfinished: true }, never);
    assert.deepEqual((await cleaning).cleaned, [finding]);
    assert.deepEqual(await chain(), ["ADD one", "ADD two", "DEL two", "DEL one"]);
  });

  test("the clean-up waits for a tear-down, does nothing then and does not claim to have", async () => {
    const finding = await remembered();
    const tearingDown = plugin.tearDownPod(request, never);
    const { cleaned, failed } = await removeOrphanedAttachments([finding], parts, never);
    await tearingDown;
    assert.deepEqual([cleaned, failed], [[], []]);
    assert.deepEqual(await chain(), ["ADD one", "ADD two", "DEL two", "DEL one"]);
  });

  test("a set-up waits for the clean-up of an earlier one", async () => {
    const cleaning = removeOrphanedAttachments([await remembered()], parts, never);
    assert.deepEqual(await plugin.setUpPod(request, never), ["10.1.2.3"]);
    assert.deepEqual((await cleaning).failed, []);
    assert.deepEqual(await chain(), ["ADD one", "ADD two", "DEL two", "DEL one", "ADD one", "ADD two"]);
  });

  for (const finding of orphans) {
    test(`${finding.kind}: taken away when no plugin is at work`, async () => {
      await fake.install("host-local");
      const busy = join(fake.directory, "busy");
      await fake.behave("host-local", "DEL", `[ ! -e '${busy}' ]`);
      const tearingDown = plugin.tearDownPod(request, never);
      await until("a plugin is at work", () => existsSync(busy));
      const { cleaned, failed } = await removeOrphanedAttachments([finding], parts, never);
      await tearingDown;
      assert.deepEqual([cleaned, failed], [[finding], []]);
      assert.equal(beside.includes(true), false);
    });
  }

  test("the clean-up's time counts from when it is its turn", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let release!: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    const holding = parts.attachments.alone(request.sandboxId, never, () => held);
    const cleaning = removeOrphanedAttachments(orphans.slice(0, 1), parts, never);
    await turns(5);
    t.mock.timers.tick(3_600_000);
    release();
    await holding;
    assert.deepEqual((await cleaning).failed, []);
  });
});
