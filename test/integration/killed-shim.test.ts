/** The shim is killed at each step of RunPodSandbox; the next shim can clean up what it leaves. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { setTimeout as sleep } from "node:timers/promises";
import type { RecordedRequest } from "../support/recording-proxy.js";
import { long, reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

type Predicate = (request: RecordedRequest) => boolean;

/** The requests of RunPodSandbox, each as a fresh predicate. */
const steps: readonly { readonly name: string; readonly predicate: () => Predicate }[] = [
  {
    name: "the pause image's inspect",
    predicate:
      () =>
      ({ path }) =>
        path.startsWith("/images/"),
  },
  {
    name: "create",
    predicate:
      () =>
      ({ path }) =>
        path.startsWith("/containers/create?name=k8s_"),
  },
  {
    name: "start",
    predicate:
      () =>
      ({ path }) =>
        path.endsWith("/start"),
  },
  {
    name: "the inspect after start",
    predicate: () => {
      let started = false;
      return ({ path }) => {
        started ||= path.endsWith("/start");
        return started && path.endsWith("/json");
      };
    },
  },
];

/** Kills at random moments. */
const randomKills = long ? 60 : 2;
/** Longer than a RunPodSandbox takes. */
const longestDelayMs = 500;

describe("kill -9 during RunPodSandbox", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  const moments = ["before", "after"] as const;
  for (const { name, predicate } of steps) {
    for (const moment of moments) {
      test(`${moment} the engine did "${name}": Stop and Remove of what is listed leave nothing`, async () => {
        const directory = await bed.newDirectory();
        const proxy = await bed.startProxy();
        const first = await bed.startShim({ directory, dockerEndpoint: proxy.endpoint });
        const hold = proxy.holdNext(moment, predicate());
        const config = bed.podConfig({ dns_config: { servers: ["10.0.0.1"] } });
        const call = first.cri.RunPodSandbox({ config });
        call.catch(() => undefined); // It fails with the shim.
        await hold.held;
        await first.kill();
        await proxy[Symbol.asyncDispose]();
        await cleanUp(directory, config.metadata?.name ?? "");
      });
    }
  }

  test("after the last step, before the answer: the sandbox is ready and the call can be repeated", async () => {
    const directory = await bed.newDirectory();
    const first = await bed.startShim({ directory });
    const config = bed.podConfig();
    const { pod_sandbox_id } = await first.cri.RunPodSandbox({ config });
    await first.kill();
    const second = await bed.startShim({ directory });
    assert.equal((await second.cri.RunPodSandbox({ config })).pod_sandbox_id, pod_sandbox_id);
    await second.kill();
    await cleanUp(directory, config.metadata?.name ?? "");
  });

  test("a sandbox whose set-up was cut off is never ready, and the same request makes a new one", async () => {
    const directory = await bed.newDirectory();
    const proxy = await bed.startProxy();
    const first = await bed.startShim({ directory, dockerEndpoint: proxy.endpoint });
    const hold = proxy.holdNext("after", ({ path }) => path.endsWith("/start"));
    const config = bed.podConfig({ dns_config: { servers: ["10.0.0.1"] } });
    first.cri.RunPodSandbox({ config }).catch(() => undefined);
    await hold.held;
    await first.kill();
    const second = await bed.startShim({ directory });
    const [item] = (await second.cri.ListPodSandbox({ filter: { label_selector: { [runLabel]: bed.run } } }))
      .items;
    assert.equal(item?.state, PodSandboxState.SANDBOX_NOTREADY);
    const before = await bed.ownContainers();
    assert.equal(before.length, 1);
    // The kubelet stops it before it makes a new one, with the next attempt.
    await second.cri.StopPodSandbox({ pod_sandbox_id: item.id });
    const { pod_sandbox_id } = await second.cri.RunPodSandbox({ config });
    assert.notEqual(pod_sandbox_id, item.id);
    await second.kill();
    await cleanUp(directory, config.metadata?.name ?? "");
  });

  test(`${String(randomKills)} kills at random moments leave nothing that Stop and Remove cannot clean`, async () => {
    const directory = await bed.newDirectory();
    for (let round = 0; round < randomKills; round += 1) {
      const shim = await bed.startShim({ directory });
      const config = bed.podConfig({ dns_config: { servers: ["10.0.0.1"] } });
      shim.cri.RunPodSandbox({ config }).catch(() => undefined);
      await sleep(((round + Math.random()) / randomKills) * longestDelayMs);
      await shim.kill();
      await cleanUp(directory, config.metadata?.name ?? "");
    }
  });

  /** As a kubelet would: by the ids of ListPodSandbox, through a new shim on the same state directory. */
  async function cleanUp(directory: string, name: string): Promise<void> {
    await using shim = await bed.startShim({ directory });
    // The engine may still be at work on a request of the shim that was killed.
    await until("everything to be gone", async () => {
      const { items } = await shim.cri.ListPodSandbox({});
      // It may have pods of others, too.
      const own = items.filter(({ metadata }) => metadata?.name === name);
      assert.ok(own.length <= 1);
      for (const { id } of own) {
        await shim.cri.StopPodSandbox({ pod_sandbox_id: id });
        await shim.cri.RemovePodSandbox({ pod_sandbox_id: id });
      }
      return (await bed.ownContainers()).length === 0;
    });
    assert.deepEqual(await bed.ownContainers(), []);
    for (const part of ["sandbox", "pods", "containers", "quarantine"]) {
      assert.deepEqual(await entries(join(shim.stateDirectory, part)), [], part);
    }
  }
});

async function entries(directory: string): Promise<readonly string[]> {
  return readdir(directory).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  });
}
