import { podResources } from "../../plan/resources.js";
import { requireReadSandbox } from "../find-by-id.js";
import type { Handler } from "../services.js";

/**
 * Only writes the resources into the record, for verbose statuses: the kubelet has changed the pod's cgroup
 * already, and the pause container has no limits of its own. Absent fields stay. A sandbox of another program
 * has no record, and the call succeeds.
 */
export const updatePodSandboxResources: Handler<"UpdatePodSandboxResources"> = async (
  request,
  services,
  call,
) => {
  const { link } = services.state;
  const { pods: podRecords } = services.records;
  await link.live(call.signal);
  const { id } = await requireReadSandbox(request.pod_sandbox_id, services, call.signal);
  const given = podResources(request, "");
  if (given === undefined || podRecords.get(id) === undefined) return {};
  await podRecords.update(id, (record) => ({
    ...record,
    resources: {
      overhead: given.overhead ?? record.resources?.overhead ?? null,
      resources: given.resources ?? record.resources?.resources ?? null,
    },
  }));
  return {};
};
