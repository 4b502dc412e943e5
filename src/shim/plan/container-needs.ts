/** What must be learnt of the node and the image before a container can be planned. */
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ValidCreateContainer } from "../../domain/requests.js";
import { chooseAppArmor } from "./apparmor.js";
import { requestedCdiDevices } from "./cdi.js";
import { imageVolumeNeeds, type ImageVolumeNeed } from "./image-volumes.js";
import { localhostSeccompPath } from "./seccomp.js";
import { securityContextField } from "./security-options.js";
import { imageUserNeed, type ImageUserNeed } from "./users.js";
import { visibleMounts } from "./visible-mounts.js";

/** Each list is without duplicates; the results go into `ContainerInputs`. */
export interface ContainerNeeds {
  /** File to be read → `seccompProfile`. */
  readonly seccompProfilePath: string | undefined;
  /** Name to be found in the kernel → `loadedAppArmorProfiles`. */
  readonly appArmorProfile: string | undefined;
  /** Sources of bind mounts, to be looked at → `hostPaths`. */
  readonly hostPaths: readonly string[];
  /** To be provided → `imageVolumes`. */
  readonly imageVolumes: readonly ImageVolumeNeed[];
  /** Devices, to be looked at → `devices`. */
  readonly devicePaths: readonly string[];
  /** Names to be looked up in the node's specifications → `cdi`; see `engineInjectsCdi`. */
  readonly cdiDevices: readonly string[];
  /** Whether there are limits of hugepages → `limitsHugepages`. */
  readonly hugepages: boolean;
  /** User to be resolved in the image's files → `imageUser`. */
  readonly imageUser: ImageUserNeed | undefined;
}

export function containerNeeds({ config }: ValidCreateContainer): ContainerNeeds {
  const security = config.linux?.security_context ?? null;
  const appArmor = security === null ? undefined : chooseAppArmor(security, securityContextField);
  return {
    seccompProfilePath: localhostSeccompPath(security),
    appArmorProfile: appArmor?.kind === "localhost" ? appArmor.reference : undefined,
    hostPaths: [...new Set(visibleMounts(config.mounts).map(([, { host_path }]) => host_path))].filter(
      (path) => path !== "",
    ),
    imageVolumes: imageVolumeNeeds(config.mounts),
    devicePaths: [...new Set(config.devices.map((device) => device.host_path))],
    cdiDevices: requestedCdiDevices(config),
    hugepages: config.linux?.resources?.hugepage_limits.some(({ limit }) => limit !== "0") ?? false,
    imageUser: imageUserNeed(security),
  };
}

/** First API version with device requests of driver cdi. */
const cdiApiMinor = 44;

/** Whether the engine applies a device's specification: only its environment is taken from the node's files then. */
export function engineInjectsCdi(facts: NodeFacts): boolean {
  return facts.cdi && facts.apiMinor >= cdiApiMinor;
}
