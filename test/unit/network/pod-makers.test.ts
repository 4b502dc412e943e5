/** Whatever the present plugin is, a pod is released by the one that made its network. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { cacheFileName, formatCacheEntry, type CacheEntry } from "../../../src/network/libcni/cache.js";
import { startAsChild, type StartProgram } from "../../../src/shim/native/start-program.js";
import { selectNetworkPlugin } from "../../../src/network/select-plugin.js";
import type { NetworkPlugin } from "../../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { selection } from "./fake-plugin.js";
import { FakePlugins, oneAddress, sandboxId } from "./cni/fake-plugins.js";

const never = new AbortController().signal;
const id = sandboxId("a");

const noop = "kubernetes.io/no-op";
const present = ["no-op", "cni", "kubenet"] as const;

/** The list of the configuration directory. */
const list = { cniVersion: "1.0.0", name: "net", plugins: [{ type: "one" }, { type: "two" }] };
/** Of a configuration that is no more. */
const former = { cniVersion: "0.4.0", name: "old", plugins: [{ type: "gone" }] };
const kubenetList = {
  cniVersion: "0.4.0",
  name: "kubenet",
  plugins: [{ type: "bridge", ipam: { type: "host-local" } }],
};

interface Traces {
  /** Name of the plugin, as record and container say. */
  readonly setUpBy?: string;
  readonly cached?: { readonly name: string };
  /** Network in which host-local has an address for the pod. */
  readonly address?: string;
}

const byList = ["DEL two", "DEL one"];
const byKubenet = ["DEL portmap", "DEL bridge"];
const rows: readonly (readonly [
  what: string,
  traces: Traces,
  /** With each plugin as the present one, unless they differ. */
  released: readonly string[] | Readonly<Record<(typeof present)[number], readonly string[]>>,
])[] = [
  ["no-op", { setUpBy: noop }, []],
  ["cni, with its result", { setUpBy: "cni", cached: former }, ["DEL gone"]],
  ["cni, whose result is lost", { setUpBy: "cni" }, byList],
  ["kubenet, with its result", { setUpBy: "kubenet", cached: kubenetList }, ["DEL bridge"]],
  ["kubenet, whose result is lost", { setUpBy: "kubenet" }, byKubenet],
  ["no-op by a record that is wrong", { setUpBy: noop, cached: former }, ["DEL gone"]],
  ["another program with cni, with its result", { cached: former }, ["DEL gone"]],
  ["another program with kubenet, with its result", { cached: kubenetList }, ["DEL bridge"]],
  ["another program with cni, with its address", { address: "net" }, byList],
  ["another program with kubenet, with its address", { address: "kubenet" }, byKubenet],
  ["another program, without a trace", {}, { "no-op": [], cni: byList, kubenet: byKubenet }],
];

for (const name of present) {
  describe(`${name} is the present plugin: tearDownPod() of a pod of`, () => {
    for (const [what, traces, released] of rows) {
      test(what, async () => {
        await using node = await FakePlugins.create("one", "two", "gone", "bridge", "host-local", "portmap");
        const plugin = await startedPlugin(node, name);
        await leave(node, traces);
        const pod = { namespace: "default", name: "web", sandboxId: id, portMappings: [] };
        await plugin.tearDownPod({ ...pod, setUpBy: traces.setUpBy }, never);
        await plugin.stop();
        assert.deepEqual(await node.order(), "cni" in released ? released[name] : released);
        const networks = new Set((await node.calls()).map(({ stdin }) => stdin["name"]));
        assert.ok(networks.size <= 1, "one network is released");
      });
    }
  });
}

test("podAddresses() of no-op are those of the plugin that has set the pod up", async () => {
  await using node = await FakePlugins.create("one", "two");
  const plugin = await startedPlugin(node, "no-op");
  await leave(node, { cached: former });
  const pod = { namespace: "default", name: "web", sandboxId: id };
  assert.deepEqual(await plugin.podAddresses(pod), ["10.1.2.3"]);
  assert.equal(await plugin.podAddresses({ ...pod, sandboxId: sandboxId("b") }), undefined);
});

/** As after a restart of the program with another flag. */
type Name = (typeof present)[number];
async function startedPlugin({ directory, binDir }: FakePlugins, name: Name): Promise<NetworkPlugin> {
  await mkdir(join(directory, "net.d"));
  await writeFile(join(directory, "net.d", "10-net.conflist"), JSON.stringify(list));
  // Only kubenet needs one to be started.
  const flag = name === "kubenet" ? ["10.1.0.0/24"] : [];
  const node = selection(directory, name, {
    podCidrs: { flag, remembered: [], remember: () => Promise.resolve() },
    start: pluginsAlone(binDir),
    addressDir: join(directory, "networks"),
  });
  const { plugin } = await selectNetworkPlugin(node, recordingLog());
  // No-op would load a kernel module.
  if (name !== "no-op") await plugin.start(never);
  return plugin;
}

async function leave({ directory }: FakePlugins, { cached, address }: Traces): Promise<void> {
  if (cached !== undefined) {
    const entry: CacheEntry = {
      containerId: id,
      ifName: "eth0",
      networkName: cached.name,
      config: JSON.stringify(cached),
      cniArgs: [],
      capabilityArgs: {},
      result: oneAddress,
    };
    await mkdir(join(directory, "cache", "results"), { recursive: true });
    await writeFile(join(directory, "cache", "results", cacheFileName(entry)), formatCacheEntry(entry));
  }
  if (address !== undefined) {
    await mkdir(join(directory, "networks", address), { recursive: true });
    await writeFile(join(directory, "networks", address, "10.1.0.7"), `${id}\r\neth0`);
  }
}

/** The tools of this host are not installed. */
function pluginsAlone(binDir: string): StartProgram {
  return (request, listener) => {
    if (request.program.startsWith(binDir)) return startAsChild(request, listener);
    queueMicrotask(() => {
      listener.failed(Object.assign(new Error("not installed"), { code: "ENOENT" }));
    });
    const nothing = (): void => undefined;
    return { feed: nothing, kill: nothing, leave: nothing };
  };
}
