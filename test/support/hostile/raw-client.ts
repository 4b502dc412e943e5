/** Calls with any bytes as their message. */
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";

export interface RawAnswer {
  /** The gRPC code, 0 for success. */
  readonly code: number;
  readonly details: string;
  /** The answer's bytes; of streams the first message's. */
  readonly body: Buffer;
}

export class RawClient implements Disposable {
  readonly #client: Client;

  constructor(socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
      "grpc.default_authority": "localhost",
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  unary(path: string, message: Buffer, timeoutMs: number): Promise<RawAnswer> {
    return new Promise((resolve) => {
      this.#client.makeUnaryRequest(
        path,
        asItIs,
        asItIs,
        message,
        { deadline: Date.now() + timeoutMs },
        (error: ServiceError | null, body) => {
          if (error === null) resolve({ code: 0, details: "", body: body ?? Buffer.alloc(0) });
          else resolve({ code: error.code, details: error.details, body: Buffer.alloc(0) });
        },
      );
    });
  }

  /**
   * A stream without an answer for `patienceMs` counts as accepted. Without `timeoutMs` the call has no
   * deadline.
   */
  stream(path: string, message: Buffer, patienceMs: number, timeoutMs?: number): Promise<RawAnswer> {
    return new Promise((resolve) => {
      const stream = this.#client.makeServerStreamRequest(
        path,
        asItIs,
        asItIs,
        message,
        timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
      );
      const finish = (answer: RawAnswer): void => {
        clearTimeout(patience);
        resolve(answer);
        stream.cancel();
      };
      const accepted = (body: Buffer): void => finish({ code: 0, details: "", body });
      const patience = setTimeout(() => accepted(Buffer.alloc(0)), patienceMs);
      stream.on("data", accepted);
      stream.on("end", () => accepted(Buffer.alloc(0)));
      stream.on("error", (error: ServiceError) => {
        finish({ code: error.code, details: error.details, body: Buffer.alloc(0) });
      });
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

function asItIs(bytes: Buffer): Buffer {
  return bytes;
}
