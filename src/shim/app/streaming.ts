/** The streaming server: where exec, attach and port-forward are opened by their clients. */
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import type { Config } from "../config/resolve.js";
import { startStreamingServer, type RunningStreamingServer } from "../streaming/streaming-server.js";
import { TlsFiles } from "../streaming/tls-files.js";

/** Listens when it returns: every URL has a port. Throws what makes a start impossible, such as a port that is taken. */
export async function openStreaming(
  config: Config,
  log: Logger,
  lifetime: Lifetime,
): Promise<RunningStreamingServer> {
  const files = tlsFilesOf(config);
  const server = await startStreamingServer({
    bindAddress: config.streamingBindAddress,
    tls: files && { ...(await files.read()), renewed: () => files.renewed() },
    idleTimeoutMs: config.streamingConnectionIdleTimeoutMs,
    log,
  });
  lifetime.onClose("streaming server", () => server.stop(0));
  return server;
}

function tlsFilesOf({
  streamingTlsCertFile: cert,
  streamingTlsPrivateKeyFile: key,
}: Config): TlsFiles | undefined {
  return cert === undefined || key === undefined ? undefined : new TlsFiles({ cert, key });
}
