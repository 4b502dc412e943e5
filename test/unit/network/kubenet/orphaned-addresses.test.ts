import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  freeLeakedAddresses,
  type ReadKnownSandboxes,
} from "../../../../src/network/kubenet/orphaned-addresses.js";
import type { PluginCall } from "../../../../src/network/libcni/invoke-plugin.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { never } from "../iptables/fake-commands.js";
import { pluck } from "../../../support/pluck.js";

const id = (letter: string): string => letter.repeat(64);

async function setUp(path: string, addresses: Readonly<Record<string, string>>) {
  const directory = join(path, "kubenet");
  await mkdir(directory);
  for (const [address, owner] of Object.entries(addresses)) {
    await writeFile(join(directory, address), `${owner}\r\neth0`);
  }
  const tornDown: string[] = [];
  const calls: PluginCall[] = [];
  const locks: string[] = [];
  const log = recordingLog();
  const options = {
    pods: {
      tearDownPod: async ({ sandboxId }: { sandboxId: string }) => {
        tornDown.push(sandboxId);
        if (sandboxId === id("e")) throw new Error("no configuration");
      },
    },
    tools: {
      attachments: {
        alone: (containerId: string, _signal: AbortSignal, work: () => Promise<void>) => (
          locks.push(containerId),
          work()
        ),
      },
      invoker: { run: async (call: PluginCall) => (calls.push(call), "") },
    } as unknown as Parameters<typeof freeLeakedAddresses>[0]["tools"],
    log,
    addressDir: path,
    settingUp: new Set<string>(),
  };
  return { options, tornDown, calls, locks };
}

const known = (living: readonly string[], own: readonly string[]) => async () => ({
  livingIds: new Set(living),
  ownIds: new Set(own),
});

describe("freeLeakedAddresses()", () => {
  test("tears down what no container is left of, once for all its addresses, and releases each by the plugin", async () => {
    await using at = await temporaryDirectory();
    const { options, tornDown, calls, locks } = await setUp(at.path, {
      "10.1.0.2": id("a"),
      "10.1.0.3": id("d"),
      "fd00::3": id("d"),
      "10.1.0.4": id("e"),
      "10.1.0.5": "foreign",
    });
    const knownSandboxes = known([id("a")], [id("a"), id("d"), id("e")]);
    const freed = await freeLeakedAddresses({ ...options, knownSandboxes }, never);
    assert.deepEqual(freed.map(({ address }) => address).sort(), ["10.1.0.3", "10.1.0.4", "fd00::3"]);
    assert.deepEqual(tornDown.sort(), [id("d"), id("e")]);
    // A tear-down that fails does not keep the address.
    assert.deepEqual(new Set(calls.map(({ containerId }) => containerId)), new Set([id("d"), id("e")]));
    assert.deepEqual(pluck(calls, "containerId"), locks);
    assert.ok(calls.every(({ type, command }) => type === "host-local" && command === "DEL"));
  });

  const untouched: readonly (readonly [what: string, known: ReadKnownSandboxes, error?: RegExp])[] = [
    ["of what no record tells: it may be a pod of another shim's engine", known([], [])],
    ["on another engine, where all pods of the first one look dead", async () => undefined],
    ["when nothing tells which pods live", () => Promise.reject(new Error("no engine")), /no engine/],
  ];
  for (const [what, knownSandboxes, error] of untouched) {
    test(`leaves addresses ${what}`, async () => {
      await using at = await temporaryDirectory();
      const { options, tornDown, calls } = await setUp(at.path, { "10.1.0.3": id("d") });
      const freeing = freeLeakedAddresses({ ...options, knownSandboxes }, never);
      if (error === undefined) assert.deepEqual(await freeing, []);
      else await assert.rejects(freeing, error);
      assert.deepEqual([tornDown, calls], [[], []]);
    });
  }

  test("leaves the address of a pod that is being set up, whatever is known of its container", async () => {
    await using at = await temporaryDirectory();
    const { options, tornDown } = await setUp(at.path, { "10.1.0.3": id("d"), "10.1.0.4": id("e") });
    const knownSandboxes = known([], [id("d"), id("e")]);
    await freeLeakedAddresses({ ...options, knownSandboxes, settingUp: new Set([id("d")]) }, never);
    assert.deepEqual(tornDown, [id("e")]);
  });
});
