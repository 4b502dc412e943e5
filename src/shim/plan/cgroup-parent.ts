/** The cgroup parent of a pod in the form that the engine's cgroup driver takes. */
import type { NodeFacts } from "../domain/node-facts.js";
import { unlessBlank } from "./defined.js";
import { invalidField } from "../domain/field-errors.js";
import { climbs } from "./paths.js";

/**
 * cgroupfs takes the path as it is; systemd takes the name of the slice, which is the path's last part
 * (`/kubepods.slice/kubepods-podX.slice` → `kubepods-podX.slice`); an engine without cgroups takes none.
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
