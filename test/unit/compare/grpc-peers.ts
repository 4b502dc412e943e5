/** A gRPC server and client that echo bytes, for tests of what stands between them, and calls as they come through. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CriVersion } from "../../../src/client/cri-connection.js";
import { criMethods } from "../../../src/client/cri-messages.js";
import type { PipedCall } from "../../../src/compare/relay/call-pipe.js";
import {
  Client,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  credentials,
  type handleServerStreamingCall,
  type handleUnaryCall,
  status,
} from "@grpc/grpc-js";

export const bytesAsTheyAre = (bytes: Buffer): Buffer => bytes;
export const method = (name: string): string => `/test.Service/${name}`;

/** A directory that is removed with the test. */
export function temporaryDirectory(t: { after(work: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), "shadow-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Echo (one answer), Repeat (five), Fail (details, trailers), Hang, Large (so many bytes as it is asked). */
export async function startEchoServer(socket: string): Promise<{ stop(): void }> {
  const server = new Server({
    "grpc.max_receive_message_length": 20 * 1024 * 1024,
    "grpc.max_send_message_length": 20 * 1024 * 1024,
  });
  const unary = (name: string, handle: handleUnaryCall<Buffer, Buffer>): void => {
    server.register(method(name), handle, bytesAsTheyAre, bytesAsTheyAre, "unary");
  };
  const repeat: handleServerStreamingCall<Buffer, Buffer> = (call) => {
    for (let index = 0; index < 5; index += 1) call.write(Buffer.concat([Buffer.of(index), call.request]));
    call.end();
  };
  server.register(method("Repeat"), repeat, bytesAsTheyAre, bytesAsTheyAre, "serverStream");
  unary("Echo", (call, answer) => {
    const trailers = new Metadata();
    trailers.set("seen", String(call.metadata.get("mark")[0] ?? ""));
    answer(null, call.request, trailers);
  });
  unary("Fail", (_call, answer) => {
    const metadata = new Metadata();
    metadata.set("grpc-status-details-bin", Buffer.from("details"));
    answer({ code: status.NOT_FOUND, details: 'no such pod "ü%": gone', metadata });
  });
  unary("Hang", () => undefined);
  unary("Large", (call, answer) => answer(null, Buffer.alloc(Number(call.request.toString()), "x")));
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(error);
    }),
  );
  return { stop: () => server.forceShutdown() };
}

export function connectClient(socket: string): Client {
  return new Client(`unix:${socket}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": 20 * 1024 * 1024,
    "grpc.max_send_message_length": 20 * 1024 * 1024,
    "grpc.default_authority": "localhost",
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 100,
  });
}

export interface Answered {
  readonly error: ServiceError | null;
  readonly bytes: Buffer | undefined;
  readonly trailers: Metadata | undefined;
}

export function callUnary(
  client: Client,
  name: string,
  request: Buffer,
  { mark = "", deadlineMs = 20_000, cancel = false } = {},
): Promise<Answered> {
  return new Promise((resolve) => {
    const metadata = new Metadata();
    if (mark !== "") metadata.set("mark", mark);
    let answered: { error: ServiceError | null; bytes: Buffer | undefined } | undefined;
    const call = client.makeUnaryRequest(
      method(name),
      bytesAsTheyAre,
      bytesAsTheyAre,
      request,
      metadata,
      { deadline: Date.now() + deadlineMs },
      (error, bytes) => {
        answered = { error, bytes };
      },
    );
    call.on("status", ({ metadata: trailers }) =>
      setImmediate(() => resolve({ error: answered?.error ?? null, bytes: answered?.bytes, trailers })),
    );
    if (cancel) setTimeout(() => call.cancel(), 50);
  });
}

export function callStream(client: Client, name: string, request: Buffer): Promise<readonly Buffer[]> {
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    const call = client.makeServerStreamRequest(method(name), bytesAsTheyAre, bytesAsTheyAre, request);
    call.on("data", (bytes: Buffer) => received.push(bytes));
    call.on("error", reject);
    call.on("end", () => resolve(received));
  });
}

export type CriHandler = (done: (error: object | null, answer?: object) => void) => void;

/** A CRI server with some RPCs; returns its socket. Handlers may be replaced while it serves. */
export async function startCriServer(
  t: { after(work: () => void): void },
  handlers: Record<string, CriHandler>,
): Promise<string> {
  const socket = join(temporaryDirectory(t), "s");
  const server = await serveCri(socket, handlers);
  t.after(() => server.stop());
  return socket;
}

/** As `startCriServer`, with the services of one version alone. */
export async function serveCri(
  socket: string,
  handlers: Record<string, CriHandler>,
  version: CriVersion = "v1",
): Promise<{ stop(): void }> {
  const server = new Server();
  for (const name of Object.keys(handlers)) {
    const method = criMethods().get(name);
    assert.ok(method);
    server.register(
      method.path.replace("/runtime.v1.", `/runtime.${version}.`),
      (_call: unknown, done: Parameters<CriHandler>[0]) => handlers[name]?.(done),
      method.responseSerialize,
      method.requestDeserialize,
      "unary",
    );
  }
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(error);
    }),
  );
  return { stop: () => server.forceShutdown() };
}

export function piped(
  rpc: string,
  request: object,
  response: object,
  given: Partial<PipedCall> = {},
): PipedCall {
  const method = criMethods().get(rpc);
  assert.ok(method);
  return {
    path: method.path,
    requests: [{ bytes: method.requestSerialize(request), compressed: false }],
    responses: [{ bytes: method.responseSerialize(response), compressed: false }],
    isTruncated: false,
    status: { code: 0, message: "OK" },
    end: "answered",
    startedMs: 100,
    endedMs: 112.345678,
    unobserved: { dropped: 0, givenUp: 0 },
    ...given,
  };
}
