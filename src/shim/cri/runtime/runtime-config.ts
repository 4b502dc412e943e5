import type { Call } from "../../lib/call.js";
import type { Answer, RuntimeConfigResponse } from "../../domain/cri.js";
import { CgroupDriver } from "../../domain/cri.js";
import type { Services } from "../services.js";

/** The engine's cgroup driver. A rootless engine without cgroups has none: cgroupfs is said, and no parent is set. */
export async function runtimeConfig(
  _request: unknown,
  { link }: Pick<Services, "link">,
  call: Call,
): Promise<Answer<RuntimeConfigResponse>> {
  const { cgroupDriver } = await link.live(call.signal);
  return {
    linux: { cgroup_driver: cgroupDriver === "systemd" ? CgroupDriver.SYSTEMD : CgroupDriver.CGROUPFS },
  };
}
