import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import { describe, test } from "node:test";
import { HeldNamespaces } from "../../../../src/lib/linux/held-namespaces.js";
import { KernelNamespaces, type NamespaceLook } from "../../../../src/lib/linux/network-namespaces.js";

/** Only root can make namespaces: this program's own one stands for that of a pod, until the pod's process ends. */
class PodOnTheNode extends KernelNamespaces {
  isAlive = true;

  override look(path: string): NamespaceLook | undefined {
    const found = path === netns && !this.isAlive ? undefined : super.look(path);
    return found && { ...found, own: false };
  }
}

const netns = "/proc/self/ns/net";
const id = "a".repeat(64);

describe("hold()", () => {
  test("keeps a namespace and its identity at a path that outlives the pod's process, until release()", () => {
    const kernel = new PodOnTheNode();
    const namespaces = new HeldNamespaces(kernel);
    const { identity: netnsIdentity = "" } = namespaces.look(netns) ?? {};
    const held = namespaces.hold(id, { netns, netnsIdentity }) ?? assert.fail("not held");
    kernel.isAlive = false;
    assert.equal(namespaces.look(netns), undefined);
    assert.deepEqual(namespaces.look(held.netns), { identity: netnsIdentity, own: false });
    assert.equal(statSync(held.netns).ino, statSync(netns).ino);
    assert.deepEqual(namespaces.hold(id, {}), held, "the next attempt has the same one");
    namespaces.release(id);
    assert.equal(existsSync(held.netns), false);
    assert.equal(namespaces.hold(id, { netns, netnsIdentity }), undefined);
    namespaces.release(id);
  });

  test("lets the namespace go that was held longest ago, so that pods whose DEL fails for ever cost no more", () => {
    const namespaces = new HeldNamespaces(new PodOnTheNode(), 2);
    const hold = (letter: string) => namespaces.hold(letter, { netns }) ?? assert.fail("not held");
    const [first, second] = [hold("a"), hold("b")];
    hold("a");
    hold("c");
    assert.deepEqual([existsSync(first.netns), namespaces.look(second.netns)], [true, undefined]);
    for (const letter of ["a", "b", "c"]) namespaces.release(letter);
  });

  const identity = new KernelNamespaces().look(netns)?.identity;
  for (const [what, given] of [
    ["is given", {}],
    ["is there", { netns: "/proc/4194304/ns/net", netnsIdentity: identity }],
    ["of that identity is there", { netns, netnsIdentity: `${identity} of another pod` }],
    ["is at the path", { netns: "/etc/hostname", netnsIdentity: identity }],
  ] as const) {
    test(`holds nothing when no namespace ${what}`, () => {
      const namespaces = new HeldNamespaces(new PodOnTheNode());
      assert.equal(namespaces.hold(id, given), undefined);
    });
  }

  test("holds no namespace of the node", () => {
    assert.equal(new HeldNamespaces().hold(id, { netns, netnsIdentity: identity }), undefined);
  });
});
