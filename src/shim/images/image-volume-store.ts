/**
 * Volumes with the files of an image. Each has a pin: a container of the image that mounts the volume and is
 * never started. The pin protects the image, which Docker does not know to be used by the volume, and the
 * volume itself as long as no container of a pod has it. Both have the same name, a hash of the content.
 */
import { createHash } from "node:crypto";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { Rollback } from "../../lib/rollback.js";
import type { CreateBody, DockerMount } from "../../domain/create-body.js";
import { pinnedImageLabel, typeLabel } from "../../domain/labels.js";
import { type NodeFacts, remappedRoot } from "../../domain/node-facts.js";
import type { ImageSnapshot } from "../../domain/snapshot.js";
import {
  imageLayers,
  overlayOptions,
  standInsBelow,
  volumesHaveSubPaths,
  withoutDeclaredVolumes,
} from "../plan/image-volumes.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { ScratchContainers } from "./scratch-containers.js";
import { quote } from "../../domain/field-errors.js";
import { normalizePath } from "../plan/paths.js";

/** Label of pins and volumes; the value is the state directory's. */
export const imageVolumeLabel = "dockershim.image-volume";
const namePrefix = "dockershim-image-";
/** Mount point of the volume in its pin. */
const pinPath = "/dockershim-image-volume";

export interface ImageVolumeStoreDeps {
  readonly engine: Pick<
    Engine,
    | "inspectContainer"
    | "createContainer"
    | "removeContainer"
    | "listContainers"
    | "statArchive"
    | "copyDirectory"
    | "listVolumes"
    | "removeVolume"
  >;
  readonly host: () => Pick<HostAccess, "layerDirectories">;
  readonly scratch: Pick<ScratchContainers, "use">;
  readonly log: Logger;
  /** Limit of each rollback step, milliseconds. */
  readonly cleanUpTimeoutMs: number;
  /** Tells this state directory from others on the same engine. */
  readonly stateDirectoryId: string;
}

export interface Pin {
  readonly name: string;
  readonly imageId: string;
}

/** A directory of an image: a path without links, empty for the whole image. */
export interface ImageDirectory {
  readonly image: ImageSnapshot;
  readonly path: string;
}

/** Creates and removes the volumes and their pins. Callers hold the lock of the image. */
export class ImageVolumeStore {
  /** Copies that this process has completed. */
  readonly #finished = new Set<string>();

  constructor(private readonly deps: ImageVolumeStoreDeps) {}

  /**
   * The volume that has the directory, and the path in it; creates the volume when it is missing. `inUse`
   * tells whether a container of a pod has the volume of this name.
   */
  async provide(
    directory: ImageDirectory,
    facts: NodeFacts,
    inUse: (volume: string) => boolean,
    signal: AbortSignal,
  ): Promise<{ readonly volume: string; readonly subPath: string }> {
    const layered = await this.#planLayers(directory, facts);
    if (layered !== undefined) {
      const { name: volume, options, subPath } = layered;
      try {
        await this.#provideLayers(volume, directory.image, options, signal);
        return { volume, subPath };
      } catch (error) {
        if (isKind(error, "unavailable", "timeout", "cancelled", "notFound")) throw error;
        this.deps.log.warn(
          { image: directory.image.id, err: messageOf(error) },
          "cannot mount the layers of an image, copying its files instead",
        );
      }
    }
    return { volume: await this.#provideCopy(directory, facts, inUse, signal), subPath: "" };
  }

  /**
   * Removes pin and volume. Throws `precondition` when a container has the volume; its pin is removed all the
   * same.
   */
  async remove(name: string, signal: AbortSignal): Promise<void> {
    const { engine } = this.deps;
    this.#finished.delete(name);
    await engine.removeContainer(name, { force: true }, signal);
    await engine.removeVolume(name, signal);
  }

  /**
   * Removes a volume that has lost its pin. May be called without the lock: a pin that is being created is
   * not removed, and the engine refuses (`precondition`) to remove a volume that a container has.
   */
  async removeUnpinned(name: string, signal: AbortSignal): Promise<void> {
    const { engine } = this.deps;
    if ((await engine.inspectContainer(name, signal)) !== undefined) return;
    this.#finished.delete(name);
    await engine.removeVolume(name, signal);
  }

  async pins(signal: AbortSignal): Promise<readonly Pin[]> {
    const { engine, stateDirectoryId } = this.deps;
    const filter = { labelKey: imageVolumeLabel, labelValue: stateDirectoryId };
    const listed = await engine.listContainers(filter, signal);
    // A container of another program could have the label from its image.
    return listed.flatMap(({ names, labels }) => {
      const name = names.find((one) => one.startsWith(namePrefix));
      return name === undefined ? [] : [{ name, imageId: labels[pinnedImageLabel] ?? "" }];
    });
  }

  async volumes(signal: AbortSignal): Promise<readonly string[]> {
    return this.deps.engine.listVolumes({ key: imageVolumeLabel, value: this.deps.stateDirectoryId }, signal);
  }

  /** Creates the pin of an existing volume. */
  async pin(
    { name, image }: { readonly name: string; readonly image: ImageSnapshot },
    signal: AbortSignal,
  ): Promise<void> {
    await this.deps.engine.createContainer(name, this.#pinBody(name, image, {}), signal);
  }

  /** Undefined where the layers cannot be mounted so that they show this directory. */
  async #planLayers({ image, path }: ImageDirectory, facts: NodeFacts) {
    const layers = imageLayers(image, facts);
    if (layers === undefined) return undefined;
    const subPath = volumesHaveSubPaths(facts) ? path : "";
    const directories = await this.deps.host().layerDirectories(layers, subPath === path ? "" : path);
    // A part of several layers may be wrong: a directory above it can be opaque, which is not visible here.
    const isCertain = subPath === path || directories?.length === 1;
    if (directories === undefined || !isCertain) return undefined;
    const name = this.#name("layers", image.id, ...directories.map((directory) => directory.path));
    // An empty directory in the engine's reach that exists as long as the volume: its own mount point.
    const mountPoint = `${facts.dockerRootDir}/volumes/${name}/_data`;
    const options = overlayOptions(directories, mountPoint);
    return options === undefined ? undefined : { name, options, subPath };
  }

  async #provideLayers(
    name: string,
    image: ImageSnapshot,
    options: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { engine } = this.deps;
    if ((await engine.inspectContainer(name, signal)) !== undefined) return;
    await using rollback = this.#rollback(name);
    const volume = { ReadOnly: true, options: { DriverConfig: { Name: "local", Options: options } } };
    const id = await engine.createContainer(name, this.#pinBody(name, image, volume), signal);
    // The engine mounts a volume when its files are read: a failure must not come as late as a start.
    if ((await engine.statArchive(id, pinPath, signal)) === undefined)
      throw new ShimError("unknown", `stat volume "${name}": the engine does not find it`);
    rollback.commit();
  }

  /** The name of the volume, which has the files of the directory alone. */
  async #provideCopy(
    { image, path }: ImageDirectory,
    facts: NodeFacts,
    inUse: (volume: string) => boolean,
    signal: AbortSignal,
  ): Promise<string> {
    const { engine, scratch } = this.deps;
    const name = this.#name("copy", image.id, path);
    const isPinned = (await engine.inspectContainer(name, signal)) !== undefined;
    // A volume that a container has is complete, and the engine does not remove it.
    if (inUse(name)) {
      if (!isPinned) await this.pin({ name, image }, signal);
      return name;
    }
    if (isPinned && this.#finished.has(name)) return name;
    // A killed process may have left an incomplete copy.
    await this.remove(name, signal);
    await scratch.use(image, signal, async (source, linked) => {
      await using rollback = this.#rollback(name);
      const id = await engine.createContainer(name, this.#pinBody(name, image, {}), linked);
      const from = { id: source, path: `/${path}` };
      await engine.copyDirectory(
        from,
        { id, path: pinPath },
        { leaveOut: standInsBelow(path), root: remappedRoot(facts) },
        linked,
      );
      rollback.commit();
    });
    this.#finished.add(name);
    return name;
  }

  #rollback(name: string): Rollback {
    const rollback = new Rollback(this.deps.log, this.deps.cleanUpTimeoutMs);
    // Registered before the create, which may make the volume and fail.
    rollback.defer("remove image volume", (signal) => this.remove(name, signal));
    return rollback;
  }

  #name(...content: readonly string[]): string {
    const hash = createHash("sha256").update(JSON.stringify([this.deps.stateDirectoryId, ...content]));
    return `${namePrefix}${hash.digest("hex").slice(0, 32)}`;
  }

  #pinBody(
    name: string,
    image: ImageSnapshot,
    volume: { readonly ReadOnly?: boolean; readonly options?: DockerMount["VolumeOptions"] },
  ): CreateBody {
    const { stateDirectoryId } = this.deps;
    const VolumeOptions = {
      NoCopy: true,
      Labels: { [imageVolumeLabel]: stateDirectoryId },
      ...volume.options,
    };
    const readOnly = volume.ReadOnly === true ? { ReadOnly: true } : {};
    return {
      Image: image.id,
      // Never run, but Docker creates no container without a command.
      Entrypoint: ["none"],
      WorkingDir: "/",
      // An empty type: a type from the image would make the pin part of a pod.
      Labels: { [imageVolumeLabel]: stateDirectoryId, [pinnedImageLabel]: image.id, [typeLabel]: "" },
      HostConfig: {
        NetworkMode: "none",
        LogConfig: { Type: "none", Config: {} },
        Mounts: [
          { Type: "volume", Source: name, Target: pinPath, ...readOnly, VolumeOptions },
          ...withoutDeclaredVolumes(image),
        ],
      },
    };
  }
}

/**
 * The directory that the relative `subPath` leads to in the image of the never started container `id`:
 * relative, without links, empty for the root. Links are followed within the image. Throws `precondition`
 * when there is no such directory.
 */
export async function findImageDirectory(
  id: string,
  subPath: string,
  engine: Pick<Engine, "statArchive">,
  signal: AbortSignal,
): Promise<string> {
  let found = "/";
  for (const part of normalizePath(subPath).split("/")) {
    if (part === "") continue;
    found = found === "/" ? `/${part}` : `${found}/${part}`;
    let stat = await engine.statArchive(id, found, signal);
    if (stat !== undefined && stat.linkTarget !== "") {
      // The engine resolves a whole chain of links within the container.
      found = stat.linkTarget;
      stat = await engine.statArchive(id, found, signal);
    }
    if (stat === undefined) throw notThere(subPath, "no such directory in the image");
    if (!stat.isDirectory) throw notThere(subPath, `${quote(found)} is not a directory in the image`);
  }
  return found.slice(1);
}

function notThere(subPath: string, reason: string): ShimError {
  return new ShimError("precondition", `sub path ${quote(subPath)}: ${reason}`);
}
