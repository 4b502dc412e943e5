import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LockedNetworkPlugin } from "../../../src/network/locked-plugin.js";
import { PodCidrs } from "../../../src/network/pod-cidrs.js";
import { ShimError } from "../../../src/lib/errors.js";
import type { NetworkOperationEnded } from "../../../src/shim/ports/observer.js";
import type { PodNetworkRequest } from "../../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { turns } from "../../fakes/turns.js";
import { fakePlugin } from "./fake-plugin.js";

/** Until all work waits for a slow operation. */
const settle = (): Promise<void> => turns(20);

const noAbort = new AbortController().signal;

function request(name: string, sandboxId: string): PodNetworkRequest {
  const pod = { namespace: name === "" ? "" : "default", name, uid: "u", sandboxId };
  return { ...pod, netns: "/proc/1/ns/net", annotations: {}, portMappings: [] };
}

/** A plugin whose set-ups and tear-downs begin as noted in `steps`, and end one by one when told so. */
function slowPlugin(): { plugin: LockedNetworkPlugin; steps: string[]; endFirst: () => Promise<void> } {
  const steps: string[] = [];
  const ends: (() => void)[] = [];
  const work = (step: string): Promise<void> => {
    steps.push(step);
    return new Promise((resolve) => ends.push(resolve));
  };
  const plugin = new LockedNetworkPlugin(
    fakePlugin({
      setUpPod: async ({ sandboxId }) => {
        await work(`up ${sandboxId}`);
        return [sandboxId];
      },
      tearDownPod: ({ sandboxId }) => work(`down ${sandboxId}`),
    }),
  );
  const endFirst = async (): Promise<void> => {
    ends.shift()?.();
    await settle();
  };
  return { plugin, steps, endFirst };
}

describe("LockedNetworkPlugin", () => {
  test("sets a pod's new sandbox up after its old one was torn down", async () => {
    const { plugin, steps, endFirst } = slowPlugin();
    const down = plugin.tearDownPod(request("web", "old"), noAbort);
    const up = plugin.setUpPod(request("web", "new"), noAbort);
    await settle();
    assert.deepEqual(steps, ["down old"]);
    await endFirst();
    assert.deepEqual(steps, ["down old", "up new"]);
    await endFirst();
    await down;
    assert.deepEqual(await up, ["new"]);
  });

  const independent: readonly (readonly [what: string, names: readonly [string, string]])[] = [
    ["different pods", ["web", "db"]],
    ["sandboxes of unknown pods", ["", ""]],
  ];
  for (const [what, [first, second]] of independent) {
    test(`${what} do not wait for each other`, async () => {
      const { plugin, steps, endFirst } = slowPlugin();
      const down = (name: string, id: string) => plugin.tearDownPod(request(name, id), noAbort);
      const both = [down(first, "one"), down(second, "two")];
      await settle();
      assert.deepEqual(steps, ["down one", "down two"]);
      await endFirst();
      await endFirst();
      await Promise.all(both);
    });
  }

  test("a caller that leaves while it waits does not hold up the next one", async () => {
    const { plugin, steps, endFirst } = slowPlugin();
    const stop = new AbortController();
    const first = plugin.setUpPod(request("web", "one"), noAbort);
    const second = plugin.setUpPod(request("web", "two"), stop.signal);
    const third = plugin.tearDownPod(request("web", "three"), noAbort);
    await settle();
    stop.abort(new ShimError("timeout", "too late"));
    await assert.rejects(second, { kind: "timeout" });
    await endFirst();
    assert.deepEqual(steps, ["up one", "down three"]);
    await endFirst();
    await Promise.all([first, third]);
  });

  const failing = (): Promise<never> => Promise.reject(new ShimError("unavailable", "no address left"));
  const plugin = new LockedNetworkPlugin(
    fakePlugin({ start: failing, setUpPod: failing, tearDownPod: failing, podAddresses: failing }),
  );
  const pod = request("web", "one");
  const failed = "networkPlugin fake failed";
  const wordings: readonly (readonly [work: () => Promise<unknown>, message: string])[] = [
    [() => plugin.start(noAbort), 'network plugin "fake" failed init'],
    [() => plugin.setUpPod(pod, noAbort), `${failed} to set up pod "web_default" network`],
    [() => plugin.tearDownPod(pod, noAbort), `${failed} to teardown pod "web_default" network`],
    [() => plugin.podAddresses(pod), `${failed} on the status hook for pod "web_default"`],
  ];
  for (const [work, message] of wordings) {
    test(`fails with: ${message}`, () =>
      assert.rejects(work(), { kind: "unavailable", message: `${message}: no address left` }));
  }
});

test("notReadyReason() names an invalid pod CIDR together with the reason of the plugin, never alone", async () => {
  let reason: string | undefined = "lack of PodCIDR";
  const options = { flag: [], remembered: [], remember: async () => undefined, log: recordingLog() };
  const podCidrs = new PodCidrs(options);
  const plugin = new LockedNetworkPlugin(fakePlugin({ notReadyReason: () => reason }), { podCidrs });
  await plugin.podCidrChanged(["10.1.0.0/33"]);
  assert.match(plugin.notReadyReason() ?? "", /^lack of PodCIDR \(pod CIDR "10\.1\.0\.0\/33": not a network/);
  reason = undefined;
  assert.equal(plugin.notReadyReason(), undefined);
});

test("observe() gets each operation on a pod with its outcome, and its time with the wait for the lock", async (context) => {
  let nowMs = 1000;
  context.mock.method(performance, "now", () => nowMs);
  const seen: NetworkOperationEnded[] = [];
  let endTearDown = (): void => undefined;
  const plugin = new LockedNetworkPlugin(
    fakePlugin({
      tearDownPod: () => new Promise((resolve) => (endTearDown = resolve)),
      podAddresses: () => Promise.reject(new ShimError("unavailable", "no cache")),
    }),
    { observe: (ended) => seen.push(ended) },
  );
  const down = plugin.tearDownPod(request("web", "old"), noAbort);
  const up = plugin.setUpPod(request("web", "new"), noAbort);
  await settle();
  nowMs += 40;
  endTearDown();
  await Promise.all([down, up]);
  await assert.rejects(plugin.podAddresses(request("web", "new")), /no cache/);
  assert.deepEqual(seen, [
    { operation: "tearDownPod", ms: 40, failed: false },
    { operation: "setUpPod", ms: 40, failed: false },
    { operation: "podAddresses", ms: 0, failed: true },
  ]);
});
