/** Reads from the node and the image all that the plan of CreateContainer needs. */
import { tries } from "../../../domain/reach.js";
import { posix } from "node:path";
import type { Call } from "../../../lib/call.js";
import { ShimError } from "../../../lib/errors.js";
import type { NodeFacts } from "../../../domain/node-facts.js";
import type { ValidCreateContainer } from "../../../domain/requests.js";
import { type ContainerNeeds, containerNeeds, engineInjectsCdi } from "../../plan/container-needs.js";
import type { ContainerInputs } from "../../plan/container-plan.js";
import { cdiEnvironment, resolveCdiDevices } from "../../plan/cdi.js";
import type { CdiEdits } from "../../plan/cdi-edits.js";
import type { FoundPaths, HostAccess } from "../../ports/host.js";
import { readLocalhostProfile } from "../localhost-profile.js";
import type { Services } from "../services.js";

export async function gatherContainerInputs(
  request: ValidCreateContainer,
  facts: NodeFacts,
  services: Services,
  call: Call,
): Promise<ContainerInputs> {
  const host = services.node.host();
  const needs = containerNeeds(request);
  const { absentMountSourcesToReject: rejected } = services.settings;
  const absentToReject = new Set(needs.hostPaths.filter((path) => rejected.has(posix.resolve(path))));
  const [seccompProfile, loadedAppArmorProfiles, found, cdi, limitsHugepages, imageUser] = await Promise.all([
    readLocalhostProfile(request.config.linux?.security_context, host),
    needs.appArmorProfile === undefined ? undefined : host.loadedAppArmorProfiles(),
    findPaths(request.pod_sandbox_id, needs, absentToReject, facts, host, call),
    needs.cdiDevices.length === 0 ? undefined : readCdi(needs.cdiDevices, facts, host),
    needs.hugepages && host.limitsHugepages(),
    readImageUser(request.config.image.image, needs, services, call),
  ]);
  const { mounts: hostPaths, devices } = found ?? {};
  return {
    seccompProfile,
    loadedAppArmorProfiles,
    hostPaths,
    absentToReject,
    devices,
    cdi,
    limitsHugepages,
    imageUser,
  };
}

/**
 * Undefined where the engine injects the devices and the files of the node are out of reach. The processes of
 * an exec then lack the environment of the devices.
 */
async function readCdi(
  names: readonly string[],
  facts: NodeFacts,
  host: HostAccess,
): Promise<CdiEdits | undefined> {
  const injects = engineInjectsCdi(facts);
  if (injects && !tries(host.reach, "files", "hostPaths")) return undefined;
  const files = await host.readCdiSpecs(facts.cdiSpecDirs);
  if (!injects) return resolveCdiDevices(files, names);
  return { env: cdiEnvironment(files, names), devices: [], mounts: [], groups: [] };
}

/** Makes a missing source of a mount as a directory, like all runtimes. It stays when the create fails. */
async function findPaths(
  sandboxId: string,
  { hostPaths, devicePaths: devices }: ContainerNeeds,
  absentToReject: ReadonlySet<string>,
  { security }: NodeFacts,
  host: HostAccess,
  call: Call,
): Promise<FoundPaths | undefined> {
  if (hostPaths.length === 0 && devices.length === 0) return undefined;
  // Such an engine gives the directory to the user that is root in the containers.
  const engineMakes = security.usernsRemap || security.rootless;
  const make = engineMakes ? [] : hostPaths.filter((path) => !absentToReject.has(path));
  const look = engineMakes ? hostPaths : [...absentToReject];
  const found = await host.findPaths({ look, make, devices }, sandboxId, call.signal);
  for (const [path, state] of found?.mounts ?? [])
    if (state === "made") call.log.info({ path }, "created the missing source of a mount as a directory");
  return found;
}

/** Undefined when the plan does not need it, or when the image does not know the user. */
async function readImageUser(
  imageName: string,
  { imageUser: need }: ContainerNeeds,
  { engine, images: { cache, users: imageUsers } }: Services,
  call: Call,
): Promise<ContainerInputs["imageUser"]> {
  if (need === undefined) return undefined;
  const { signal } = call;
  const image = (await cache.find(imageName, signal)) ?? (await engine.inspectImage(imageName, signal));
  if (image === undefined)
    throw new ShimError("notFound", `no such image "${imageName}"`, { image: imageName });
  const files = await imageUsers.read(image.id, signal);
  return files === "tooLarge" ? files : files.resolve(need.user ?? image.user);
}
