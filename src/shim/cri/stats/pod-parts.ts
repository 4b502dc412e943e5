/** The sandboxes and containers whose statistics are read. */
import type { Container } from "../../../domain/container.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import type { PodParts } from "../../ports/stats.js";
import type { ReadModel } from "../../state/read-model.js";

/** A ready sandbox, with its running containers. */
export interface RunningPod extends PodParts {
  readonly pod: Sandbox;
  readonly running: readonly Container[];
}

/** A cgroup parent that several sandboxes of the node have is not the cgroup of one pod. */
export function runningPods(
  wanted: readonly Sandbox[],
  model: Pick<ReadModel, "containersOf" | "sandboxes">,
): readonly RunningPod[] {
  const shared = sharedParents(model.sandboxes());
  return wanted
    .filter(({ ready }) => ready)
    .map((pod) => {
      const running = model.containersOf(pod.id).filter(isRunning);
      const { cgroupParent } = pod.snapshot;
      return {
        pod,
        running,
        sandbox: pod.snapshot,
        containers: running.map(({ snapshot }) => snapshot),
        hostNetwork: pod.hostNetwork,
        hasOwnCgroup: cgroupParent !== "" && !shared.has(cgroupParent),
      };
    });
}

/** Also of a paused container. */
export function isRunning({ snapshot }: Container): boolean {
  return snapshot.state.running;
}

/** Parents of several running sandboxes, and cgroups above a parent: `/a` of `/a/b`, `a.slice` of `a-b.slice`. */
function sharedParents(sandboxes: Iterable<Sandbox>): ReadonlySet<string> {
  const seen = new Set<string>();
  const shared = new Set<string>();
  for (const { snapshot } of sandboxes) {
    const { cgroupParent, state } = snapshot;
    if (!state.running || cgroupParent === "") continue;
    if (seen.has(cgroupParent)) shared.add(cgroupParent);
    seen.add(cgroupParent);
    for (const above of parentsAbove(cgroupParent)) shared.add(above);
  }
  return shared;
}

function* parentsAbove(cgroupParent: string): Iterable<string> {
  const [separator, end] = cgroupParent.endsWith(".slice") ? ["-", ".slice"] : ["/", ""];
  const name = cgroupParent.slice(0, cgroupParent.length - end.length);
  for (let at = name.lastIndexOf(separator); at > 0; at = name.lastIndexOf(separator, at - 1))
    yield name.slice(0, at) + end;
}
