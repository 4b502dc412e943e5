/** Resource limits, of new containers and of updates. */
import type { LinuxContainerResources } from "../../../domain/cri.js";
import { invalidField } from "../../../domain/field-errors.js";
import type { ResourcesField } from "../../plan/cgroups.js";
import { checkSwap } from "../../plan/resources.js";
import { at, int64, integer, maxInteger, noNul } from "./fields.js";

const cpuSetPattern = /^\d+(-\d+)?(,\d+(-\d+)?)*$/;
const pageSizePattern = /^[1-9]\d{0,6}(B|KB|MB|GB|TB|PB)$/;
/** The kernel's: a second. */
const maxCpuPeriod = 1_000_000n;
const maxUint64 = 2n ** 64n - 1n;

export function containerResources(field: ResourcesField, resources: LinuxContainerResources): void {
  const bytes = { min: -1n, max: int64.max };
  integer(`${field}.cpu_period`, resources.cpu_period, { min: 0n, max: maxCpuPeriod });
  integer(`${field}.cpu_quota`, resources.cpu_quota, { min: int64.min, max: maxInteger });
  integer(`${field}.cpu_shares`, resources.cpu_shares, { min: 0n, max: int64.max });
  integer(`${field}.memory_limit_in_bytes`, resources.memory_limit_in_bytes, bytes);
  integer(`${field}.memory_swap_limit_in_bytes`, resources.memory_swap_limit_in_bytes, bytes);
  integer(`${field}.oom_score_adj`, resources.oom_score_adj, { min: -1000n, max: 1000n });
  if (field === "config.linux.resources") {
    checkSwap(Number(resources.memory_limit_in_bytes), Number(resources.memory_swap_limit_in_bytes), field);
  }
  for (const name of ["cpuset_cpus", "cpuset_mems"] as const) {
    if (resources[name] !== "" && !cpuSetPattern.test(resources[name])) {
      throw invalidField(`${field}.${name}`, "is not a list such as 0-2,4", resources[name]);
    }
  }
  hugepageLimits(`${field}.hugepage_limits`, resources);
  unified(`${field}.unified`, resources);
}

function hugepageLimits(field: string, { hugepage_limits: limits }: LinuxContainerResources): void {
  limits.forEach(({ page_size, limit }, index) => {
    if (!pageSizePattern.test(page_size)) {
      throw invalidField(`${at(field, index)}.page_size`, "is not a size such as 2MB", page_size);
    }
    integer(`${at(field, index)}.limit`, limit, { min: 0n, max: maxUint64 });
  });
}

/** Keys become file names below the container's cgroup; files of the core (`cgroup.procs`) are no limits. */
function unified(field: string, { unified: settings }: LinuxContainerResources): void {
  for (const [key, value] of Object.entries(settings)) {
    if (!/^[A-Za-z0-9_]{1,64}(\.[A-Za-z0-9_]{1,64})+$/.test(key) || key.startsWith("cgroup.")) {
      throw invalidField(field, "is not a limit of a cgroup v2 controller", key);
    }
    noNul(`${field}[${key}]`, value);
  }
}
