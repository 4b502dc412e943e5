/** One streaming session as a client that only listens. */
import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { ShimError } from "../../lib/errors.js";

const largestAnswerBytes = 64 * 1024;

/** Returns when the frames of the WebSocket have `wanted`; throws when the session ends without it. */
export function streamOnce(url: string, wanted: RegExp, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": "v4.channel.k8s.io",
    };
    const fail = (why: string): void =>
      reject(new ShimError("unavailable", `session at the streaming server: ${why}`));
    const asked = request(url, { headers, signal });
    asked.once("error", (error) => fail(error.message));
    asked.once("response", (response) => {
      response.destroy();
      fail(`HTTP status ${response.statusCode ?? 0}`);
    });
    asked.once("upgrade", (_response, socket, head) => {
      let received = Buffer.alloc(0);
      const receive = (data: Buffer): void => {
        received = Buffer.concat([received, data]);
        if (wanted.test(received.toString())) resolve();
        else if (received.length <= largestAnswerBytes) return;
        socket.destroy();
      };
      socket.on("data", receive);
      socket.once("error", (error) => fail(error.message));
      socket.once("close", () => fail(`it ended after ${JSON.stringify(received.toString().slice(0, 200))}`));
      const stop = (): void => void socket.destroy();
      signal.addEventListener("abort", stop, { once: true });
      socket.once("end", stop);
      // Frames that came in one packet with the answer to the request.
      receive(head);
    });
    asked.end();
  });
}
