/** Every unary RPC of the CRI, in either version of the API, as a kubelet would call it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ServiceClientConstructor, ServiceError } from "@grpc/grpc-js";
import { Client, credentials, loadPackageDefinition, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { UnaryRpc } from "../../src/client/cri-connection.js";
import type { Answer, CriRpcs } from "../../src/domain/cri.js";

export type ApiVersion = "v1" | "v1alpha2";

export interface CallOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

type Calls = {
  readonly [Name in UnaryRpc]: (
    request?: Answer<CriRpcs[Name]["request"]>,
    options?: CallOptions,
  ) => Promise<CriRpcs[Name]["response"]>;
};

/** One method per RPC; failures are grpc-js errors with `code` and `details`. */
export type CriClient = Calls & Disposable;

const protoDirectory = join(fileURLToPath(new URL("../..", import.meta.url)), "proto", "runtime");
const maxMessageBytes = 16 * 1024 * 1024;
const defaultTimeoutMs = 120_000;

/** Nothing is sent before the first call. */
export function connectCri(socket: string, version: ApiVersion = "v1"): CriClient {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.default_authority": "localhost",
    // Channels of a process are shared by target: a test that starts a second server must not get the
    // first's.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 500,
  });
  const calls: Record<string, unknown> = {};
  const { RuntimeService, ImageService } = loadServices(version);
  for (const service of [RuntimeService, ImageService]) {
    for (const [name, method] of Object.entries(service.service)) {
      calls[name] = (request: object = {}, { timeoutMs = defaultTimeoutMs, signal }: CallOptions = {}) =>
        new Promise((resolve, reject) => {
          const running = client.makeUnaryRequest(
            method.path,
            method.requestSerialize,
            method.responseDeserialize,
            request,
            { deadline: Date.now() + timeoutMs },
            (error, answer) => {
              if (error === null) resolve(answer);
              else reject(error);
            },
          );
          signal?.addEventListener("abort", () => running.cancel(), { once: true });
        });
    }
  }
  // The .proto files of both versions have every unary RPC that tests call of them.
  return { ...(calls as unknown as Calls), [Symbol.dispose]: () => client.close() };
}

interface Services {
  readonly RuntimeService: ServiceClientConstructor;
  readonly ImageService: ServiceClientConstructor;
}

function loadServices(version: ApiVersion): Services {
  const options = { keepCase: true, longs: String, defaults: true, oneofs: true };
  const loaded = loadPackageDefinition(loadSync(join(protoDirectory, version, "api.proto"), options));
  const runtime = loaded["runtime"] as unknown as Readonly<Record<ApiVersion, Services>>;
  return runtime[version];
}

/** Fails unless the call is answered with that code, and a message that matches. Answers the message. */
export async function rejectsWith(
  call: Promise<unknown>,
  code: keyof typeof status,
  message: RegExp = /./,
): Promise<string> {
  let details = "";
  await assert.rejects(call, (error: ServiceError) => {
    details = error.details;
    assert.equal(status[error.code], code, error.message);
    assert.match(error.details, message);
    return true;
  });
  return details;
}
