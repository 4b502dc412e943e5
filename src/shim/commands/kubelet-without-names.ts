/** Whether the kubelet that runs on this node asks for the names of containers where this program tells them. */
import { cadvisorPath, lacksContainerdFlag } from "../../migrate/kubelet/containerd-flag.js";
import { findRunningKubelet } from "../../migrate/kubelet/read-kubelet.js";
import { NodeFiles } from "../../migrate/node/node-files.js";

/** A line for the first screen; undefined when there is nothing to say, or no kubelet to see. */
export async function kubeletWithoutNames(
  endpoint: string,
  files = new NodeFiles("/"),
): Promise<string | undefined> {
  if (endpoint === "") return undefined;
  const flag = { name: "cadvisor-socket", value: endpoint, raw: [], file: "", line: 0 };
  const path = cadvisorPath([flag]);
  if (path === undefined) return undefined;
  const kubelet = await findRunningKubelet(files).catch(() => undefined);
  // Kubelets with a dockershim inside had this flag for any other runtime, and ask Docker themselves.
  if (kubelet === undefined || !lacksContainerdFlag(kubelet.flags, path)) return undefined;
  return `the kubelet (process ${kubelet.pid}) lacks --containerd=${path}: docs/container-metrics.md`;
}
