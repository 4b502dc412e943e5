/** What cAdvisor asks containerd. */
import { cadvisorMessages, cadvisorRpcs } from "../../../domain/cadvisor-descriptors.js";
import { ShimError } from "../../../lib/errors.js";
import { DescriptorTable } from "./descriptors.js";
import { methodOf, type Method } from "./method.js";

/** As containerd's clients call them. */
const paths: ReadonlyMap<string, string> = new Map([
  ["GetVersion", "/containerd.services.version.v1.Version/Version"],
  ["GetContainer", "/containerd.services.containers.v1.Containers/Get"],
  ["GetTask", "/containerd.services.tasks.v1.Tasks/Get"],
]);

export function cadvisorApi(): { readonly methods: readonly Method[] } {
  const methods = new DescriptorTable(cadvisorMessages).rpcs(cadvisorRpcs).map((rpc) => {
    const path = paths.get(rpc.name);
    if (path === undefined) throw new ShimError("internal", `the RPC ${rpc.name} has no path`);
    return methodOf(rpc, path);
  });
  return { methods };
}
