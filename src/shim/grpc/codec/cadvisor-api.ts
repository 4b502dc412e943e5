/** What cAdvisor asks containerd, read from proto/ at start: the same codec as the CRI's. */
import { join } from "node:path";
import { loadSync, type ServiceDefinition } from "@grpc/proto-loader";
import { ShimError } from "../../../lib/errors.js";
import { packageDirectory } from "../../../lib/package-directory.js";
import type { FindMessage, MessageDescriptor } from "./message-decoder.js";
import { loadOptions, type Method, methodsOf } from "./proto.js";

/** As containerd's clients call them. */
const paths: ReadonlyMap<string, string> = new Map([
  ["GetVersion", "/containerd.services.version.v1.Version/Version"],
  ["GetContainer", "/containerd.services.containers.v1.Containers/Get"],
  ["GetTask", "/containerd.services.tasks.v1.Tasks/Get"],
]);

const packageName = "dockershim.cadvisor";

/** `internal` when the installation lacks its proto files. */
export function loadCadvisorApi(directory = join(packageDirectory(), "proto")): {
  readonly methods: readonly Method[];
} {
  const loaded = loadSync(join(directory, "cadvisor.proto"), loadOptions);
  const findMessage: FindMessage = (name) =>
    (loaded[`${packageName}.${name}`] as { readonly type?: MessageDescriptor } | undefined)?.type;
  const definition = loaded[`${packageName}.Containers`] as ServiceDefinition;
  const methods = methodsOf(definition, findMessage).map((method) => {
    const path = paths.get(method.name);
    if (path === undefined) throw new ShimError("internal", `the RPC ${method.name} has no path`);
    return { ...method, path };
  });
  return { methods };
}
