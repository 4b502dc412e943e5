import type { Answer, UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse } from "../../domain/cri.js";
import type { Services } from "../services.js";

/** Hands the node's pod CIDRs (comma separated with dual stack) to the network plugin. */
export async function updateRuntimeConfig(
  request: UpdateRuntimeConfigRequest,
  { network }: Pick<Services, "network">,
): Promise<Answer<UpdateRuntimeConfigResponse>> {
  const text = request.runtime_config?.network_config?.pod_cidr ?? "";
  const cidrs = text.split(",").map((cidr) => cidr.trim());
  if (text !== "") await network.podCidrChanged(cidrs.filter((cidr) => cidr !== ""));
  return {};
}
