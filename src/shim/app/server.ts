/** The gRPC server with every RPC that is built. */
import type { Logger } from "../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { RuntimeService } from "../domain/cri.js";
import type { ServiceHandlers, StreamHandler } from "../grpc/handlers.js";
import { keepBytes, withItemBytes, withKeptList, withStreamedItemBytes } from "../grpc/codec/list-bytes.js";
import { loadCriApi } from "../grpc/codec/proto.js";
import type { GrpcServer } from "../grpc/server.js";
import { startGrpcServer } from "../grpc/server.js";
import { UnknownFields } from "../grpc/codec/unknown-fields.js";
import { isValidatedRpc, validateRequest } from "../grpc/validate/validate-request.js";
import type { Observer } from "../ports/observer.js";
import type { Services } from "../cri/services.js";
import { imageRpcs, runtimeRpcs } from "../cri/table.js";
import type { Environment } from "./engine.js";

export async function serve(
  { containerRuntimeEndpoint }: Config,
  services: Services,
  log: Logger,
  environment: Environment,
  observer?: Observer,
): Promise<GrpcServer> {
  const api = loadCriApi({ unknownFields: new UnknownFields(log, observer) });
  const runtime = runtimeRpcs(services);
  const images = imageRpcs(services);
  // Kept for list and stream alike.
  const sandboxBytes = keepBytes(api.encodeItem.sandbox);
  const containerBytes = keepBytes(api.encodeItem.container);
  // Every client gets the same events.
  const eventBytes = keepBytes(api.encodeItem.event);
  return startGrpcServer({
    endpoint: containerRuntimeEndpoint.kind === "unix" ? containerRuntimeEndpoint : { kind: "fd" },
    environment,
    api,
    log,
    observe: observer === undefined ? undefined : (ended) => observer.rpcEnded(ended),
    validate: (rpc, request) => {
      // Both come from the same method definition, which the type of a callback cannot say.
      if (isValidatedRpc(rpc)) validateRequest(rpc, request as never);
    },
    handlers: {
      RuntimeService: validated({
        ...runtime,
        ListPodSandbox: withKeptList(runtime.ListPodSandbox, ({ items }) => items ?? [], sandboxBytes),
        StreamPodSandboxes: withStreamedItemBytes(
          runtime.StreamPodSandboxes,
          ({ pod_sandboxes }) => pod_sandboxes ?? [],
          sandboxBytes,
        ),
        ListContainers: withKeptList(
          runtime.ListContainers,
          ({ containers }) => containers ?? [],
          containerBytes,
        ),
        StreamContainers: withStreamedItemBytes(
          runtime.StreamContainers,
          ({ containers }) => containers ?? [],
          containerBytes,
        ),
        ListContainerStats: withItemBytes(runtime.ListContainerStats, api.encodeItem.containerStats),
        StreamContainerStats: withStreamedItemBytes(
          runtime.StreamContainerStats,
          ({ container_stats }) => container_stats ?? [],
          api.encodeItem.containerStats,
        ),
        ListPodSandboxStats: withItemBytes(runtime.ListPodSandboxStats, api.encodeItem.sandboxStats),
        StreamPodSandboxStats: withStreamedItemBytes(
          runtime.StreamPodSandboxStats,
          ({ pod_sandbox_stats }) => pod_sandbox_stats ?? [],
          api.encodeItem.sandboxStats,
        ),
        ListPodSandboxMetrics: withItemBytes(runtime.ListPodSandboxMetrics, api.encodeItem.sandboxMetrics),
        StreamPodSandboxMetrics: withStreamedItemBytes(
          runtime.StreamPodSandboxMetrics,
          ({ pod_sandbox_metrics }) => pod_sandbox_metrics ?? [],
          api.encodeItem.sandboxMetrics,
        ),
        GetContainerEvents: ((request, call, send) =>
          runtime.GetContainerEvents(request, call, (event) =>
            send(eventBytes(event)),
          )) satisfies StreamHandler<RuntimeService["GetContainerEvents"]>,
      }),
      ImageService: validated({
        ...images,
        StreamImages: withStreamedItemBytes(
          images.StreamImages,
          (message) => message.images ?? [],
          api.encodeItem.image,
        ),
      }),
    },
  });
}

/** The server's form of handlers that take validated requests: it calls none before `validate` has returned. */
function validated<Service>(handlers: Readonly<Record<string, unknown>>): ServiceHandlers<Service> {
  return handlers as ServiceHandlers<Service>;
}
