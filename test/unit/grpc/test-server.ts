import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { rpcs as table } from "../../../src/shim/cri/rpcs.js";
import type { Answer, CriRpcs } from "../../../src/domain/cri.js";
import type { Rpc } from "../../../src/shim/grpc/handlers.js";
import { ofNothing } from "../../../src/shim/grpc/request-subject.js";
import type { Call } from "../../../src/lib/call.js";
import { criApi } from "../../../src/shim/grpc/codec/cri-api.js";
import { startGrpcServer, type GrpcServer, type GrpcServerOptions } from "../../../src/shim/grpc/server.js";
import { recordingLogger, type LogRecord } from "./recording-logger.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

export const api = criApi();

export type Message = Record<string, unknown>;

export interface TestServer extends AsyncDisposable {
  readonly server: GrpcServer;
  readonly path: string;
  readonly records: LogRecord[];
}

export type Handlers = {
  readonly [Name in keyof CriRpcs]?: (
    request: CriRpcs[Name]["request"],
    call: Call,
    send: (message: Answer<CriRpcs[Name]["response"]> | Buffer) => Promise<void>,
  ) => CriRpcs[Name]["stream"] extends true
    ? Promise<void>
    : Promise<Answer<CriRpcs[Name]["response"]> | Buffer>;
};

/** A CRI server on a socket of its own, with the given handlers for rows of the RPC table. Nothing is validated. */
export async function startTestServer(
  handlers: Handlers,
  options: Partial<GrpcServerOptions> = {},
): Promise<TestServer> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "cri.sock");
  const { log, records } = recordingLogger();
  const rows: Readonly<Record<string, unknown>> = table;
  const rpcs = new Map(
    Object.entries(handlers).map(([name, handle]) => {
      const { readOnly = false, subject = ofNothing } = (rows[name] ?? {}) as Partial<Rpc>;
      return [name, { handle: handle as unknown as Rpc["handle"], readOnly, subject }];
    }),
  );
  const server = await startGrpcServer({ endpoint: { kind: "unix", path }, api, log, rpcs, ...options });
  return {
    server,
    path,
    records,
    async [Symbol.asyncDispose]() {
      await server.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

export type Version = "v1" | "v1alpha2";

export interface TestClient extends Disposable {
  /** The answer of a unary call; rejects with a grpc.ServiceError. */
  call(rpc: string, request: Message, options?: grpc.CallOptions, metadata?: grpc.Metadata): Promise<Message>;
  /** The same, with a handle to cancel it. */
  start(rpc: string, request: Message): { readonly answer: Promise<Message>; cancel(): void };
  stream(rpc: string, request: Message): grpc.ClientReadableStream<Message>;
}

type Unary = (
  request: Message,
  metadata: grpc.Metadata,
  options: grpc.CallOptions,
  callback: (error: grpc.ServiceError | null, answer?: Message) => void,
) => grpc.ClientUnaryCall;

const packages = new Map<Version, grpc.GrpcObject>();

export function connectClient(
  path: string,
  version: Version = "v1",
  service = "RuntimeService",
  authority = "localhost",
): TestClient {
  let definition = packages.get(version);
  if (definition === undefined) {
    const file = new URL(`../../../proto/runtime/${version}/api.proto`, import.meta.url).pathname;
    definition = grpc.loadPackageDefinition(
      loadSync(file, { keepCase: true, longs: String, defaults: true }),
    );
    packages.set(version, definition);
  }
  const Client = (definition["runtime"] as Record<Version, Record<string, grpc.ServiceClientConstructor>>)[
    version
  ][service];
  if (Client === undefined) throw new Error(`no ${service}`);
  const client = new Client(`unix:${path}`, grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    // Calls of one client must not share the connection of another test.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.default_authority": authority,
  });
  const methods = client as unknown as Record<string, Unary | undefined>;
  const start = (
    rpc: string,
    request: Message,
    options: grpc.CallOptions,
    metadata = new grpc.Metadata(),
  ) => {
    let handle: grpc.ClientUnaryCall | undefined;
    const answer = new Promise<Message>((resolve, reject) => {
      handle = methods[rpc]?.call(client, request, metadata, options, (error, message) => {
        if (error !== null || message === undefined) reject(error ?? new Error("no answer"));
        else resolve(message);
      });
    });
    return { answer, cancel: () => handle?.cancel() };
  };
  return {
    call: (rpc, request, options = {}, metadata?) => start(rpc, request, options, metadata).answer,
    start: (rpc, request) => start(rpc, request, {}),
    stream: (rpc, request) =>
      (methods[rpc] as unknown as (request: Message) => grpc.ClientReadableStream<Message>).call(
        client,
        request,
      ),
    [Symbol.dispose]() {
      client.close();
    },
  };
}
