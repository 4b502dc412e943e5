/** What goes over pod networks, through the CRI with real plugins: pods, the node, hosts beside it, host ports, limits. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, isIP } from "node:net";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Protocol } from "../../src/domain/cri.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import { serveIn } from "../support/serve-in.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { answerIn, ask, command } from "./kubenet-support.js";
import { netnsOf, NetworkNode, subnets, type PluginName } from "./pod-network-support.js";

const plugins: readonly PluginName[] = ["cni", "kubenet"];
/** A host that is no pod: what it sends comes in from outside. */
const outside = "/run/netns/outside";
const node = { ipv4: "192.0.2.1", ipv6: "fd00:99::1" };
const host = { ipv4: "192.0.2.2", ipv6: "fd00:99::2" };
const containerPort = 8080;
/** A multiple of what is written at once. */
const transferBytes = 300 << 20;
const limitBitsPerSecond = 100_000_000;
/** So much passes at once, as with dockershim. */
const burstBits = 2 ** 31 - 1;

interface Target {
  readonly host: string;
  readonly tcp: number;
  readonly udp: number;
}

await withOwnEngine(import.meta.url, ["conntrack", "ebtables", "sysctl"], () => {
  const servers: AsyncDisposable[] = [];
  before(async () => {
    await command("ip", "netns", "add", "outside");
    const ends = ["link", "add", "uplink", "type", "veth", "peer", "name", "eth0", "netns", "outside"];
    await command("ip", ...ends);
    for (const [link, place, { ipv4, ipv6 }] of [
      ["uplink", [], node],
      ["eth0", ["-netns", "outside"], host],
    ] as const) {
      await command("ip", ...place, "address", "add", `${ipv4}/24`, "dev", link);
      await command("ip", ...place, "address", "add", `${ipv6}/64`, "dev", link, "nodad");
      await command("ip", ...place, "link", "set", link, "up");
    }
    servers.push(await answerIn(outside, { port: containerPort, text: "outside" }));
    servers.push(await answerIn("/proc/self/ns/net", { port: containerPort, text: "node" }));
  });
  after(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
    await command("ip", "link", "delete", "uplink");
    await command("ip", "netns", "delete", "outside");
  });

  for (const plugin of plugins) {
    describe(plugin, () => {
      const own = NetworkNode.ofSuite(plugin);
      before(async () => {
        // Docker forbids forwarding but for its own networks; kubenet allows it for its pods, CNI leaves it to the node.
        if (plugin === "cni") await command("iptables", "-I", "DOCKER-USER", "-o", "cni0", "-j", "ACCEPT");
        own.clean = await own.holdings();
      });

      test("the status has an address of each family from the pods' networks, and none after the stop", async () => {
        await using pod = await own.runPod();
        const [first = "", second = "", ...others] = await addressesOf(pod);
        assert.deepEqual([isIP(first), isIP(second), others], [4, 6, []]);
        const { ipv4, ipv6 } = subnets[plugin];
        assert.ok(first.startsWith(`${ipv4}.`) && second.startsWith(ipv6), `${first} ${second}`);
        const inside = await inPod(pod, "ip", "-oneline", "address", "show", "dev", "eth0");
        for (const address of [first, second]) assert.ok(inside.includes(` ${address}/`), inside);
        await pod.stop();
        assert.deepEqual(await addressesOf(pod), [""]);
      });

      test("pods, the node and hosts beside it reach pods by their addresses, and pods reach them", async () => {
        await using one = await own.runPod();
        await using two = await own.runPod();
        await using _one = await serve(one, "one");
        await using _two = await serve(two, "two");
        const direct = { tcp: containerPort, udp: containerPort };
        for (const address of await addressesOf(one)) {
          for (const from of [await netnsOf(two.id), await netnsOf(one.id), undefined]) {
            await answers(from, { host: address, ...direct }, "one");
          }
        }
        for (const address of await addressesOf(two)) {
          await answers(await netnsOf(one.id), { host: address, ...direct }, "two");
        }
        for (const address of Object.values(node)) {
          await answers(await netnsOf(one.id), { host: address, ...direct }, "node");
        }
        // Hosts outside have no route to a pod: it takes the masquerade rule.
        await answers(await netnsOf(one.id), { host: host.ipv4, ...direct }, "outside");
      });

      test("a host port answers over TCP and UDP, IPv4 and IPv6, to everybody, until the pod is stopped", async () => {
        await using pod = await own.runPod();
        await using other = await own.runPod();
        await using _server = await serve(pod, "pod");
        const ports = hostPorts(pod);
        for (const address of Object.values(node)) {
          for (const from of [outside, await netnsOf(other.id)]) {
            await answers(from, { host: address, ...ports }, "pod");
          }
        }
        for (const address of ["127.0.0.1", node.ipv4, node.ipv6]) {
          await answers(undefined, { host: address, ...ports }, "pod");
        }
        await pod.stop();
        const { tcp, udp } = ports;
        assert.equal(await ask(outside, { protocol: "tcp", host: node.ipv4, port: tcp }), "");
        assert.equal(await ask(outside, { protocol: "udp", host: node.ipv6, port: udp }), "");
      });

      // The same plugins do it for both.
      const ofCni = { skip: !long && plugin !== "cni" && "only with --long" };
      test("a host port is the next pod's at once, also for a UDP flow that goes on", ofCni, async () => {
        const config = own.podConfig();
        const port_mappings = config.port_mappings ?? [];
        await using first = await own.runPod({ port_mappings });
        await using server = await serve(first, "first");
        const ports = hostPorts(first);
        const flow = (): Promise<string> => sendFrom(40_000, { host: node.ipv4, port: ports.udp });
        await until("an answer", async () => (await flow()) === "first");
        await server[Symbol.asyncDispose]();
        await first.stop();
        await using second = await own.runPod({ port_mappings });
        await using _server = await serve(second, "second");
        await answers(outside, { host: node.ipv4, ...ports }, "second");
        assert.equal(await flow(), "second");
      });

      test("a pod reaches itself through its host port", ofCni, async () => {
        await using pod = await own.runPod();
        await using _server = await serve(pod, "self");
        const netns = await netnsOf(pod.id);
        for (const address of Object.values(node)) {
          await answers(netns, { host: address, ...hostPorts(pod) }, "self");
        }
      });

      test("a host port with an address is open on that address only", ofCni, async () => {
        const port_mappings = [
          { protocol: Protocol.TCP, container_port: containerPort, host_port: 31_000, host_ip: node.ipv4 },
        ];
        await using pod = await own.runPod({ port_mappings });
        await using _server = await serve(pod, "pod");
        await until("an answer", async () => {
          return (await ask(outside, { protocol: "tcp", host: node.ipv4, port: 31_000 })) === "pod";
        });
        assert.equal(await ask(outside, { protocol: "tcp", host: node.ipv6, port: 31_000 }), "");
        assert.equal(await ask(undefined, { protocol: "tcp", host: "127.0.0.1", port: 31_000 }), "");
      });

      test(
        "a host port over SCTP has its rules to the pod in both families, until the pod is stopped",
        ofCni,
        async () => {
          // Rules and not traffic: not every kernel speaks SCTP.
          const port_mappings = [
            { protocol: Protocol.SCTP, container_port: containerPort, host_port: 31_132 },
          ];
          const rulesTo = async (address: string): Promise<readonly string[]> =>
            (await command(isIP(address) === 6 ? "ip6tables-save" : "iptables-save", "-t", "nat"))
              .split("\n")
              .filter((line) => /-p sctp .*--dport 31132 .*-j DNAT/.test(line) && line.includes(address));
          await using pod = await own.runPod({ port_mappings });
          const addresses = await addressesOf(pod);
          assert.equal(addresses.length, 2);
          for (const address of addresses) assert.equal((await rulesTo(address)).length, 1, address);
          await pod.stop();
          for (const address of addresses) assert.deepEqual(await rulesTo(address), []);
        },
      );

      test(
        "a host port that a pod has is refused to the next one, also when only a checkpoint tells of the first",
        ofCni,
        async () => {
          const port_mappings = [
            { protocol: Protocol.UDP, container_port: containerPort, host_port: 31_053 },
          ];
          const first = await own.runPod({ port_mappings });
          const { name = "", namespace = "" } = first.config.metadata ?? {};
          const expected = new RegExp(`host port 31053/udp .*taken by pod "${name}_${namespace}"`);
          await assert.rejects(own.runPod({ port_mappings }), expected);
          await own.shim.stop();
          // As of dockershim and cri-dockerd, which leave no record.
          await rm(join(own.shim.stateDirectory, "pods", `${first.id}.json`));
          await own.start();
          await assert.rejects(own.runPod({ port_mappings }), expected);
          await own.stopAndRemove(first.id);
          await using _second = await own.runPod({ port_mappings });
        },
      );

      test("the bandwidth annotations limit what goes in and out", ofCni, async () => {
        // What goes beyond the burst cannot be faster than the limit, however busy the machine; with slack for clocks.
        const leastMs = (0.9 * 1000 * (transferBytes * 8 - burstBits)) / limitBitsPerSecond;
        const limited = async (key: "ingress" | "egress", direction: "in" | "out"): Promise<void> => {
          const annotations = { [`kubernetes.io/${key}-bandwidth`]: `${limitBitsPerSecond / 1e6}M` };
          await using pod = await own.runPod({ annotations });
          const tookMs = await transferMs(pod, direction);
          assert.ok(tookMs >= leastMs, `${key}: ${tookMs} ms, ${leastMs} at least with the limit`);
        };
        await Promise.all([limited("ingress", "in"), limited("egress", "out")]);
      });

      const ofKubenet = { skip: plugin !== "kubenet" && "CNI plugins have their own setting" };
      test(
        "a promiscuous bridge lets a pod reach itself by its host port, with each packet once",
        ofKubenet,
        async () => {
          await command("ip", "link", "delete", "cbr0");
          await own.restart({ flags: [...own.flags, "--hairpin-mode=promiscuous-bridge"] });
          await using pod = await own.runPod();
          assert.match(await command("ip", "-details", "link", "show", "cbr0"), /promiscuity [1-9]/);
          const chain = await command("ebtables", "-t", "filter", "-L", "KUBE-DEDUP");
          assert.match(
            chain,
            /--ip-src 10\.182\.0\.1 -j ACCEPT[^]*--ip6-src fd00:182::1(?:\/\S+)? -j ACCEPT/,
          );
          assert.match(chain, /--ip-src 10\.182\.0\.0\/24 -j DROP[^]*--ip6-src fd00:182::\/\S+ -j DROP/);
          await using _server = await serve(pod, "self");
          const netns = await netnsOf(pod.id);
          // From Linux 6.9 or so on, bridges with netfilter lose track of what goes up only for the promiscuous mode.
          await command("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0");
          try {
            const port = hostPorts(pod).tcp;
            assert.equal(await ask(netns, { protocol: "tcp", host: node.ipv4, port }), "self");
          } finally {
            await command("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1");
          }
          // Something that doubles packets would give the answer twice.
          const [address = ""] = await addressesOf(pod);
          await answers(undefined, { host: address, tcp: containerPort, udp: containerPort }, "self");
          // A second pod does not write them again.
          await using _second = await own.runPod();
          const output = await command("ebtables", "-t", "filter", "-L", "OUTPUT");
          assert.equal(output.match(/KUBE-DEDUP/g)?.length, 1);
        },
      );

      test("nothing is left of all these pods", () => own.assertClean());
    });
  }
});

async function addressesOf(pod: Pod): Promise<readonly string[]> {
  const { network } = await pod.status();
  return [network?.ip ?? "", ...(network?.additional_ips ?? []).map(({ ip }) => ip)];
}

async function inPod(pod: Pod, ...words: readonly string[]): Promise<string> {
  return command("nsenter", `--net=${await netnsOf(pod.id)}`, "--", ...words);
}

async function serve(pod: Pod, text: string): Promise<AsyncDisposable> {
  return answerIn(await netnsOf(pod.id), { port: containerPort, text });
}

function hostPorts({ config }: Pod): { readonly tcp: number; readonly udp: number } {
  const of = (wanted: Protocol): number =>
    config.port_mappings?.find(({ protocol }) => protocol === wanted)?.host_port ?? 0;
  return { tcp: of(Protocol.TCP), udp: of(Protocol.UDP) };
}

/** The target answers `text` over TCP and UDP to a caller in that namespace; undefined: this one. */
async function answers(from: string | undefined, target: Target, text: string): Promise<void> {
  for (const protocol of ["tcp", "udp"] as const) {
    const what = `${protocol} ${target.host} from ${from ?? "the node"}`;
    // For a second or two after its birth the bridge does not use its IPv6 address.
    const answer = await until(`an answer: ${what}`, async () => {
      return (await ask(from, { protocol, host: target.host, port: target[protocol] })) || undefined;
    });
    assert.equal(answer, text, what);
  }
}

/** A datagram from the host outside, always from the same port: one flow for the node. */
async function sendFrom(
  port: number,
  target: { readonly host: string; readonly port: number },
): Promise<string> {
  const program = `
    const socket = require("dgram").createSocket({ type: "udp4", reuseAddr: true });
    const end = (text) => { process.stdout.write(text); process.exit(0); };
    socket.on("message", (data) => end(String(data))).on("error", () => end(""));
    socket.bind(${String(port)}, () => socket.send("?", ${String(target.port)}, ${JSON.stringify(target.host)}));
    setTimeout(end, 3000, "");
  `;
  return command("nsenter", `--net=${outside}`, "--", process.execPath, "-e", program);
}

/** Milliseconds that it takes to get that many bytes into the pod, or out of it. */
async function transferMs(pod: Pod, direction: "in" | "out"): Promise<number> {
  const program = `
    const chunk = Buffer.alloc(1 << 20), total = ${String(transferBytes)};
    require("net").createServer((socket) => {
      socket.on("error", () => {});
      let left = total;
      if (${String(direction === "in")}) socket.on("data", (data) => { if ((left -= data.length) <= 0) socket.end("!"); });
      else {
        const more = () => { while (left > 0) { left -= chunk.length; if (!socket.write(chunk)) return; } socket.end(); };
        socket.on("drain", more);
        more();
      }
    }).listen(9000, "0.0.0.0", () => console.log("ready"));
  `;
  await using _server = await serveIn(await netnsOf(pod.id), program);
  const begin = performance.now();
  const socket = connect(9000, await pod.ip());
  socket.resume();
  if (direction === "in") {
    const chunk = Buffer.alloc(1 << 20);
    for (let left = transferBytes; left > 0; left -= chunk.length) {
      if (!socket.write(chunk)) await once(socket, "drain");
    }
  }
  await once(socket, "close");
  return performance.now() - begin;
}
