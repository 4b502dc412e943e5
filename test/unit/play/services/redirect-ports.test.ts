import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import {
  localIpv4,
  localIpv6,
  namespaceSource,
  openNamespace,
} from "../../../../src/play/services/network-namespace.js";
import { redirectPorts, rulesText } from "../../../../src/play/services/redirect-ports.js";

const { signal } = new AbortController();
type Redirect = Parameters<typeof redirectPorts>[1]["redirects"][number];
const redirect = { protocol: "TCP", port: 80, target: 8080 } as const;
const hooks = ["nat PREROUTING", "nat OUTPUT"];

/** Runs the redirects; programs whose words contain an entry of `failing` fail. */
async function calls(
  ips: readonly string[],
  redirects: readonly Redirect[],
  failing: readonly string[],
  ownAddresses: readonly string[] = [],
) {
  const made: string[] = [];
  const opened: unknown[] = [];
  let isOpen = false;
  await redirectPorts(
    { id: "s", ips },
    { redirects, ownAddresses },
    {
      client: { podSandboxInfo: () => Promise.resolve({ info: '{"pid": 42}' }) },
      open: (place, address) => {
        opened.push(place, address);
        isOpen = true;
        const close = () => {
          isOpen = false;
          return Promise.resolve();
        };
        return Promise.resolve({ fd: 7, [Symbol.asyncDispose]: close } as never);
      },
      run: (program, words, descriptor, input?: string) => {
        const text = [program, ...words].join(" ");
        assert.equal(descriptor, 7);
        assert.ok(isOpen);
        made.push(
          `${text.replace("nsenter --net=/proc/self/fd/3 -- ", "")}${input === undefined ? "" : `\n${input}`}`,
        );
        return failing.some((one) => text.includes(one))
          ? Promise.reject(new ShimError("unknown", "exit status 1"))
          : Promise.resolve("");
      },
    },
    signal,
  );
  return { made, opened, isOpen };
}

describe("redirectPorts()", () => {
  test("makes rules for each family in the namespace of the sandbox, and leaves nothing open", async () => {
    const { made, opened, isOpen } = await calls(["10.0.0.1", "fd00::1"], [redirect], ["-C "]);
    const rules = (ip: string): string => rulesText([ip], { redirects: [redirect], ownAddresses: [] }, hooks);
    assert.deepEqual(made, [
      "iptables -t nat -C PREROUTING -j DOCKERSHIM-PLAY",
      "iptables -t nat -C OUTPUT -j DOCKERSHIM-PLAY",
      `iptables-restore --noflush\n${rules("10.0.0.1")}`,
      "ip6tables -t nat -C PREROUTING -j DOCKERSHIM-PLAY",
      "ip6tables -t nat -C OUTPUT -j DOCKERSHIM-PLAY",
      `ip6tables-restore --noflush\n${rules("fd00::1")}`,
    ]);
    assert.deepEqual(opened, [{ pid: 42 }, "10.0.0.1"]);
    assert.equal(isOpen, false);
  });

  test("adds no second jump to the chain, whose rules it replaces", async () => {
    const rules = { redirects: [redirect], ownAddresses: [] };
    const { made } = await calls(["10.0.0.1"], [redirect], []);
    assert.equal(made[2], `iptables-restore --noflush\n${rulesText(["10.0.0.1"], rules, [])}`);
  });

  test("looks for the jump that refuses only for own addresses of Services", async () => {
    const { made } = await calls(["10.0.0.1"], [], ["-C "], ["198.18.0.1"]);
    assert.equal(made[2], "iptables -t filter -C OUTPUT -j DOCKERSHIM-PLAY");
    const text = made[3] ?? "";
    assert.match(text, /-A OUTPUT -j DOCKERSHIM-PLAY\n-A DOCKERSHIM-PLAY -d 198\.18\.0\.1 -j REJECT/);
  });

  test("empties a chain of earlier, and makes none without rules", async () => {
    assert.equal((await calls(["10.0.0.1"], [], [])).made.length, 3);
    assert.equal((await calls(["10.0.0.1"], [], ["-C "])).made.length, 2);
  });

  test("fails when iptables does", async () => {
    await assert.rejects(calls(["10.0.0.1"], [redirect], ["iptables"]), /exit status 1/);
  });

  test("fails when the CRI server tells no process", async () => {
    const client = { podSandboxInfo: () => Promise.resolve({}) };
    await assert.rejects(
      redirectPorts(
        { id: "s", ips: ["10.0.0.1"] },
        { redirects: [redirect], ownAddresses: [] },
        { client },
        signal,
      ),
      /does not report the process of a sandbox/,
    );
  });
});

test("rulesText() changes the port alone, for the pod's own addresses", () =>
  assert.equal(
    rulesText(
      ["10.0.0.1"],
      { redirects: [redirect, { protocol: "UDP", port: 53, target: 5353 }], ownAddresses: [] },
      ["nat OUTPUT"],
    ),
    `*nat
:DOCKERSHIM-PLAY - [0:0]
-A OUTPUT -j DOCKERSHIM-PLAY
-A DOCKERSHIM-PLAY -d 10.0.0.1 -p tcp --dport 80 -j DNAT --to-destination :8080
-A DOCKERSHIM-PLAY -d 10.0.0.1 -p udp --dport 53 -j DNAT --to-destination :5353
COMMIT
`,
  ));

test("rulesText() leads own addresses to pods of their family, and refuses their other ports", () => {
  const to = (address: string, pod: string) => ({ ...redirect, own: { address, pod } });
  const redirects = [to("198.18.0.1", "10.0.0.2"), to("fd73::1", "fd00::2")];
  const ownAddresses = ["198.18.0.1", "fd73::1"];
  const text = (own: string, to: string): string => `*filter
:DOCKERSHIM-PLAY - [0:0]
-A OUTPUT -j DOCKERSHIM-PLAY
-A DOCKERSHIM-PLAY -d ${own} -j REJECT
COMMIT
*nat
:DOCKERSHIM-PLAY - [0:0]
-A DOCKERSHIM-PLAY -d ${own} -p tcp --dport 80 -j DNAT --to-destination ${to}:8080
COMMIT
`;
  const missing = ["filter OUTPUT"];
  assert.equal(rulesText(["10.0.0.1"], { redirects, ownAddresses }, missing), text("198.18.0.1", "10.0.0.2"));
  assert.equal(rulesText(["fd00::1"], { redirects, ownAddresses }, missing), text("fd73::1", "[fd00::2]"));
});

test("namespaceSource() prefers the file of the OCI configuration to the process", () => {
  const namespaces = [{ type: "pid" }, { type: "network", path: "/var/run/netns/cni-1" }];
  const info = { pid: 42, runtimeSpec: { linux: { namespaces } } };
  assert.deepEqual(namespaceSource({ info: JSON.stringify(info) }), { path: "/var/run/netns/cni-1" });
  assert.deepEqual(namespaceSource({ info: '{"pid":42,"runtimeSpec":null}' }), { pid: 42 });
  for (const text of ['{"pid":0}', '{"pid":1}', '{"pid":"42"}', "[]", "null", "no JSON"])
    assert.equal(namespaceSource({ info: text }), undefined, text);
});

test("openNamespace() refuses a process that has not the pod's address", async () => {
  await assert.rejects(openNamespace({ pid: process.pid }, "192.0.2.254"), /is not in the pod's network/);
  await assert.rejects(openNamespace({ path: "/nowhere/net" }, "192.0.2.254"), /ENOENT/);
  await using file = await openNamespace({ pid: process.pid }, "127.0.0.1");
  assert.ok(file.fd > 0);
});

test("localIpv4() takes no routes to other hosts, localIpv6() addresses in any form", () => {
  const text = `Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.0.1
        /32 host LOCAL
     |-- 10.0.0.2
        /32 link UNICAST
     |-- 10.0.0.255
        /32 link BROADCAST
`;
  assert.deepEqual([...localIpv4(text)], ["10.0.0.1"]);
  assert.deepEqual([...localIpv6("fd000000000000000000000000000001 02 40 00 80 eth0\n")], ["[fd00::1]"]);
});
