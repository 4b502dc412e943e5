import type { Mount } from "../../domain/cri.js";
import { cleanPath } from "./paths.js";

/**
 * The mounts that a container sees, with their index in the request: of several at one path (`/a`, `/a/`) the
 * last one, which with other runtimes lies on top. Docker takes a path only once. A mount at one of
 * `laterTargets` is hidden, too.
 */
export function visibleMounts(
  mounts: readonly Mount[],
  laterTargets: readonly string[] = [],
): readonly (readonly [index: number, mount: Mount])[] {
  const last = new Map(mounts.map(({ container_path }, index) => [cleanPath(container_path), index]));
  for (const target of laterTargets) last.delete(cleanPath(target));
  return [...mounts.entries()].filter(
    ([index, { container_path }]) => last.get(cleanPath(container_path)) === index,
  );
}
