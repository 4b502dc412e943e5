/** What CreateContainer must learn of the node and the image before it can plan. */
import type { Call } from "../base/call.js";
import { ShimError } from "../base/errors.js";
import type { ResolvedImageUser } from "../domain/image-users.js";
import type { NodeFacts } from "../domain/node-facts.js";
import { resolveImageUser } from "../domain/image-users.js";
import type { ValidCreateContainer } from "../domain/requests.js";
import type { ContainerNeeds } from "../plan/container-needs.js";
import type { ContainerInputs } from "../plan/container-plan.js";
import { containerNeeds, engineInjectsCdi } from "../plan/container-needs.js";
import type { CdiEdits } from "../plan/cdi.js";
import { cdiEnvironment, resolveCdiDevices } from "../plan/cdi.js";
import type { PathKind } from "../plan/mounts.js";
import type { HostAccess } from "../ports/host.js";
import { readLocalhostProfile } from "./localhost-profile.js";
import type { Services } from "./services.js";

type Deps = Pick<Services, "engine" | "host" | "imageUsers">;

export async function gatherContainerInputs(
  request: ValidCreateContainer,
  facts: NodeFacts,
  deps: Deps,
  call: Call,
): Promise<ContainerInputs> {
  const host = deps.host();
  const needs = containerNeeds(request);
  const [seccompProfile, loadedAppArmorProfiles, hostPaths, devices, cdi, imageUser] = await Promise.all([
    readLocalhostProfile(request.config.linux?.security_context, host),
    needs.appArmorProfile === undefined ? undefined : host.loadedAppArmorProfiles(),
    host.local ? lookAt(needs.hostPaths, host) : undefined,
    host.local ? expand(needs.devicePaths, host) : undefined,
    needs.cdiDevices.length === 0 ? undefined : readCdi(needs.cdiDevices, facts, host),
    readImageUser(request.config.image.image, needs, deps, call),
  ]);
  return { seccompProfile, loadedAppArmorProfiles, hostPaths, devices, cdi, imageUser };
}

/** Undefined where the engine injects the devices and the node cannot be looked at: then no exec has their environment. */
async function readCdi(
  names: readonly string[],
  facts: NodeFacts,
  host: HostAccess,
): Promise<CdiEdits | undefined> {
  const injects = engineInjectsCdi(facts);
  if (injects && !host.local) return undefined;
  const files = await host.readCdiSpecs(facts.cdiSpecDirs);
  if (!injects) return resolveCdiDevices(files, names);
  return { env: cdiEnvironment(files, names), devices: [], mounts: [], groups: [] };
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
  { engine, imageUsers }: Deps,
  call: Call,
): Promise<ResolvedImageUser | undefined> {
  if (need === undefined) return undefined;
  const image = await engine.inspectImage(imageName, call.signal);
  if (image === undefined)
    throw new ShimError("notFound", `no such image "${imageName}"`, { image: imageName });
  return resolveImageUser(await imageUsers.read(image.id, call.signal), need.user ?? image.user);
}
