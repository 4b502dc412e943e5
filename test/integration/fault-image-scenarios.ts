/** Calls that ask the engine only when they do not know it yet, and those that no ordinary engine is asked. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { inspectContainer } from "../support/docker.js";
import { RawClient } from "../support/hostile/raw-client.js";
import { type Act, forgetImages, quiet, type Scene } from "./fault-scenarios.js";

export const imageScenarios: Readonly<Record<string, (scene: Scene) => Promise<Act>>> = {
  ContainerStatus: async (scene) => {
    const { cri } = scene;
    const { id, reference } = await containerOfUnknownImage(scene);
    const look = async (options = {}) => cri.ContainerStatus({ container_id: id }, options);
    return {
      call: look,
      holds: async () => {
        assert.equal((await look()).status?.image?.image, reference);
      },
      end: () => cri.RemoveContainer({ container_id: id }),
    };
  },

  CheckpointContainer: async (scene) => {
    const { bed, cri } = scene;
    const { id } = await containerOfUnknownImage(scene);
    const directory = await bed.newDirectory();
    const location = join(directory, "checkpoint.tar");
    const checkpoint = async (options = {}) =>
      cri.CheckpointContainer({ container_id: id, location, timeout: "60" }, options);
    const pid = (await inspectContainer(id))?.State.Pid;
    return {
      call: checkpoint,
      holds: async () => {
        assert.deepEqual(await readdir(directory), ["checkpoint.tar"], "the archive, and nothing beside it");
        assert.match((await readFile(location)).toString("latin1"), /config\.dump[^]*memory of the stand-in/);
        assert.equal((await inspectContainer(id))?.State.Pid, pid, "it runs on");
      },
      end: () => cri.RemoveContainer({ container_id: id }),
    };
  },

  // What was measured counts for 30 s.
  ImageFsInfo: async (scene) => {
    const { cri, end } = await shimOfItsOwn(scene);
    const measure = async (options = {}) => cri.ImageFsInfo({}, options);
    return {
      ...{ call: measure, end },
      holds: async () => {
        const { image_filesystems: images } = await measure();
        assert.ok(Number(images[0]?.used_bytes?.value) > 0);
      },
    };
  },

  // Containers outside of pods are asked for once.
  ListImages: async (scene) => {
    const { cri, end } = await shimOfItsOwn(scene);
    const filter = { image: { image: scene.bed.image } };
    return {
      call: (options) => cri.ListImages({}, options),
      holds: async () => {
        assert.equal((await cri.ListImages({ filter })).images.length, 1);
      },
      end,
    };
  },

  ImageStatus: async (scene) => {
    const { cri, end } = await shimOfItsOwn(scene);
    const { image } = scene.bed;
    return {
      call: (options) => cri.ImageStatus({ image: { image }, verbose: true }, options),
      holds: async () => {
        assert.deepEqual((await cri.ImageStatus({ image: { image } })).image?.repo_tags, [image]);
      },
      end,
    };
  },

  StreamImages: async (scene) => {
    const { cri, socket, end } = await shimOfItsOwn(scene);
    const list = async ({ timeoutMs }: { readonly timeoutMs: number }): Promise<Buffer> => {
      using client = new RawClient(socket);
      const { code, details, body } = await client.stream(
        "/runtime.v1.ImageService/StreamImages",
        Buffer.alloc(0),
        60_000,
        timeoutMs,
      );
      if (code !== 0) throw Object.assign(new Error(details), { code });
      return body;
    };
    return {
      ...{ call: list, end },
      holds: async () => {
        const { images } = await cri.ListImages({});
        const body = (await list({ timeoutMs: 30_000 })).toString("latin1");
        for (const { id } of images) assert.ok(body.includes(id), id);
      },
    };
  },
};

/** Knows nothing yet but the containers of pods. */
async function shimOfItsOwn({
  bed,
  proxy,
}: Scene): Promise<Pick<Scene, "cri" | "socket"> & { readonly end: () => Promise<unknown> }> {
  const shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
  await shim.cri.ListContainers({});
  // After a start it looks for orphaned containers of earlier processes.
  await quiet(proxy);
  return { cri: shim.cri, socket: shim.socket, end: () => shim.stop() };
}

/** Of whose image the shim does not know the names: it was loaded after all others, and forgotten. */
async function containerOfUnknownImage({ bed, cri, proxy, pod, containerId }: Scene): Promise<{
  readonly id: string;
  readonly reference: string;
}> {
  const name = bed.newName("image");
  const reference = `dockershim.test/${name}:1`;
  await bed.load({ reference, marker: name });
  const id = await pod.start({ metadata: { name, attempt: 0 }, image: { image: reference } });
  await forgetImages(bed, cri, proxy, containerId);
  return { id, reference };
}
