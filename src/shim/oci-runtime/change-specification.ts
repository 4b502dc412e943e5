/** The OCI specification that Docker wrote, with what its API has no words for: a function of values. */
import type {
  DeviceOwner,
  EarlyLimits,
  MappedIds,
  OciChanges,
  OciMount,
  UserNamespace,
} from "../../domain/oci-changes.js";
import { ShimError } from "../../lib/errors.js";
import { ExactNumber, isList, isObject, type Json, type JsonObject } from "../../lib/json/exact-json.js";
import type { CgroupSettings } from "../ports/host.js";

/**
 * Everything that the changes do not name stays as it is, also what this program does not know. Throws
 * `precondition` where the specification has no place for a change: the container must not start without it.
 */
export function changeSpecification(
  specification: JsonObject,
  changes: OciChanges,
  limits: CgroupSettings,
  mappedRoot = "",
): JsonObject {
  const { ambientCapabilities = [], mountOptions = {}, mappedMounts = {}, users } = changes;
  const mounted = withMappedMounts(withMountOptions(specification, mountOptions), mappedMounts);
  const device = withHooks(
    withDeviceOwners(withAddedMounts(mounted, changes.mounts ?? []), changes.deviceOwners ?? {}),
    changes.hooks ?? {},
  );
  const capable = withAmbientCapabilities(device, ambientCapabilities);
  const limited = withLimits(capable, changes.limits ?? [], limits);
  return users === undefined ? limited : withUsers(limited, users, mappedRoot);
}

/** Files that Docker makes for each container, and mounts. */
const dockerFile = /\/containers\/[0-9a-f]{64}\/(?:hosts|hostname|resolv\.conf)$/;

/** Docker's for containers with a network of their own; the kernel takes no ids that are not mapped. */
const pingRange = "net.ipv4.ping_group_range";

function withUsers(
  specification: JsonObject,
  users: UserNamespace & { readonly joins?: true },
  mappedRoot: string,
): JsonObject {
  const { uidMappings: _uids, gidMappings: _gids, ...linux } = memberAt(specification, "linux");
  const namespaces = listAt(linux, "namespaces");
  const others = namespaces.filter((one) => !isObject(one) || one["type"] !== "user");
  const sysctl = memberAt(linux, "sysctl");
  const range = sysctl[pingRange];
  const mounts = listAt(specification, "mounts").map((mount) => {
    const source = isObject(mount) ? mount["source"] : undefined;
    return isObject(mount) &&
      typeof source === "string" &&
      dockerFile.test(source) &&
      !("uidMappings" in mount)
      ? withOwners(mount, users)
      : mount;
  });
  return {
    ...specification,
    root: { ...memberAt(specification, "root"), path: mappedRoot },
    mounts,
    linux: {
      ...linux,
      ...(users.joins === true ? {} : mappingsOf(users)),
      ...(range === "0 2147483647" ? { sysctl: { ...sysctl, [pingRange]: `0 ${users.gids.size - 1}` } } : {}),
      namespaces: [
        ...others,
        {
          type: "user",
          ...(users.joins === true ? { path: `/proc/${sandboxPid(namespaces)}/ns/user` } : {}),
        },
      ],
    },
  };
}

/** Docker joins the pod's namespaces by the process of its sandbox. */
function sandboxPid(namespaces: readonly Json[]): string {
  for (const one of namespaces) {
    const [path, type] = isObject(one) ? [one["path"], one["type"]] : [];
    const pid = typeof path === "string" ? /^\/proc\/(\d+)\/ns\/(?:net|ipc)$/.exec(path)?.[1] : undefined;
    if ((type === "network" || type === "ipc") && pid !== undefined) return pid;
  }
  throw new ShimError("precondition", "Docker does not join the sandbox by a process");
}

function withMappedMounts(
  specification: JsonObject,
  owners: Readonly<Record<string, UserNamespace>>,
): JsonObject {
  return withMounts(specification, owners, withOwners);
}

function withOwners(mount: JsonObject, users: UserNamespace): JsonObject {
  return { ...mount, ...mappingsOf(users), options: [...listAt(mount, "options"), "idmap"] };
}

function mappingsOf({ uids, gids }: UserNamespace): JsonObject {
  const mapping = ({ hostId, size }: MappedIds): JsonObject => ({ containerID: 0, hostID: hostId, size });
  return { uidMappings: [mapping(uids)], gidMappings: [mapping(gids)] };
}

/** The kernel keeps ambient capabilities only where they are permitted and inheritable. */
function withAmbientCapabilities(specification: JsonObject, names: readonly string[]): JsonObject {
  if (names.length === 0) return specification;
  return changedAt(specification, ["process", "capabilities"], (capabilities) => {
    const sets = ["bounding", "permitted", "effective", "inheritable", "ambient"];
    return {
      ...capabilities,
      ...Object.fromEntries(sets.map((set) => [set, [...new Set([...listAt(capabilities, set), ...names])]])),
    };
  });
}

function withMountOptions(
  specification: JsonObject,
  options: Readonly<Record<string, readonly string[]>>,
): JsonObject {
  return withMounts(specification, options, (mount, added) => ({
    ...mount,
    options: [...listAt(mount, "options"), ...added],
  }));
}

/** Each mount at a path of `changes`, changed. */
function withMounts<T>(
  specification: JsonObject,
  changes: Readonly<Record<string, T>>,
  change: (mount: JsonObject, by: T) => JsonObject,
): JsonObject {
  const missing = new Map(Object.entries(changes));
  if (missing.size === 0) return specification;
  const mounts = listAt(specification, "mounts").map((mount) => {
    const path = isObject(mount) ? mount["destination"] : undefined;
    const by = typeof path === "string" ? missing.get(path) : undefined;
    if (!isObject(mount) || typeof path !== "string" || by === undefined) return mount;
    missing.delete(path);
    return change(mount, by);
  });
  if (missing.size > 0)
    throw new ShimError("precondition", `Docker made no mount at ${JSON.stringify([...missing.keys()][0])}`);
  return { ...specification, mounts };
}

/** Before those that lie below it, which it would hide. */
function withAddedMounts(specification: JsonObject, added: readonly OciMount[]): JsonObject {
  if (added.length === 0) return specification;
  const mounts = added.reduce<readonly Json[]>(
    (present, mount) => {
      const below = present.findIndex((one) => {
        const path = isObject(one) ? one["destination"] : undefined;
        return typeof path === "string" && path.startsWith(`${mount.destination}/`);
      });
      const index = below === -1 ? present.length : below;
      return [...present.slice(0, index), { ...mount }, ...present.slice(index)];
    },
    listAt(specification, "mounts"),
  );
  return { ...specification, mounts };
}

function withDeviceOwners(
  specification: JsonObject,
  owners: Readonly<Record<string, DeviceOwner>>,
): JsonObject {
  const missing = new Map(Object.entries(owners));
  if (missing.size === 0) return specification;
  const linux = memberAt(specification, "linux");
  const devices = listAt(linux, "devices").map((device) => {
    const path = isObject(device) ? device["path"] : undefined;
    const owner = typeof path === "string" ? missing.get(path) : undefined;
    if (!isObject(device) || typeof path !== "string" || owner === undefined) return device;
    missing.delete(path);
    return { ...device, ...owner };
  });
  if (missing.size > 0)
    throw new ShimError("precondition", `Docker made no device ${JSON.stringify([...missing.keys()][0])}`);
  return { ...specification, linux: { ...linux, devices } };
}

function withHooks(specification: JsonObject, added: NonNullable<OciChanges["hooks"]>): JsonObject {
  return Object.entries(added).reduce(
    (changed, [name, hooks]) =>
      changedAt(changed, ["hooks"], (present) => ({
        ...present,
        [name]: [...listAt(present, name), ...hooks.map((hook) => ({ ...hook }))],
      })),
    specification,
  );
}

function withLimits(
  specification: JsonObject,
  kinds: readonly EarlyLimits[],
  { unified, hugepages }: CgroupSettings,
): JsonObject {
  if (kinds.length === 0) return specification;
  return changedAt(specification, ["linux", "resources"], (resources) => ({
    ...resources,
    ...(kinds.includes("unified") ? { unified: { ...memberAt(resources, "unified"), ...unified } } : {}),
    ...(kinds.includes("hugepages")
      ? { hugepageLimits: [...listAt(resources, "hugepageLimits"), ...hugepages.map(hugepageLimit)] }
      : {}),
  }));
}

function hugepageLimit({ pageSize, limitBytes }: CgroupSettings["hugepages"][number]): JsonObject {
  return { pageSize, limit: new ExactNumber(String(limitBytes)) };
}

/** What is missing on the way is made. */
function changedAt(
  object: JsonObject,
  [key, ...rest]: readonly string[],
  change: (object: JsonObject) => JsonObject,
): JsonObject {
  if (key === undefined) return change(object);
  const member = object[key];
  return { ...object, [key]: changedAt(isObject(member) ? member : {}, rest, change) };
}

function memberAt(object: JsonObject, key: string): JsonObject {
  const member = object[key];
  return isObject(member) ? member : {};
}

function listAt(object: JsonObject, key: string): readonly Json[] {
  const value = object[key];
  return isList(value) ? value : [];
}
