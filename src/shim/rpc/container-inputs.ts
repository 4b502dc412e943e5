/** What CreateContainer must learn of the node and the image before it can plan. */
import { randomBytes } from "node:crypto";
import { withDeadline } from "../base/abort.js";
import type { Call } from "../base/call.js";
import { messageOf, ShimError } from "../base/errors.js";
import type { ImageUserFiles, ResolvedImageUser } from "../domain/image-users.js";
import type { NodeFacts } from "../domain/node-facts.js";
import { parseImageUserFiles, resolveImageUser } from "../domain/image-users.js";
import type { ValidCreateContainer } from "../domain/requests.js";
import type { ImageSnapshot, Snapshot } from "../domain/snapshot.js";
import type { ContainerInputs, ContainerNeeds } from "../plan/container-plan.js";
import { containerNeeds } from "../plan/container-plan.js";
import type { CdiEdits } from "../plan/cdi.js";
import { resolveCdiDevices } from "../plan/cdi.js";
import type { PathKind } from "../plan/mounts.js";
import type { HostAccess } from "../ports/host.js";
import { readLocalhostProfile } from "./localhost-profile.js";
import type { Services } from "./services.js";

type Deps = Pick<Services, "engine" | "host" | "imageUsers" | "settings">;

/** Label of containers that exist only to read files of their image; leftover ones are removed at start. */
export const scratchLabel = "dockershim.scratch";

/** A user database larger than this belongs to no container that anybody meant to run. */
const userFileLimitBytes = 4 * 1024 * 1024;

export async function gatherContainerInputs(
  request: ValidCreateContainer,
  facts: NodeFacts,
  deps: Deps,
  call: Call,
): Promise<ContainerInputs> {
  const host = deps.host();
  const needs = containerNeeds(request, facts);
  const [seccompProfile, loadedAppArmorProfiles, hostPaths, devices, cdi, imageUser] = await Promise.all([
    readLocalhostProfile(request.config.linux?.security_context, host),
    needs.appArmorProfile === undefined ? undefined : host.loadedAppArmorProfiles(),
    host.local ? lookAt(needs.hostPaths, host) : undefined,
    host.local ? expand(needs.devicePaths, host) : undefined,
    needs.cdiDevices.length === 0 ? undefined : resolveCdi(needs.cdiDevices, facts, host),
    readImageUser(request.config.image.image, needs, deps, call),
  ]);
  return { seccompProfile, loadedAppArmorProfiles, hostPaths, devices, cdi, imageUser };
}

async function resolveCdi(names: readonly string[], facts: NodeFacts, host: HostAccess): Promise<CdiEdits> {
  return resolveCdiDevices(await host.readCdiSpecs(facts.cdiSpecDirs), names);
}

async function lookAt(paths: readonly string[], host: HostAccess): Promise<ReadonlyMap<string, PathKind>> {
  return new Map(
    await Promise.all(paths.map(async (path) => [path, (await host.statPath(path)) ?? "missing"] as const)),
  );
}

async function expand(
  paths: readonly string[],
  host: HostAccess,
): Promise<ReadonlyMap<string, readonly string[]>> {
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await host.expandDevice(path)] as const)),
  );
}

/** Undefined when nothing needs it, or when the image does not know the user. */
async function readImageUser(
  imageName: string,
  { imageUser: need }: ContainerNeeds,
  deps: Deps,
  call: Call,
): Promise<ResolvedImageUser | undefined> {
  if (need === undefined) return undefined;
  const image = await deps.engine.inspectImage(imageName, call.signal);
  if (image === undefined)
    throw new ShimError("notFound", `no such image "${imageName}"`, { image: imageName });
  const files = deps.imageUsers.get(image.id) ?? (await readThroughScratch(image, deps, call));
  return resolveImageUser(files, need.user ?? image.user);
}

/** Docker reads files of containers only, so a container that is never started stands in for its image. */
async function readThroughScratch(image: ImageSnapshot, deps: Deps, call: Call): Promise<ImageUserFiles> {
  const { engine, settings } = deps;
  const name = `dockershim-scratch-${randomBytes(8).toString("hex")}`;
  const body = {
    Image: image.id,
    Cmd: ["none"],
    Labels: { [scratchLabel]: "1" },
    HostConfig: { NetworkMode: "none" },
  };
  const id = await engine.createContainer(name, body, call.signal);
  try {
    return await readUserFiles(id, image.id, deps, call.signal);
  } finally {
    await withDeadline(undefined, settings.cleanUpTimeoutMs, "remove scratch container", (signal) =>
      engine.removeContainer(id, { force: true }, signal),
    ).catch((error: unknown) => {
      call.log.error({ containerId: id, err: messageOf(error) }, "cannot remove a scratch container");
    });
  }
}

async function readUserFiles(
  containerId: string,
  imageId: string,
  { engine, imageUsers }: Pick<Deps, "engine" | "imageUsers">,
  signal: AbortSignal,
): Promise<ImageUserFiles> {
  const [passwd, group] = await Promise.all(
    ["/etc/passwd", "/etc/group"].map(async (path) => {
      const content = await engine.readContainerFile(containerId, path, userFileLimitBytes, signal);
      return content?.toString("utf8") ?? "";
    }),
  );
  const files = parseImageUserFiles(passwd ?? "", group ?? "");
  imageUsers.put(imageId, files);
  return files;
}

/**
 * Reads the user database of a new container's image, once per image, so that statuses can show uid and groups. They
 * do without it when it cannot be read.
 */
export async function rememberImageUsers(snapshot: Snapshot, deps: Deps, call: Call): Promise<void> {
  if (deps.imageUsers.get(snapshot.imageId) !== undefined) return;
  try {
    await readUserFiles(snapshot.id, snapshot.imageId, deps, call.signal);
  } catch (error) {
    call.signal.throwIfAborted();
    call.log.warn({ containerId: snapshot.id, err: messageOf(error) }, "cannot read the image's users");
  }
}
