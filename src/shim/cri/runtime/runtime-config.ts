import type { Call } from "../../../lib/call.js";
import {
  type Answer,
  type RuntimeConfigResponse,
  type UpdateRuntimeConfigRequest,
  type UpdateRuntimeConfigResponse,
  CgroupDriver,
} from "../../../domain/cri.js";
import type { Services } from "../services.js";

/** The engine's cgroup driver. A rootless engine without cgroups has none; the answer is then cgroupfs. */
export async function runtimeConfig(
  _request: unknown,
  { state: { link } }: Services,
  call: Call,
): Promise<Answer<RuntimeConfigResponse>> {
  const { cgroupDriver } = await link.live(call.signal);
  return {
    linux: { cgroup_driver: cgroupDriver === "systemd" ? CgroupDriver.SYSTEMD : CgroupDriver.CGROUPFS },
  };
}

/** Hands the node's pod CIDRs (comma separated with dual stack) to the network plugin. */
export async function updateRuntimeConfig(
  request: UpdateRuntimeConfigRequest,
  { network }: Services,
): Promise<Answer<UpdateRuntimeConfigResponse>> {
  const text = request.runtime_config?.network_config?.pod_cidr ?? "";
  const cidrs = text.split(",").map((cidr) => cidr.trim());
  if (text !== "") await network.podCidrChanged(cidrs.filter((cidr) => cidr !== ""));
  return {};
}
