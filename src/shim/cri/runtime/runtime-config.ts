import { CgroupDriver } from "../../../domain/cri.js";
import type { Handler } from "../services.js";

/** The engine's cgroup driver. A rootless engine without cgroups has none; the answer is then cgroupfs. */
export const runtimeConfig: Handler<"RuntimeConfig"> = async (_request, { state: { link } }, call) => {
  const { cgroupDriver } = await link.live(call.signal);
  return {
    linux: { cgroup_driver: cgroupDriver === "systemd" ? CgroupDriver.SYSTEMD : CgroupDriver.CGROUPFS },
  };
};

/** Hands the node's pod CIDRs (comma separated with dual stack) to the network plugin. */
export const updateRuntimeConfig: Handler<"UpdateRuntimeConfig"> = async (request, { network }) => {
  const text = request.runtime_config?.network_config?.pod_cidr ?? "";
  const cidrs = text.split(",").map((cidr) => cidr.trim());
  if (text !== "") await network.podCidrChanged(cidrs.filter((cidr) => cidr !== ""));
  return {};
};
