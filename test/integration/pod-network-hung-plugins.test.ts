/** Many pods at once, and pods whose plugins hang: every other pod has its network in its own time, and nothing is left. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { withOwnEngine } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { endHanging, hanging, NetworkNode } from "./pod-network-support.js";

const stuckCount = long ? 10 : 3;
const podCount = long ? 200 : 8;
const width = long ? 10 : 4;
/** Beyond what a pod takes alone. */
const allowanceMs = 1000;

await withOwnEngine(import.meta.url, [], () => {
  describe("cni", () => {
    const node = NetworkNode.ofSuite("cni");

    async function measured<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly ms: number }> {
      const beginMs = performance.now();
      const result = await work();
      return { result, ms: performance.now() - beginMs };
    }

    /** Milliseconds of RunPodSandbox and of StopPodSandbox. */
    async function times(): Promise<readonly [run: number, stop: number]> {
      const { result: pod, ms: run } = await measured(() => node.runPod());
      const { ms: stop } = await measured(() => pod.stop());
      await pod.remove();
      return [run, stop];
    }

    /** The longest of some: what a machine with other work needs. */
    async function timesAlone(): Promise<readonly [run: number, stop: number]> {
      const all = [await times(), await times()];
      return [Math.max(...all.map(([run]) => run)), Math.max(...all.map(([, stop]) => stop))];
    }

    async function assertUnhindered(alone: readonly [run: number, stop: number]): Promise<void> {
      await until("all plugins to hang", async () => (await hanging()).length === stuckCount || undefined);
      await node.clearFaults();
      const [run, stop] = await times();
      assert.equal((await hanging()).length, stuckCount, "they hang no more");
      assert.ok(run < alone[0] + allowanceMs, `RunPodSandbox took ${run} ms, alone ${alone[0]} ms`);
      assert.ok(stop < alone[1] + allowanceMs, `StopPodSandbox took ${stop} ms, alone ${alone[1]} ms`);
    }

    const each = <T>(work: () => T): T[] => Array.from({ length: stuckCount }, work);

    let alone: readonly [run: number, stop: number];
    before(async () => {
      alone = await timesAlone();
    });

    test(`${podCount} pods, ${width} at a time, have addresses of their own and leave nothing`, async () => {
      const inUse = new Set<string>();
      let begun = 0;
      const lock = async (): Promise<void> => {
        while (begun < podCount) {
          begun += 1;
          const pod = await node.runPod();
          const { network } = await pod.status();
          const addresses = [network?.ip ?? "", ...(network?.additional_ips ?? []).map(({ ip }) => ip)];
          assert.equal(addresses.length, 2);
          for (const address of addresses) {
            assert.ok(!inUse.has(address), `${address} was given out twice`);
            inUse.add(address);
          }
          await pod.stop();
          for (const address of addresses) inUse.delete(address);
          await pod.remove();
        }
      };
      await Promise.all(Array.from({ length: width }, lock));
      await node.assertClean();
    });

    test(`${stuckCount} ADDs that hang hold up no other pod`, async () => {
      await node.injectFault("portmap", "ADD", "hang");
      const runs = Promise.allSettled(each(() => node.cri.RunPodSandbox({ config: node.podConfig() })));
      await assertUnhindered(alone);
      await endHanging();
      assert.ok((await runs).every(({ status }) => status === "rejected"));
      await node.assertClean();
    });

    test(`${stuckCount} DELs that hang hold up no other pod`, async () => {
      const pods = await Promise.all(each(() => node.runPod()));
      await node.injectFault("portmap", "DEL", "hang");
      const stops = Promise.allSettled(pods.map((pod) => pod.stop()));
      await assertUnhindered(alone);
      await endHanging();
      assert.ok((await stops).every(({ status }) => status === "rejected"));
      await Promise.all(pods.map((pod) => node.stopAndRemove(pod.id)));
      await node.assertClean();
    });
  });
});
