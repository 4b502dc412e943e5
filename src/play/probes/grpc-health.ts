/** One call of `grpc.health.v1.Health/Check` over HTTP/2: grpc-js cannot dial by a function. */
import { connect, constants, type IncomingHttpHeaders } from "node:http2";
import { linkAbort } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { addressText, type Address, type Dial } from "../cri/dial.js";
import { userAgent } from "./http-get.js";

const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;
export type ServingStatus = (typeof servingStatuses)[number];

const messageBytes = 4096;
const grpcUnimplemented = 12;

/** Rejects with `unavailable` (no answer), `unsupported` (out of reach) or `precondition` (an error). */
export async function checkHealth(
  address: Address,
  service: string,
  dial: Dial,
  signal: AbortSignal,
): Promise<ServingStatus> {
  const socket = await dial(address, signal);
  const authority = addressText(address);
  const session = connect(`http://${authority}`, { createConnection: () => socket });
  let link: Disposable | undefined;
  try {
    return await new Promise<ServingStatus>((resolve, reject) => {
      const fail = (error: Error): void =>
        reject(new ShimError("unavailable", `ask ${authority}: ${error.message}`, {}, { cause: error }));
      link = linkAbort(signal, () => {
        reject(ShimError.from(signal.reason));
        session.destroy();
      });
      session.once("error", fail);
      session.once("close", () => fail(new Error("the connection has ended")));
      const stream = session.request({
        [constants.HTTP2_HEADER_METHOD]: "POST",
        [constants.HTTP2_HEADER_PATH]: "/grpc.health.v1.Health/Check",
        "content-type": "application/grpc",
        "user-agent": userAgent("probe"),
        te: "trailers",
      });
      const chunks: Buffer[] = [];
      let bytes = 0;
      let final: IncomingHttpHeaders = {};
      stream.once("error", fail);
      stream.once("response", (headers: IncomingHttpHeaders) => (final = headers));
      stream.once("trailers", (headers: IncomingHttpHeaders) => (final = { ...final, ...headers }));
      stream.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > messageBytes) fail(new Error(`an answer of more than ${messageBytes} bytes`));
        else chunks.push(chunk);
      });
      stream.once("end", () => {
        try {
          resolve(statusOf(final, Buffer.concat(chunks)));
        } catch (error) {
          reject(ShimError.from(error));
        }
      });
      stream.end(requestMessage(service));
    });
  } finally {
    link?.[Symbol.dispose]();
    session.destroy();
    socket.destroy();
  }
}

/** Not compressed (0), length, then field 1 of HealthCheckRequest: `service`, which is left out when empty. */
function requestMessage(service: string): Buffer {
  const text = Buffer.from(service);
  const message = text.length === 0 ? text : Buffer.concat([Buffer.of(0x0a, ...varint(text.length)), text]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function varint(value: number): readonly number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

function statusOf(headers: IncomingHttpHeaders, body: Buffer): ServingStatus {
  const code = headers["grpc-status"];
  if (code === undefined) {
    const httpStatus = String(headers[constants.HTTP2_HEADER_STATUS] ?? "no status");
    throw new ShimError("precondition", `no answer of gRPC (HTTP status ${httpStatus})`);
  }
  if (code !== "0") {
    const said = decode(String(headers["grpc-message"] ?? ""));
    if (Number(code) === grpcUnimplemented)
      throw new ShimError("precondition", `this server does not implement grpc.health.v1.Health: ${said}`);
    throw new ShimError("precondition", `the call failed with code ${String(code)}: ${said}`);
  }
  if (body.length < 5 || body[0] !== 0 || body.readUInt32BE(1) !== body.length - 5)
    throw new ShimError("precondition", "the answer is not a gRPC message");
  // Field 1 of HealthCheckResponse: `status`, which is left out when it is 0.
  const number = body.length === 5 ? 0 : body[5] === 0x08 ? (body[6] ?? -1) : -1;
  const status = servingStatuses[number];
  if (status === undefined) throw new ShimError("precondition", "the answer has no known status");
  return status;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return error instanceof URIError ? text : messageOf(error);
  }
}
