/** The gRPC server with every RPC that is built. */
import type { Logger } from "../base/log.js";
import type { Config } from "../config/resolve.js";
import type { ServiceHandlers } from "../grpc/handlers.js";
import { withItemBytes } from "../grpc/list-bytes.js";
import { loadCriApi } from "../grpc/proto.js";
import type { GrpcServer } from "../grpc/server.js";
import { startGrpcServer } from "../grpc/server.js";
import { isValidatedRpc, validateRequest } from "../grpc/validate/validate-request.js";
import type { Services } from "../rpc/services.js";
import { imageRpcs, runtimeRpcs } from "../rpc/table.js";
import type { Environment } from "./engine.js";

export async function serve(
  { containerRuntimeEndpoint }: Config,
  services: Services,
  log: Logger,
  environment: Environment,
): Promise<GrpcServer> {
  const api = loadCriApi();
  const runtime = runtimeRpcs(services);
  return startGrpcServer({
    endpoint: containerRuntimeEndpoint.kind === "unix" ? containerRuntimeEndpoint : { kind: "fd" },
    environment,
    api,
    log,
    validate: (rpc, request) => {
      // Both come from the same method definition, which the type of a callback cannot say.
      if (isValidatedRpc(rpc)) validateRequest(rpc, request as never);
    },
    handlers: {
      RuntimeService: validated({
        ...runtime,
        ListPodSandbox: withItemBytes(
          runtime.ListPodSandbox,
          ({ items }) => items ?? [],
          api.encodeItem.sandbox,
        ),
        ListContainers: withItemBytes(
          runtime.ListContainers,
          ({ containers }) => containers ?? [],
          api.encodeItem.container,
        ),
      }),
      ImageService: validated(imageRpcs(services)),
    },
  });
}

/** The server's form of handlers that take validated requests: it calls none before `validate` has returned. */
function validated<Service>(handlers: Readonly<Record<string, unknown>>): ServiceHandlers<Service> {
  return handlers as ServiceHandlers<Service>;
}
