import { messageOf } from "../../lib/errors.js";
import type { Sandbox } from "../../domain/sandbox.js";
import type { PodRecord } from "../../state/pod-records.js";
import type { Services } from "../services.js";

type Deps = Pick<Services, "model" | "podRecords" | "network" | "log">;

/**
 * Remembers that a sandbox is being stopped, so that it is not ready any more. One that an ancestor of this program made
 * has no record: it gets one, in which the tear-down of its network will be remembered.
 *
 * A full disk must not keep a pod running: in the end the stopped container says the same.
 */
export async function rememberStop(id: string, sandbox: Sandbox | undefined, deps: Deps): Promise<void> {
  const { model, podRecords, network, log } = deps;
  const record = podRecords.get(id);
  const isAdopted = record !== undefined && adopts(record, deps);
  try {
    if (record === undefined) {
      if (sandbox !== undefined) await podRecords.put(newRecord(sandbox, network.name));
    } else if (isAdopted || record.phase !== "stopped") {
      await podRecords.update(id, (present) => ({
        ...present,
        phase: "stopped",
        network: isAdopted ? { ...present.network, plugin: network.name } : present.network,
      }));
    }
  } catch (error) {
    log.warn({ sandboxId: id, err: messageOf(error) }, "cannot remember that the sandbox is being stopped");
  }
  model.recordChanged(id);
}

/**
 * Whether another plugin set the network up: the present one then releases it, as well as it can. It becomes the
 * network's plugin, so that this is said once.
 */
function adopts({ sandboxId, network: held }: PodRecord, { network, log }: Deps): boolean {
  if (held.plugin === network.name || held.state === "none" || held.state === "tornDown") return false;
  log.warn(
    { sandboxId, setUpBy: held.plugin, plugin: network.name },
    "another network plugin set this pod up, the present one tears it down",
  );
  return true;
}

/** What Docker tells of the sandbox. Whether its network was released already nobody can tell: then it is once more. */
function newRecord({ id, pod, ...sandbox }: Sandbox, plugin: string): PodRecord {
  const { network, pid, ipc } = sandbox.namespaces;
  return {
    version: 1,
    sandboxId: id,
    ...pod,
    phase: "stopped",
    runtimeHandler: sandbox.runtimeHandler,
    namespaces: { network, pid, ipc },
    network: { plugin, state: sandbox.hostNetwork ? "none" : "ready", ips: [] },
    logDirectory: "",
    cgroupParent: sandbox.snapshot.cgroupParent,
  };
}
