/** For each RPC that makes engine requests: a call of it that works, and how to tell afterwards that all is as it should be. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import {
  containersWithLabel,
  dockerJson,
  inspectContainer,
  inspectImage,
  removeImage,
  tagImage,
} from "../support/docker.js";
import type { CriClient } from "../support/cri-client.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import type { EngineProxy, ProxiedRequest } from "../support/engine-proxy.js";
import type { Pod } from "../support/pod.js";
import type { TestRegistry } from "../support/registry.js";
import type { TestBed } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

/** On what a case makes; the value is its name. */
const caseLabel = "dockershim.test/case";
const quietMs = 300;
/** Longer than an answer of the engine proves to Status that the engine answers. */
const proofMs = 2_100;

export interface Scene {
  readonly bed: TestBed;
  readonly cri: CriClient;
  /** Of the shim. */
  readonly socket: string;
  readonly proxy: EngineProxy;
  /** A pod with a running container, which cases leave as they are. */
  readonly pod: Pod;
  readonly containerId: string;
  readonly registry: TestRegistry | undefined;
}

/** One call, ready to be made. */
export interface Act {
  call(options: { readonly timeoutMs: number }): Promise<unknown>;
  /** After the fault is gone, what a kubelet does after an error until it works; the call itself unless given. */
  readonly again?: () => Promise<unknown>;
  /** Throws as long as engine and shim are not as they should be after a call that worked. */
  holds(): Promise<void>;
  /** Removes what it made. */
  readonly end?: () => Promise<unknown>;
}

export const basicScenarios: Readonly<Record<string, (scene: Scene) => Promise<Act>>> = {
  Status: async ({ cri, proxy }) => ({
    call: async (options) => {
      await nothingProven(proxy);
      return cri.Status({}, options);
    },
    holds: async () => {
      const { status } = await cri.Status({});
      assert.equal(status?.conditions[0]?.status, true, status?.conditions[0]?.message);
    },
  }),

  RunPodSandbox: async ({ bed, cri, proxy, containerId }) => {
    await forgetImages(bed, cri, proxy, containerId);
    const name = bed.newName("pod");
    const config = bed.podConfig({ labels: { [caseLabel]: name } });
    const run = async (options = {}) => cri.RunPodSandbox({ config }, options);
    return {
      call: run,
      holds: async () => {
        const { pod_sandbox_id: id } = await run();
        assert.deepEqual(await containersOf(name), [id], "one sandbox, and nothing beside it");
        const { items } = await cri.ListPodSandbox({ filter: { id } });
        assert.equal(items[0]?.state, PodSandboxState.SANDBOX_READY);
      },
      end: async () => {
        for (const id of await containersOf(name)) await removePod(cri, id);
      },
    };
  },

  StopPodSandbox: async ({ bed, cri }) => {
    const pod = await bed.runPod(cri);
    const id = await pod.start();
    return {
      call: (options) => cri.StopPodSandbox({ pod_sandbox_id: pod.id }, options),
      holds: async () => {
        for (const one of [pod.id, id]) assert.equal((await inspectContainer(one))?.State.Running, false);
        assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_NOTREADY);
        assert.equal((await pod.containerStatus(id)).state, ContainerState.CONTAINER_EXITED);
      },
      end: () => pod[Symbol.asyncDispose](),
    };
  },

  RemovePodSandbox: async ({ bed, cri }) => {
    const labels = { [caseLabel]: bed.newName("pod") };
    const pod = await bed.runPod(cri, { labels });
    await pod.start({ labels });
    return {
      call: (options) => cri.RemovePodSandbox({ pod_sandbox_id: pod.id }, options),
      holds: async () => {
        assert.deepEqual(await containersOf(labels[caseLabel]), []);
        const { items } = await cri.ListPodSandbox({});
        assert.ok(!items.some(({ id }) => id === pod.id));
      },
      end: () => pod[Symbol.asyncDispose](),
    };
  },

  CreateContainer: async ({ bed, cri, pod }) => {
    const name = bed.newName("c");
    const create = async (options = {}) =>
      cri.CreateContainer(
        {
          pod_sandbox_id: pod.id,
          config: bed.containerConfig({ metadata: { name, attempt: 0 }, labels: { [caseLabel]: name } }),
          sandbox_config: pod.config,
        },
        options,
      );
    return {
      call: create,
      holds: async () => {
        const made = await containersOf(name);
        assert.equal(made.length, 1, "one container of that name");
        const { containers } = await cri.ListContainers({ filter: { id: made[0] ?? "" } });
        assert.equal(containers[0]?.state, ContainerState.CONTAINER_CREATED);
      },
      end: async () => {
        for (const id of await containersOf(name)) await cri.RemoveContainer({ container_id: id });
      },
    };
  },

  StartContainer: async ({ bed, cri, pod }) => {
    const name = bed.newName("c");
    const command = ["sh", "-c", "echo ran; trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"];
    const id = await pod.create({ command, metadata: { name, attempt: 0 }, log_path: `${name}.log` });
    return {
      call: (options) => cri.StartContainer({ container_id: id }, options),
      // What was started and could not be made whole is stopped again; kubelets then make another container.
      again: async () => {
        if ((await inspectContainer(id))?.State.Status === "created")
          await cri.StartContainer({ container_id: id });
      },
      holds: async () => {
        const state = (await pod.containerStatus(id)).state;
        const running = (await inspectContainer(id))?.State.Running === true;
        assert.equal(state, running ? ContainerState.CONTAINER_RUNNING : ContainerState.CONTAINER_EXITED);
        const log = await readFile(join(pod.config.log_directory ?? "", `${name}.log`), "utf8");
        assert.ok(log.split("ran\n").length <= 2, `it ran once: ${log}`);
        if (running) assert.match(log, /ran\n/);
      },
      end: () => cri.RemoveContainer({ container_id: id }),
    };
  },

  StopContainer: async ({ bed, cri, pod }) => {
    const id = await pod.start({ metadata: { name: bed.newName("c"), attempt: 0 } });
    return {
      call: (options) => cri.StopContainer({ container_id: id, timeout: "5" }, options),
      holds: async () => {
        assert.equal((await inspectContainer(id))?.State.Running, false);
        assert.equal((await pod.containerStatus(id)).state, ContainerState.CONTAINER_EXITED);
      },
      end: () => cri.RemoveContainer({ container_id: id }),
    };
  },

  RemoveContainer: async ({ bed, cri, pod }) => {
    const id = await pod.create({ metadata: { name: bed.newName("c"), attempt: 0 } });
    return {
      call: (options) => cri.RemoveContainer({ container_id: id }, options),
      holds: async () => {
        assert.equal(await inspectContainer(id), undefined);
        assert.deepEqual((await cri.ListContainers({ filter: { id } })).containers, []);
      },
    };
  },

  UpdateContainerResources: async ({ cri, pod, containerId }) => {
    const memory = String((64 + Math.floor(Math.random() * 64)) * 1024 * 1024);
    const request = { container_id: containerId, linux: { memory_limit_in_bytes: memory } };
    return {
      call: (options) => cri.UpdateContainerResources(request, options),
      holds: async () => {
        assert.equal(String((await inspectContainer(containerId))?.HostConfig.Memory), memory);
        const { resources } = await pod.containerStatus(containerId);
        assert.equal(resources?.linux?.memory_limit_in_bytes, memory);
      },
    };
  },

  ExecSync: async ({ bed, cri, containerId }) => {
    const marker = bed.newName("m");
    const cmd = ["sh", "-c", `echo run >> /tmp/${marker}; sleep 0.3; echo done`];
    const run = async (options = {}) =>
      cri.ExecSync({ container_id: containerId, cmd, timeout: "0" }, options);
    let calls = 0;
    return {
      call: (options) => {
        calls += 1;
        return run(options);
      },
      again: async () => {
        calls += 1;
        assert.equal((await run()).stdout.toString(), "done\n");
      },
      holds: async () => {
        const { stdout } = await cri.ExecSync({
          container_id: containerId,
          cmd: ["sh", "-c", `wc -l < /tmp/${marker}`],
          timeout: "10",
        });
        assert.ok(Number(stdout.toString()) <= calls, `${stdout.toString()} runs for ${calls} calls`);
        // docs/run/remote.md: those of an engine elsewhere stay.
        if (isEngineElsewhere) return;
        assert.ok(
          !(await runningCommands(containerId)).some((command) => command.includes(marker)),
          "no process is left",
        );
      },
    };
  },

  PullImage: async ({ cri, bed, registry }) => {
    assert.ok(registry !== undefined);
    const name = bed.newName("image");
    const archive = await testImageArchive({ reference: `dockershim.test/${name}:1`, marker: name });
    const { repository, tag } = await registry.push(`test/${name}`, "1", archive);
    const image = { image: `${repository}:${tag}` };
    return {
      call: (options) => cri.PullImage({ image }, options),
      holds: async () => {
        assert.equal((await cri.ImageStatus({ image })).image?.id, (await inspectImage(image.image))?.Id);
      },
      end: () => cri.RemoveImage({ image }),
    };
  },

  RemoveImage: async ({ cri, bed }) => {
    const name = bed.newName("image");
    const reference = `dockershim.test/${name}:1`;
    await bed.load({ reference, marker: name });
    await tagImage(reference, `dockershim.test/${name}`, "2");
    const image = { image: reference };
    return {
      call: (options) => cri.RemoveImage({ image }, options),
      // With its tag gone kubelets go on by its id.
      again: async () => {
        for (const tag of ["1", "2"])
          await cri.RemoveImage({ image: { image: `dockershim.test/${name}:${tag}` } });
      },
      holds: async () => {
        for (const tag of ["1", "2"])
          assert.equal(await inspectImage(`dockershim.test/${name}:${tag}`), undefined);
        assert.equal((await cri.ImageStatus({ image })).image, null);
      },
    };
  },
};

/** The log of a container that runs, which is read through the API when the engine is elsewhere. */
function isFollowedLog({ path }: ProxiedRequest): boolean {
  return /\/logs\?.*follow=1/.test(path);
}

/** Returns when what a preparation set off has ended: the read model has seen it, users of images are read. */
export async function quiet(proxy: Scene["proxy"]): Promise<void> {
  await until("the engine is asked nothing", async () => {
    const { length } = proxy.requests;
    await sleep(quietMs);
    return proxy.requests.length === length && proxy.openRequests.every(isFollowedLog);
  });
}

/** Returns when the engine has answered nothing for so long that Status asks it. */
async function nothingProven(proxy: Scene["proxy"]): Promise<void> {
  await until("no answer of the engine proves anything any more", async () => {
    const { length } = proxy.requests;
    await sleep(proofMs);
    return proxy.requests.length === length;
  });
}

export async function removePod(cri: CriClient, id: string): Promise<void> {
  await cri.StopPodSandbox({ pod_sandbox_id: id });
  await cri.RemovePodSandbox({ pod_sandbox_id: id });
}

/** Ids of everything in the engine with the name of the case among its labels. */
function containersOf(name: string): Promise<readonly string[]> {
  return containersWithLabel(`${caseLabel}=${name}`);
}

/** An image event makes the shim ask anew, for the pause image too: it has, when it asks for the image of a status. */
export async function forgetImages(
  bed: TestBed,
  cri: CriClient,
  proxy: EngineProxy,
  containerId: string,
): Promise<void> {
  proxy.forget();
  const tag = bed.newName("event");
  await tagImage(bed.image, "dockershim.test/event", tag);
  await removeImage(`dockershim.test/event:${tag}`);
  await until("the shim to hear of the images", async () => {
    await cri.ContainerStatus({ container_id: containerId });
    return proxy.requests.some(({ path }) => path.startsWith("/images/"));
  });
}

/** Command lines of the processes in a container. */
export async function runningCommands(id: string): Promise<readonly string[]> {
  const top = (await dockerJson("GET", `/containers/${id}/top`)) as {
    Processes: readonly (readonly string[])[];
  };
  return top.Processes.map((fields) => fields.join(" "));
}
