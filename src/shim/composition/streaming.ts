/** The streaming server: where exec, attach and port-forward are opened by their clients. */
import { readFile } from "node:fs/promises";
import { messageOf, ShimError } from "../base/errors.js";
import type { Lifetime } from "../base/lifetime.js";
import type { Logger } from "../base/log.js";
import type { Config } from "../config/resolve.js";
import { startStreamingServer, type RunningStreamingServer } from "../streaming/streaming-server.js";

/** Listens when it returns: every URL has a port. Throws what makes a start impossible, such as a port that is taken. */
export async function openStreaming(
  config: Config,
  log: Logger,
  lifetime: Lifetime,
): Promise<RunningStreamingServer> {
  const server = await startStreamingServer({
    bindAddress: config.streamingBindAddress,
    tls: await readTlsFiles(config),
    idleTimeoutMs: config.streamingConnectionIdleTimeoutMs,
    log,
  });
  lifetime.onClose("streaming server", () => server.stop(0));
  return server;
}

async function readTlsFiles({
  streamingTlsCertFile,
  streamingTlsPrivateKeyFile,
}: Config): Promise<{ readonly cert: Buffer; readonly key: Buffer } | undefined> {
  if (streamingTlsCertFile === undefined || streamingTlsPrivateKeyFile === undefined) return undefined;
  // One after the other: of two that cannot be read, always the same one is named.
  const cert = await readTlsFile("streaming-tls-cert-file", streamingTlsCertFile);
  const key = await readTlsFile("streaming-tls-private-key-file", streamingTlsPrivateKeyFile);
  return { cert, key };
}

/** Links are followed: tools that renew certificates exchange them in this way. */
async function readTlsFile(flag: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new ShimError(
      "invalid",
      `--${flag}: read ${JSON.stringify(path)}: ${messageOf(error)}`,
      { path },
      { cause: error },
    );
  }
}
