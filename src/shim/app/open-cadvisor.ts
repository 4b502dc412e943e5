/** The server for cAdvisor: the names of containers, on a socket of its own. */
import { cadvisorRpcs, type CadvisorServices } from "../cadvisor/cadvisor-rpcs.js";
import type { Config } from "../config/resolve.js";
import { cadvisorApi } from "../grpc/codec/cadvisor-api.js";
import { type GrpcServer, startGrpcServer } from "../grpc/server.js";
import { ProcFiles } from "../host/processes/proc-files.js";
import { listenerOf } from "../host/unix-listeners.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Observer } from "../ports/observer.js";
import { listenOn } from "./listen-on.js";
import type { Environment } from "./open-engine.js";

/** Undefined when it is off, or the default's socket cannot be had. Rejects for one that was asked for. */
export async function openCadvisor(
  {
    cadvisorSocket: socket,
    cadvisorSocketRequired,
  }: Pick<Config, "cadvisorSocket" | "cadvisorSocketRequired">,
  services: CadvisorServices,
  log: Logger,
  environment: Environment,
  observer?: Observer,
): Promise<GrpcServer | undefined> {
  if (socket === undefined) return undefined;
  try {
    return await startGrpcServer({
      ...(await listenOn(socket, environment, "cadvisor")),
      api: cadvisorApi(),
      log,
      observe: observer === undefined ? undefined : (ended) => observer.rpcEnded(ended),
      rpcs: cadvisorRpcs(services),
    });
  } catch (error) {
    const refused = await withListener(error, socket.kind === "unix" ? socket.path : "");
    if (cadvisorSocketRequired) throw refused.within('"--cadvisor-socket"');
    log.warn(
      { err: refused.message },
      "container metrics have no names: give another path with --cadvisor-socket, or none with --cadvisor-socket=",
    );
    return undefined;
  }
}

/** Names the process that has the socket, as far as it is of this node. */
async function withListener(error: unknown, path: string): Promise<ShimError> {
  const refused = ShimError.from(error);
  if (refused.kind !== "conflict") return refused;
  const listener = await listenerOf(new ProcFiles(), path).catch(() => undefined);
  return listener === undefined ? refused : new ShimError("conflict", `${refused.message}: ${listener}`);
}
