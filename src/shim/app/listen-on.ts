/** Where the servers of this program listen: on a socket that systemd has passed, or on one of their own. */
import type { ListenEndpoint } from "../config/endpoints.js";
import type { GrpcServerOptions } from "../grpc/server.js";
import { ProcFiles } from "../host/processes/proc-files.js";
import { awaitsService, descriptorAt } from "../host/unix-listeners.js";
import { passedDescriptors } from "../../lib/linux/systemd.js";
import type { Environment } from "./open-engine.js";

/**
 * A path at which a passed socket listens is served on that one: unit files of cri-dockerd name it beside their
 * socket unit. Where systemd listens there for another service that does not run, this server takes the path.
 */
export async function listenOn(
  endpoint: ListenEndpoint,
  environment: Environment,
  name?: "cadvisor",
): Promise<Pick<GrpcServerOptions, "endpoint" | "environment" | "isFree">> {
  if (endpoint.kind === "systemd")
    return { endpoint: name === undefined ? { kind: "fd" } : { kind: "fd", name }, environment };
  const proc = new ProcFiles();
  const { path } = endpoint;
  const descriptor = await descriptorAt(proc, path, passedDescriptors(environment, process.pid));
  if (descriptor !== undefined) return { endpoint: { kind: "fd", descriptor, path } };
  return { endpoint, isFree: (at) => awaitsService(proc, at) };
}
