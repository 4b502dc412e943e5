import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { bringUpLoopback } from "../../../../src/network/cni/loopback.js";
import { hasLoopbackAddress } from "../../../../src/network/cni/namespace-addresses.js";
import type { NetworkListRunner } from "../../../../src/network/libcni/network-list-runner.js";

const never = new AbortController().signal;

/** As the kernel writes them, of a namespace with `lo` up, and of one with another address only. */
const up = `Local:
  +-- 127.0.0.0/8 2 0 2
     +-- 127.0.0.0/31 1 0 0
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
`;
const other = `Local:
  +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.2
           /32 host LOCAL
        |-- 127.0.0.1
           /32 link BROADCAST
`;

const about = {
  ...{ containerId: "c1", ifName: "eth0", subject: "pod", netnsIdentity: "this" },
  ...{ args: [], capabilityArgs: {} },
};

/** A runner whose plugins, if they are run, are noted. */
function noting(): { readonly runner: NetworkListRunner; readonly ran: string[] } {
  const ran: string[] = [];
  const runner = {
    invoker: {
      namespaces: { look: () => ({ identity: "this", own: false }) },
      find: (type: string) => Promise.resolve(`/plugins/${type}`),
    },
    add: () => Promise.resolve(void ran.push("ADD loopback")),
  };
  return { runner: runner as unknown as NetworkListRunner, ran };
}

describe("lo of a pod", () => {
  test("is up when the kernel lists its address as a local one", () => {
    assert.equal(hasLoopbackAddress(up), true);
    assert.equal(hasLoopbackAddress(other), false);
    assert.equal(hasLoopbackAddress(""), false);
  });

  test("is left to Docker, which brings it up: no plugin runs", async (t) => {
    // The namespace of this test stands for the pod's: with lo down it proves nothing.
    if (!hasLoopbackAddress(readFileSync("/proc/self/net/fib_trie", "utf8"))) {
      t.skip("lo is down here");
      return;
    }
    const { runner, ran } = noting();
    await bringUpLoopback(runner, { ...about, netns: `/proc/${process.pid}/ns/net` }, never);
    assert.deepEqual(ran, []);
  });

  test("is brought up by the plugin where nothing shows that it is up", async () => {
    const { runner, ran } = noting();
    await bringUpLoopback(runner, { ...about, netns: "/run/netns/does-not-exist" }, never);
    assert.deepEqual(ran, ["ADD loopback"]);
  });
});
