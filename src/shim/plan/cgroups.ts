/** The cgroup parent of a pod, and limits that are written into the cgroup of a container. */
import type { LinuxContainerResources } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { CgroupSettings } from "../ports/host.js";
import { invalidField } from "../../domain/field-errors.js";
import { unlessBlank } from "../../domain/create-body.js";
import { climbs } from "./paths.js";

/** The path of the resources in a request, for error messages. */
export type ResourcesField = "linux" | "config.linux.resources";

/**
 * The cgroup parent of a pod in the form that the engine's cgroup driver takes: with cgroupfs the path as it
 * is; with systemd the name of the slice, which is its last part (`/kubepods.slice/kubepods-podX.slice` →
 * `kubepods-podX.slice`); without a driver none.
 */
export function cgroupParent(
  requested: string,
  driver: NodeFacts["cgroupDriver"],
  field: string,
): string | undefined {
  if (climbs(requested)) throw invalidField(field, 'has a ".." part', requested);
  if (requested === "" || driver === "none") return undefined;
  if (driver === "cgroupfs") return requested;
  const slice = unlessBlank(requested.replace(/\/+$/, "").replace(/^.*\//, ""));
  if (slice?.endsWith(".slice") !== true) {
    throw invalidField(
      field,
      "the engine uses the systemd cgroup driver, which needs a path that ends in .slice (is the client's cgroup driver cgroupfs?)",
      requested,
    );
  }
  return slice;
}

/**
 * Limits that the Engine API has no field for: they are written into the container's cgroup after its start.
 * Undefined when the request asks for none.
 */
export function cgroupSettings(
  resources: LinuxContainerResources | null | undefined,
  facts: NodeFacts,
  field: ResourcesField,
): CgroupSettings | undefined {
  if (resources === null || resources === undefined) return undefined;
  const unified = Object.keys(resources.unified);
  if (unified.length > 0 && facts.cgroupVersion === 1) {
    throw invalidField(
      `${field}.unified[${unified[0] ?? ""}]`,
      "the node has cgroup v1, unified settings need v2",
    );
  }
  if (unified.length === 0 && resources.hugepage_limits.length === 0) return undefined;
  return requestedSettings(resources);
}

/** Whatever the node is. */
export function requestedSettings({ unified, hugepage_limits }: LinuxContainerResources): CgroupSettings {
  const hugepages = hugepage_limits.map(({ page_size, limit }) => ({
    pageSize: page_size,
    limitBytes: BigInt(limit),
  }));
  return { unified, hugepages };
}

function isSentForEveryContainer([key, value]: readonly [string, string]): boolean {
  return key === "memory.oom.group" || (key === "memory.swap.max" && value === "0");
}

/** Whether a container must not run without some of these settings. */
export function needsCgroup(settings: CgroupSettings): boolean {
  const { unified, hugepages } = splitByNeed(settings).needed;
  return Object.keys(unified).length > 0 || hugepages.length > 0;
}

/**
 * The settings without which a container must not run, and those that kubelets send for every container:
 * hugepage limits of 0, which the pod's cgroup enforces, too; on cgroup v2 `memory.oom.group`; and, unless
 * the node lets pods swap, a `memory.swap.max` of 0, which Docker sets itself with a memory limit
 * (`MemorySwap` equals `Memory`). Where the cgroup is out of reach, a container may run without those, else
 * no pod could run.
 */
export function splitByNeed({ unified, hugepages }: CgroupSettings): {
  readonly needed: CgroupSettings;
  readonly others: CgroupSettings;
} {
  const entries = Object.entries(unified);
  return {
    needed: {
      unified: Object.fromEntries(entries.filter((entry) => !isSentForEveryContainer(entry))),
      hugepages: hugepages.filter(({ limitBytes }) => limitBytes > 0n),
    },
    others: {
      unified: Object.fromEntries(entries.filter(isSentForEveryContainer)),
      hugepages: hugepages.filter(({ limitBytes }) => limitBytes === 0n),
    },
  };
}
