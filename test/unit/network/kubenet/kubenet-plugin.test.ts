import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KubenetNetworkPlugin, type KubenetParts } from "../../../../src/network/kubenet/kubenet-plugin.js";
import type { PodNetworkRequest } from "../../../../src/shim/ports/network-plugin.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakePlugin } from "../fake-plugin.js";
import { fakeCommands, never } from "../iptables/fake-commands.js";
import { debianPlugins, sourceOf } from "./kubenet-parts.js";
import { pluck } from "../../../support/pluck.js";

const request: PodNetworkRequest = {
  namespace: "default",
  name: "web",
  sandboxId: "id-web",
  uid: "uid",
  netns: "/proc/7/ns/net",
  annotations: {},
  portMappings: [],
};
const udp = { protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "" } as const;

interface Changes extends Partial<Omit<KubenetParts, "pods">> {
  readonly pods?: Parameters<typeof fakePlugin>[0];
  readonly without?: readonly string[];
  readonly forwardDrops?: boolean;
}

const nodeWith = (problem: string | undefined) => {
  const nothing = async (): Promise<undefined> => undefined;
  return { problem, engineFound: nothing, settled: nothing, stop: nothing };
};

async function setUp({ pods = {}, without = [], forwardDrops = false, ...changes }: Changes = {}) {
  const log = recordingLog();
  const run = fakeCommands();
  const journal: string[] = [];
  const plugins = debianPlugins(...without);
  const { source } = sourceOf(plugins, log);
  const note = (line: string) => async (): Promise<void> => void journal.push(line);
  const inner = fakePlugin({
    start: () => source.start(),
    setUpPod: async () => {
      journal.push(`ADD ${pluck(source.state().network?.plugins ?? [], "type").join(" ")}`);
      return ["10.1.0.2"];
    },
    tearDownPod: note("DEL"),
    ...pods,
  });
  // Only what the plugin uses of them.
  const parts = {
    reason: "for a test",
    source,
    hairpinMode: "hairpin-veth",
    run,
    log,
    podCidrs: ["10.1.0.0/16"],
    pods: { ...inner, stop: () => source.stop() },
    node: nodeWith(undefined),
    rules: { ensureForwarding: async () => forwardDrops },
    dedup: { ensure: note("dedup") },
    legacyHostPorts: { present: true, remove: note("remove legacy ports") },
    legacyShaping: { present: false, release: async () => undefined },
    conntrack: { forgetBefore: note("forget before"), forgetPod: note("forget pod") },
    freeAddresses: async () => false,
    ...changes,
  } as unknown as KubenetParts;
  const plugin = new KubenetNetworkPlugin(parts);
  await plugin.start(never);
  journal.length = 0;
  return { plugin, journal, log, run, stop: () => plugin.stop() };
}

describe("KubenetNetworkPlugin", () => {
  test("sets a pod up: plugins, then the flows that began before", async () => {
    const { plugin, journal, run, stop } = await setUp();
    assert.deepEqual(await plugin.setUpPod(request, never), ["10.1.0.2"]);
    assert.deepEqual(journal, ["ADD bridge portmap bandwidth", "forget before"]);
    assert.ok(!run.lines().some((line) => line.startsWith("nsenter")));
    await stop();
  });

  test("adds the firewall plugin while FORWARD drops, and prepares the namespace for IPv6", async () => {
    const { plugin, journal, run, stop } = await setUp({
      forwardDrops: true,
      podCidrs: ["10.1.0.0/16", "fd00::/64"],
    });
    await plugin.setUpPod(request, never);
    assert.equal(journal[0], "ADD bridge portmap bandwidth firewall");
    assert.ok(run.lines().some((line) => line.startsWith("nsenter --net=/proc/7/ns/net -- sysctl")));
    await stop();
  });

  test("keeps a promiscuous bridge from doubling packets", async () => {
    const { plugin, journal, stop } = await setUp({ hairpinMode: "promiscuous-bridge" });
    await plugin.setUpPod(request, never);
    assert.ok(journal.includes("dedup"));
    await stop();
  });

  for (const [plugin, change] of [
    ["portmap", { portMappings: [udp] }],
    ["bandwidth", { annotations: { "kubernetes.io/ingress-bandwidth": "1M" } }],
  ] as const) {
    test(`refuses a pod that needs ${plugin} on a node without, and no other`, async () => {
      const { plugin: kubenet, stop } = await setUp({ without: [plugin] });
      const message = new RegExp(`need the CNI plugin "${plugin}"`);
      await assert.rejects(kubenet.setUpPod({ ...request, ...change }, never), {
        kind: "unavailable",
        message,
      });
      await kubenet.setUpPod(request, never);
      await stop();
    });
  }

  test("tears down host ports of dockershim and its own; a failure of one does not stop the other", async () => {
    const { plugin, journal, stop } = await setUp();
    await plugin.tearDownPod({ ...request, portMappings: [udp] }, never);
    assert.deepEqual(journal, ["remove legacy ports", "DEL", "forget pod"]);
    await stop();

    const remove = (): Promise<never> => Promise.reject(new ShimError("unknown", "iptables failed"));
    const legacyHostPorts = { present: true, remove } as unknown as KubenetParts["legacyHostPorts"];
    const failing = await setUp({ legacyHostPorts });
    await assert.rejects(failing.plugin.tearDownPod(request, never), { message: "iptables failed" });
    assert.deepEqual(failing.journal, ["DEL"]);
    await failing.stop();
  });

  test("releases dockershim's bandwidth limits of a pod's address, at its end and before the next pod has it", async () => {
    const released: (readonly string[])[] = [];
    const legacyShaping = {
      present: true,
      release: async (addresses: readonly string[]) => void released.push(addresses),
    };
    const asked: unknown[] = [];
    const podAddresses = async (question: { look?: () => unknown }): Promise<readonly string[]> => {
      asked.push(question.look?.());
      return ["10.1.0.9"];
    };
    const { plugin, stop } = await setUp({ legacyShaping, pods: { podAddresses } });
    await plugin.tearDownPod({ ...request, netnsIdentity: "4:5" }, never);
    assert.deepEqual(asked, [{ netns: "/proc/7/ns/net", netnsIdentity: "4:5" }]);
    await plugin.setUpPod(request, never);
    assert.deepEqual(released, [["10.1.0.9"], ["10.1.0.2"]]);
    await stop();
  });

  test("frees leaked addresses when the pool is full, and tries once more", async () => {
    for (const freed of [true, false]) {
      let tries = 0;
      const full = new ShimError("unknown", "failed to allocate for range 0: no IP addresses available");
      const setUpPod = async (): Promise<string[]> => {
        if ((tries += 1) === 1) throw full;
        return ["10.1.0.9"];
      };
      const { plugin, stop } = await setUp({ freeAddresses: async () => freed, pods: { setUpPod } });
      if (freed) assert.deepEqual(await plugin.setUpPod(request, never), ["10.1.0.9"]);
      else await assert.rejects(plugin.setUpPod(request, never), /no IP addresses available/);
      assert.equal(tries, freed ? 2 : 1);
      await stop();
    }
  });

  test("asks for leaked addresses with the sandboxes that are being set up, itself among them", async () => {
    const asked: (readonly string[])[] = [];
    let waiting: (() => void) | undefined;
    const { plugin, stop } = await setUp({
      freeAddresses: async (settingUp) => {
        asked.push([...settingUp]);
        return false;
      },
      pods: {
        setUpPod: async ({ sandboxId }) => {
          if (sandboxId === "id-slow") await new Promise<void>((resolve) => (waiting = resolve));
          else throw new ShimError("unknown", "no IP addresses available");
          return ["10.1.0.3"];
        },
      },
    });
    const slow = plugin.setUpPod({ ...request, sandboxId: "id-slow" }, never);
    await assert.rejects(plugin.setUpPod(request, never), /no IP addresses/);
    waiting?.();
    await slow;
    await assert.rejects(plugin.setUpPod(request, never), /no IP addresses/);
    assert.deepEqual(asked, [["id-slow", "id-web"], ["id-web"]]);
    await stop();
  });

  test("is not ready while the node is not, with its reason before that of a missing pod CIDR", async () => {
    const problem = "kubenet cannot write its rules: no nat";
    const { plugin, stop } = await setUp({ node: nodeWith(problem), podCidrs: [] });
    assert.equal(plugin.notReadyReason(), problem);
    await assert.rejects(plugin.setUpPod(request, never), { kind: "unavailable" });
    await stop();
  });
});
