/**
 * What a specification of the Container Device Interface does to a container, turned into fields of Docker's
 * create body and, where those have no words for it, into changes for the OCI runtime. What neither knows is
 * refused by name: half a device would fail somewhere inside the container.
 */
import type { DockerDevice, DockerMount } from "../../domain/create-body.js";
import { preconditionField, quote, unsupportedField } from "../../domain/field-errors.js";
import {
  type DeviceOwner,
  type HookName,
  hookNames,
  type OciChanges,
  type OciHook,
  type OciMount,
} from "../../domain/oci-changes.js";
import { cleanPath } from "./paths.js";

/** What devices add to a container. */
export interface CdiEdits {
  /** `NAME=value`; replaces a variable of the same name. */
  readonly env: readonly string[];
  readonly devices: readonly DockerDevice[];
  readonly mounts: readonly DockerMount[];
  readonly groups: readonly string[];
  /** What Docker has no words for. */
  readonly beyondDocker?: {
    readonly changes: Pick<OciChanges, "hooks" | "mounts" | "deviceOwners">;
    /** The first of it, for the refusal where there is no OCI runtime. */
    readonly device: string;
    readonly part: string;
  };
}

/** Where mounts of devices lie. */
export function targetsOf({ mounts, beyondDocker }: CdiEdits): readonly string[] {
  const others = beyondDocker?.changes.mounts ?? [];
  return [...mounts.map(({ Target }) => Target), ...others.map(({ destination }) => destination)];
}

/** Of one specification, or of one of its devices. */
interface Edits {
  readonly device: string;
  readonly env: readonly string[];
  readonly nodes: readonly (DockerDevice & { readonly owner: DeviceOwner })[];
  readonly mounts: readonly (DockerMount | OciMount)[];
  readonly groups: readonly string[];
  readonly hooks: readonly (readonly [HookName, OciHook])[];
  /** Names of what Docker has no words for. */
  readonly beyond: readonly string[];
}

export type Table = Readonly<Record<string, unknown>>;

export function mergeEdits(all: readonly Edits[]): CdiEdits {
  const mounts = lastOfEachTarget(all.flatMap((edits) => edits.mounts));
  const nodes = all.flatMap((edits) => edits.nodes);
  const owners = nodes.flatMap(({ PathInContainer, owner }) =>
    Object.keys(owner).length === 0 ? [] : [[cleanPath(PathInContainer), owner] as const],
  );
  const hooks = all.flatMap((edits) => edits.hooks);
  const added = mounts.filter((mount) => "destination" in mount);
  const first = all.find(({ beyond }) => beyond.length > 0);
  return {
    env: all.flatMap((edits) => edits.env),
    devices: nodes.map(({ owner: _owner, ...device }) => device),
    mounts: mounts.filter((mount) => "Target" in mount),
    groups: [...new Set(all.flatMap((edits) => edits.groups))],
    ...(first === undefined
      ? {}
      : {
          beyondDocker: {
            device: first.device,
            part: first.beyond[0] ?? "",
            changes: {
              ...(hooks.length > 0 ? { hooks: byName(hooks) } : {}),
              ...(added.length > 0 ? { mounts: added } : {}),
              ...(owners.length > 0 ? { deviceOwners: Object.fromEntries(owners) } : {}),
            },
          },
        }),
  };
}

function byName(hooks: Edits["hooks"]): Readonly<Partial<Record<HookName, readonly OciHook[]>>> {
  const of = (name: HookName): readonly OciHook[] =>
    hooks.flatMap(([at, hook]) => (at === name ? [hook] : []));
  const used = hookNames.filter((name) => of(name).length > 0);
  return Object.fromEntries(used.map((name) => [name, of(name)]));
}

function lastOfEachTarget(mounts: Edits["mounts"]): Edits["mounts"] {
  const target = (mount: DockerMount | OciMount): string =>
    cleanPath("Target" in mount ? mount.Target : mount.destination);
  return [...new Map(mounts.map((mount) => [target(mount), mount])).values()];
}

const known = new Set(["env", "deviceNodes", "mounts", "additionalGids", "hooks"]);

export function toEdits(value: unknown, device: string): Edits {
  const edits = table(value);
  for (const [key, part] of Object.entries(edits)) {
    if (!known.has(key) && !isEmpty(part)) throw unsupportedPart(device, key);
  }
  const nodes = list(edits["deviceNodes"]).map((node) => toDevice(table(node), device));
  const mounts = list(edits["mounts"]).map((mount) => toMount(table(mount), device));
  const hooks = list(edits["hooks"]).map((hook) => toHook(table(hook), device));
  return {
    device,
    env: list(edits["env"]).map((entry) => text(entry, device, "env")),
    nodes,
    mounts,
    groups: list(edits["additionalGids"]).map((gid) => String(number(gid, device, "additionalGids"))),
    hooks,
    beyond: [
      ...hooks.map(() => "hooks"),
      ...nodes.flatMap(({ owner }) => Object.keys(owner).map((key) => `deviceNodes.${key}`)),
      ...mounts.flatMap((mount) =>
        "Target" in mount ? [] : [`mounts.options of ${quote(mount.destination)}`],
      ),
    ],
  };
}

const ownerKeys = ["fileMode", "uid", "gid"] as const;

function toDevice(node: Table, name: string): Edits["nodes"][number] {
  const path = text(node["path"], name, "deviceNodes.path");
  // Type, major and minor are those of the host's node: Docker looks them up itself.
  return {
    PathOnHost: isEmpty(node["hostPath"]) ? path : text(node["hostPath"], name, "deviceNodes.hostPath"),
    PathInContainer: path,
    CgroupPermissions: isEmpty(node["permissions"])
      ? "rwm"
      : text(node["permissions"], name, "deviceNodes.permissions"),
    owner: Object.fromEntries(
      ownerKeys.flatMap((key) =>
        isEmpty(node[key]) ? [] : [[key, number(node[key], name, `deviceNodes.${key}`)]],
      ),
    ),
  };
}

const propagations: Readonly<Record<string, string>> = {
  rprivate: "rprivate",
  private: "private",
  rslave: "rslave",
  slave: "slave",
  rshared: "rshared",
  shared: "shared",
};

/** Docker's where it can be: Docker checks the source, and shows the mount. */
function toMount(mount: Table, name: string): DockerMount | OciMount {
  const type = isEmpty(mount["type"]) ? "bind" : text(mount["type"], name, "mounts.type");
  const isBind = type === "bind" || type === "none";
  const options = list(mount["options"]).map((option) => text(option, name, "mounts.options"));
  const source = text(mount["hostPath"], name, "mounts.hostPath");
  const target = text(mount["containerPath"], name, "mounts.containerPath");
  const words = ["bind", "rbind", "ro", "rw"];
  if (!isBind || options.some((option) => !words.includes(option) && propagations[option] === undefined)) {
    const binds = !isBind || options.includes("bind") || options.includes("rbind");
    return {
      destination: cleanPath(target),
      type: isBind ? "bind" : type,
      source,
      options: binds ? options : ["rbind", ...options],
    };
  }
  const propagation = options.map((option) => propagations[option]).find((mode) => mode !== undefined);
  return {
    Type: "bind",
    Source: source,
    Target: target,
    ...(options.includes("ro") ? { ReadOnly: true } : {}),
    ...(propagation === undefined ? {} : { BindOptions: { Propagation: propagation } }),
  };
}

function toHook(hook: Table, name: string): readonly [HookName, OciHook] {
  const at = hookNames.find((each) => each === hook["hookName"]);
  if (at === undefined) throw malformed(name, "hooks.hookName");
  const path = text(hook["path"], name, "hooks.path");
  if (!path.startsWith("/")) throw malformed(name, "hooks.path");
  const texts = (key: "args" | "env"): Partial<Record<typeof key, readonly string[]>> =>
    isEmpty(hook[key]) ? {} : { [key]: list(hook[key]).map((entry) => text(entry, name, `hooks.${key}`)) };
  return [
    at,
    {
      path,
      ...texts("args"),
      ...texts("env"),
      ...(isEmpty(hook["timeout"]) ? {} : { timeout: number(hook["timeout"], name, "hooks.timeout") }),
    },
  ];
}

/** Not the path of a field: the name may come from an annotation as well. */
export const deviceField = "CDI device";

/** `why` follows what cannot be applied. */
export function unsupportedPart(device: string, part: string, why = ""): Error {
  const reason = `this engine cannot apply ${part} of the device's specification`;
  return unsupportedField(deviceField, why === "" ? reason : `${reason}, and ${why}`, device);
}

function malformed(name: string, part: string): Error {
  return preconditionField(deviceField, `the specification on the node has a malformed ${part}`, name);
}

export function table(value: unknown): Table {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Table) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown, name: string, part: string): string {
  if (typeof value !== "string" || value === "" || value.includes("\0")) throw malformed(name, part);
  return value;
}

function number(value: unknown, name: string, part: string): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) throw malformed(name, part);
  return value;
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0)
  );
}
