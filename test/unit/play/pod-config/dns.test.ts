import assert from "node:assert/strict";
import { test } from "node:test";
import { isLoopbackOnly, parseResolvConf, podDns } from "../../../../src/play/pod-config/dns.js";
import { podWith } from "../fake-cri.js";

const node = { servers: ["192.0.2.1", "192.0.2.2"], searches: ["a.org"], options: ["ndots:1", "rotate"] };

test("parseResolvConf() takes all servers and options, the last search line, and no comments", () => {
  const text =
    "# nameserver 9.9.9.9\nnameserver 192.0.2.1 # first\nsearch x\nsearch a b\noptions ndots:2\noptions edns0\n;x\n";
  assert.deepEqual(parseResolvConf(text), {
    servers: ["192.0.2.1"],
    searches: ["a", "b"],
    options: ["ndots:2", "edns0"],
  });
});

test("isLoopbackOnly() is true for a stub resolver and false without a server", () => {
  const searchless = { searches: [], options: [] };
  assert.equal(isLoopbackOnly({ servers: ["127.0.0.53"], ...searchless }), true);
  assert.equal(isLoopbackOnly({ servers: ["127.0.0.53", "192.0.2.1"], ...searchless }), false);
  assert.equal(isLoopbackOnly({ servers: [], ...searchless }), false);
});

const cases: readonly (readonly [string, object])[] = [
  ["", node],
  ["dnsPolicy: ClusterFirst", node],
  [
    "dnsPolicy: None, dnsConfig: {nameservers: [198.51.100.1]}",
    { servers: ["198.51.100.1"], searches: [], options: [] },
  ],
  [
    "dnsConfig: {nameservers: [192.0.2.2, 198.51.100.1, 198.51.100.2], searches: [b.org, a.org], options: [{name: ndots, value: '5'}, {name: edns0}]}",
    {
      servers: ["192.0.2.1", "192.0.2.2", "198.51.100.1"],
      searches: ["a.org", "b.org"],
      options: ["rotate", "ndots:5", "edns0"],
    },
  ],
];
test("podDns() leaves the servers of an unknown node to the engine", async () => {
  const { spec } = (await podWith("  containers: [{name: c, image: x}]")).pod;
  assert.equal(podDns(spec, undefined), null);
});

for (const [lines, expected] of cases)
  test(`podDns() of a pod with ${lines === "" ? "nothing" : lines}`, async () => {
    const spec = `  ${lines.replace(", dnsConfig", "\n  dnsConfig")}\n  containers: [{name: c, image: x}]`;
    assert.deepEqual(podDns((await podWith(spec)).pod.spec, node), expected);
  });
