import { nowNanoseconds } from "../../../lib/time.js";
import type { Answer, FilesystemUsage } from "../../../domain/cri.js";
import type { Handler, Services } from "../services.js";

/**
 * Disk use of the images, and of the writable layers. Both name one directory, from which kubelets conclude
 * that both are on one file system. With Docker they always are.
 */
export const imageFsInfo: Handler<"ImageFsInfo"> = async (_request, services, call) => {
  const facts = await services.state.link.live(call.signal);
  const images = await services.images.diskUsage.read(facts, call.signal);
  const mountpoint = await services.node.host().imageDirectory(facts);
  return { image_filesystems: [images], container_filesystems: [containerFileSystem(mountpoint, services)] };
};

/** The sum of the latest measurements of the writable layers of running containers. */
function containerFileSystem(mountpoint: string, services: Services): Answer<FilesystemUsage> {
  const { layers } = services.stats;
  const usages = [...services.state.model.containers()].flatMap(({ id }) => layers.usageOf(id) ?? []);
  const inodes = usages.flatMap((usage) => usage.inodes ?? []);
  return {
    timestamp: String(nowNanoseconds()),
    fs_id: { mountpoint },
    used_bytes: { value: String(usages.reduce((sum, { usedBytes }) => sum + usedBytes, 0)) },
    // A sum over some of the containers would be misleading.
    inodes_used:
      inodes.length < usages.length ? null : { value: String(inodes.reduce((sum, one) => sum + one, 0)) },
  };
}
