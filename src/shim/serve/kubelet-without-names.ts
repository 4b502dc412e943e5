/** Whether the kubelet that runs on this node asks for the names of containers where this program serves them. */
import type { FlagFact } from "../../migrate/facts/facts.js";
import { askVersion } from "../../migrate/kubelet/ask-version.js";
import {
  cadvisorPath,
  firstMinorWithoutDocker,
  firstMinorWithoutFlag,
  lacksContainerdFlag,
} from "../../migrate/kubelet/containerd-flag.js";
import { askedVersion, findRunningKubelet, readService } from "../../migrate/kubelet/read-kubelet.js";
import { NodeFiles } from "../../migrate/files/node-files.js";
import { dockershimFlags } from "../../migrate/plan/kubelet-flags.js";

/** A line for the first screen; undefined when there is nothing to say, or no kubelet to see. */
export async function kubeletWithoutNames(
  endpoint: string,
  files = new NodeFiles("/"),
  askProgram = askVersion,
): Promise<string | undefined> {
  if (endpoint === "") return undefined;
  const flag = { name: "cadvisor-socket", value: endpoint, raw: [], file: "", line: 0 };
  const path = cadvisorPath([flag]);
  if (path === undefined) return undefined;
  const kubelet = await findRunningKubelet(files).catch(() => undefined);
  if (kubelet === undefined || !lacksContainerdFlag(kubelet.flags, path)) return undefined;
  if (await knowsNoFlag(kubelet.flags, files, askProgram)) return undefined;
  return `the kubelet (process ${kubelet.pid}) lacks --containerd=${path}: docs/run/container-metrics.md`;
}

/** Kubelets with a dockershim inside ask Docker themselves, whatever their runtime is; from 1.37 on they have no such flag. */
async function knowsNoFlag(
  flags: readonly FlagFact[],
  files: NodeFiles,
  askProgram: typeof askVersion,
): Promise<boolean> {
  if (flags.some(({ name }) => dockershimFlags.includes(name))) return true;
  // The service's program: any process may call itself a kubelet.
  const version = await readService(files, "kubelet.service")
    .then((service) => askedVersion(service, askProgram))
    .catch(() => undefined);
  if (version === undefined) return false;
  return version.minor < firstMinorWithoutDocker || version.minor >= firstMinorWithoutFlag;
}
