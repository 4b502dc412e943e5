/** A streaming server on loopback that must be empty when the test ends. */
import assert from "node:assert/strict";
import {
  startStreamingServer,
  type RunningStreamingServer,
  type StreamingServerOptions,
} from "../../src/shim/streaming/streaming-server.js";
import { recordingLog, type LogLine } from "../fakes/recording-log.js";
import { until } from "../fakes/turns.js";

export interface StreamingBed extends AsyncDisposable {
  readonly server: RunningStreamingServer;
  readonly lines: readonly LogLine[];
  /** Waits until no session runs and no client is connected. */
  empty(): Promise<void>;
}

export async function startStreamingBed(
  options: Partial<StreamingServerOptions> = {},
): Promise<StreamingBed> {
  const log = recordingLog();
  const server = await startStreamingServer({
    bindAddress: { host: "127.0.0.1", port: 0 },
    idleTimeoutMs: 0,
    log,
    ...options,
  });
  const bed: StreamingBed = {
    server,
    lines: log.lines,
    async empty() {
      await until("all sessions ended", () => server.running === 0);
      await until("all connections closed", () => server.connections === 0);
    },
    async [Symbol.asyncDispose]() {
      await server.stop(0);
      assert.equal(server.running, 0);
      assert.equal(server.connections, 0);
    },
  };
  return bed;
}
