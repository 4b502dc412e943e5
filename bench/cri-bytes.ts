/** CRI calls whose answers are taken as bytes: decoding them is the caller's business, and Go's is not JavaScript's. */
import { Client, credentials } from "@grpc/grpc-js";

export interface BytesClient extends Disposable {
  call(service: "RuntimeService" | "ImageService", rpc: string, request?: Buffer): Promise<Buffer>;
}

const timeoutMs = 60_000;

export function connectBytes(socket: string): BytesClient {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": 16 * 1024 * 1024,
    "grpc.default_authority": "localhost",
  });
  const same = (bytes: Buffer): Buffer => bytes;
  return {
    call: (service, rpc, request = Buffer.alloc(0)) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          `/runtime.v1.${service}/${rpc}`,
          same,
          same,
          request,
          { deadline: Date.now() + timeoutMs },
          (error, answer) => {
            if (error === null && answer !== undefined) resolve(answer);
            else reject(error ?? new Error(`${rpc}: no answer`));
          },
        );
      }),
    [Symbol.dispose]: () => {
      client.close();
    },
  };
}

/** A message whose only field, `field`, is that string. */
export function stringMessage(field: number, text: string): Buffer {
  const bytes = Buffer.from(text);
  if (bytes.length > 127) throw new Error("longer than one byte can say");
  return Buffer.concat([Buffer.of((field << 3) | 2, bytes.length), bytes]);
}

/** A message whose only field, `field`, is that message. */
export function nestedMessage(field: number, message: Buffer): Buffer {
  if (message.length > 127) throw new Error("longer than one byte can say");
  return Buffer.concat([Buffer.of((field << 3) | 2, message.length), message]);
}
