/** kubenet with the real plugins and the real packet filter. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  createKubenetPlugin,
  type KubenetPluginOptions,
} from "../../src/network/kubenet/create-kubenet-plugin.js";
import type { KubenetNetworkPlugin } from "../../src/network/kubenet/kubenet-plugin.js";
import type { PortMapping } from "../../src/domain/sandbox.js";
import type { PodNetworkRequest } from "../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../fakes/recording-log.js";
import { until } from "../support/wait.js";
import { inNamespaces, pluginDirs } from "../support/isolated-engine.js";
import { answerIn, ask, command, makePod, noTraces, traces, type TestPod } from "./kubenet-support.js";

const never = new AbortController().signal;
const dualStack = ["10.180.0.0/24", "fd00:180::/64"];
/** A host that is no pod: what it sends comes in from outside. */
const outside = "/run/netns/outside";
const node = { ipv4: "192.0.2.1", ipv6: "fd00:99::1" };

async function plugin(changes: Partial<KubenetPluginOptions> = {}): Promise<KubenetNetworkPlugin> {
  const created = createKubenetPlugin({
    reason: "for a test",
    binDirs: pluginDirs,
    cacheDir: "/var/lib/cni/cache",
    log: recordingLog(),
    podCidrs: dualStack,
    mtuBytes: 0,
    hairpinMode: "hairpin-veth",
    nonMasqueradeCidr: "10.0.0.0/8",
    ...changes,
  });
  await created.start(never);
  await created.engineFound({ local: true });
  return created;
}

function requestOf(pod: TestPod, changes: Partial<PodNetworkRequest> = {}): PodNetworkRequest {
  const { sandboxId, namespace, name, uid, netns } = pod;
  return { sandboxId, namespace, name, uid, netns, annotations: {}, portMappings: [], ...changes };
}

function port(protocol: PortMapping["protocol"], hostPort: number, hostIp = ""): PortMapping {
  return { protocol, containerPort: 8080, hostPort, hostIp };
}

/** Every target answers, over TCP and UDP, and once. */
async function reaches(from: TestPod | undefined, ...targets: readonly string[]): Promise<void> {
  for (const host of targets) {
    for (const protocol of ["tcp", "udp"] as const) {
      // For a second or two after its birth the bridge does not use its IPv6 address.
      const answer = await until(`an answer from ${host}`, async () => {
        const text = await ask(from?.netns, { protocol, host, port: 8080 });
        return text === "" ? undefined : text;
      });
      assert.equal(answer, "hello", `${protocol} ${host} from ${from?.name ?? "the node"}`);
    }
  }
}

await inNamespaces(import.meta.url, ["tc", "ebtables", "conntrack", "sysctl"], () => {
  const servers: Disposable[] = [];
  after(() => {
    for (const server of servers) server[Symbol.dispose]();
  });
  before(async () => {
    await command("ip", "netns", "add", "outside");
    await command(
      "ip",
      "link",
      "add",
      "uplink",
      "mtu",
      "1400",
      "type",
      "veth",
      "peer",
      "name",
      "eth0",
      "netns",
      "outside",
    );
    const inOutside = ["ip", "netns", "exec", "outside"] as const;
    for (const [words, link, four, six] of [
      [[], "uplink", node.ipv4, node.ipv6],
      [inOutside, "eth0", "192.0.2.2", "fd00:99::2"],
    ] as const) {
      const ip = (...rest: string[]): Promise<string> => {
        const [program = "ip", ...further] = [...words, "ip", ...rest];
        return command(program, ...further);
      };
      await ip("address", "add", `${four}/24`, "dev", link);
      await ip("address", "add", `${six}/64`, "dev", link, "nodad");
      await ip("link", "set", link, "up");
    }
    for (const netns of [outside, "/proc/self/ns/net"]) {
      servers.push(await answerIn(netns, { port: 8080, text: "hello" }));
    }
    // As Docker leaves a host.
    for (const program of ["iptables", "ip6tables"]) await command(program, "-P", "FORWARD", "DROP");
  });

  describe("kubenet", () => {
    let kubenet: KubenetNetworkPlugin;
    before(async () => {
      kubenet = await plugin({ podCidrs: [] });
    });
    after(() => kubenet.stop());

    test("is not ready until the kubelet tells the pod CIDR, and says why", async () => {
      await using pod = await makePod("early");
      const reason = "kubenet does not have netConfig. This is most likely due to lack of PodCIDR";
      assert.equal(kubenet.notReadyReason(), reason);
      await assert.rejects(kubenet.setUpPod(requestOf(pod), never), {
        kind: "unavailable",
        message: `kubenet cannot SetUpPod: ${reason}`,
      });
      await kubenet.tearDownPod(requestOf(pod), never);
      await kubenet.podCidrChanged(["10.180.0.77/24,fd00:180::7/64"]);
      assert.equal(kubenet.notReadyReason(), undefined);
      assert.deepEqual(kubenet.describe()["podCidrs"], dualStack);
    });

    test("has dockershim's masquerade rule once, also when another program wrote it", async () => {
      const again = await plugin();
      await again.stop();
      const rules = await command("iptables-save", "-t", "nat");
      const text = `-A POSTROUTING ! -d 10.0.0.0/8 -m comment --comment "kubenet: SNAT for outbound traffic from cluster" -m addrtype ! --dst-type LOCAL -j MASQUERADE`;
      assert.equal(rules.split("\n").filter((line) => line === text).length, 1, rules);
    });

    test("gives pods both families, the node's MTU, and ways to each other, the host and outside", async () => {
      await using one = await makePod("one");
      await using two = await makePod("two");
      const addresses = [];
      for (const pod of [one, two]) {
        const given = await kubenet.setUpPod(requestOf(pod), never);
        assert.deepEqual(await kubenet.podAddresses(requestOf(pod)), given);
        addresses.push(given ?? []);
      }
      assert.match(addresses[0]?.join(" ") ?? "", /^10\.180\.0\.\d+ fd00:180::\w+$/);
      using _one = await answerIn(one.netns, { port: 8080, text: "hello" });
      using _two = await answerIn(two.netns, { port: 8080, text: "hello" });
      const others = ["10.180.0.1", "fd00:180::1", node.ipv4, node.ipv6, "192.0.2.2"];
      await reaches(one, ...(addresses[1] ?? []), ...others);
      await reaches(undefined, ...(addresses[0] ?? []));
      assert.match(await one.exec("ip", "link", "show", "eth0"), /mtu 1400/);
      // No second of "tentative", in which nothing can be bound to the address.
      assert.doesNotMatch(
        await one.exec("ip", "address", "show", "dev", "eth0"),
        /inet6 fd00\S+ .*tentative/,
      );
      // Interfaces that are added later can have IPv6, too.
      assert.equal(await one.exec("sysctl", "-n", "net.ipv6.conf.default.disable_ipv6"), "0\n");
      for (const pod of [one, two]) await kubenet.tearDownPod(requestOf(pod), never);
      assert.deepEqual(await traces(), noTraces);
    });

    test("a UDP caller that began before the pod and stayed after its end does not go nowhere", async () => {
      const mapping = { portMappings: [port("udp", 18053)] };
      const flows = (): Promise<string> =>
        command("conntrack", "-L", "-p", "udp", "--orig-port-dst", "18053");
      await ask(outside, { protocol: "udp", host: node.ipv4, port: 18053 });
      await using pod = await makePod("dns");
      const [address = ""] = (await kubenet.setUpPod(requestOf(pod, mapping), never)) ?? [];
      assert.equal(await flows(), "");
      using _server = await answerIn(pod.netns, { port: 8080, text: "hello" });
      assert.equal(await ask(outside, { protocol: "udp", host: node.ipv4, port: 18053 }), "hello");
      assert.ok((await flows()).includes(address));
      await kubenet.tearDownPod(requestOf(pod, mapping), never);
      assert.equal(await flows(), "");
    });

    test("tears down after a restart, with the namespace gone, and as often as it is asked to", async () => {
      const mapping = { portMappings: [port("tcp", 18100), port("udp", 18101)] };
      const requests = [];
      for (const name of ["a", "b"]) {
        await using pod = await makePod(name);
        const { portMappings: all } = mapping;
        const own = all.map((each) => ({ ...each, hostPort: each.hostPort + (name === "a" ? 0 : 10) }));
        requests.push(requestOf(pod, { portMappings: own }));
        await kubenet.setUpPod(requests.at(-1)!, never);
      }
      const restarted = await plugin({ podCidrs: [] });
      for (const { namespace, name, sandboxId, portMappings } of [...requests, ...requests]) {
        await restarted.tearDownPod({ namespace, name, sandboxId, portMappings }, never);
      }
      await restarted.stop();
      assert.deepEqual(await traces(), noTraces);
    });
  });

  test("a full pool of leaked addresses is emptied, and another pod CIDR than before gets a gateway", async () => {
    const livingIds = new Set<string>();
    const ownIds = new Set<string>();
    const knownSandboxes = async () => ({ livingIds, ownIds });
    const kubenet = await plugin({ podCidrs: ["10.180.1.0/29"], knownSandboxes });
    // Five addresses beside network, gateway and broadcast, and no tear-down ever.
    for (let count = 0; count < 5; count += 1) {
      await using pod = await makePod(`lost-${String(count)}`);
      ownIds.add(pod.sandboxId);
      await kubenet.setUpPod(requestOf(pod), never);
    }
    assert.equal((await traces()).addresses.length, 5);
    await using pod = await makePod("lucky");
    for (const ids of [livingIds, ownIds]) ids.add(pod.sandboxId);
    const addresses = await kubenet.setUpPod(requestOf(pod), never);
    assert.equal(addresses?.length, 1);
    assert.deepEqual((await traces()).addresses, addresses);
    assert.equal((await traces()).cacheFiles.length, 1);
    await reaches(pod, "10.180.1.1");
    assert.doesNotMatch(await command("ip", "-4", "address", "show", "dev", "cbr0"), /10\.180\.0\.1/);
    await kubenet.tearDownPod(requestOf(pod), never);
    await kubenet.stop();
    assert.deepEqual(await traces(), noTraces);
  });

  test("a promiscuous bridge lets a pod reach itself by its host port, with each packet once", async () => {
    // Another test may have left it, without promiscuous mode.
    await command("ip", "link", "delete", "cbr0").catch(() => undefined);
    const kubenet = await plugin({ hairpinMode: "promiscuous-bridge" });
    await using pod = await makePod("self");
    const request = requestOf(pod, { portMappings: [port("tcp", 18200)] });
    await kubenet.setUpPod(request, never);
    assert.match(await command("ip", "-details", "link", "show", "cbr0"), /promiscuity [1-9]/);
    const chain = await command("ebtables", "-t", "filter", "-L", "KUBE-DEDUP");
    assert.match(chain, /--ip-src 10\.180\.0\.1 -j ACCEPT[^]*--ip6-src fd00:180::1(?:\/\S+)? -j ACCEPT/);
    assert.match(chain, /--ip-src 10\.180\.0\.0\/24 -j DROP[^]*--ip6-src fd00:180::\/\S+ -j DROP/);
    using _server = await answerIn(pod.netns, { port: 8080, text: "hello" });
    // From Linux 6.9 or so on, bridges with netfilter lose track of what goes up only for the promiscuous mode.
    await command("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0");
    assert.equal(await ask(pod.netns, { protocol: "tcp", host: node.ipv4, port: 18200 }), "hello");
    await command("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1");
    await reaches(pod, "192.0.2.2", node.ipv4, "10.180.0.1");
    await reaches(undefined, ...((await kubenet.podAddresses(request)) ?? []));

    // A second pod, and a second program, do not write them again.
    await kubenet.tearDownPod(request, never);
    await kubenet.setUpPod(request, never);
    const output = await command("ebtables", "-t", "filter", "-L", "OUTPUT");
    assert.equal(output.match(/KUBE-DEDUP/g)?.length, 1);
    await kubenet.tearDownPod(request, never);
    await kubenet.stop();
    assert.deepEqual(await traces(), noTraces);
  });
});
