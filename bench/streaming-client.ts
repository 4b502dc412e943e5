/** The client's side of the streaming benchmark: SPDY and WebSocket with as little work as possible, and the engine's own exec. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { dockerJson, dockerSocket } from "../test/support/docker.js";
import { SpdyClient, type ClientStream } from "../test/support/spdy-client.js";
import {
  openSpdy,
  openWebSocket,
  sendRaw,
  webSocketRequest,
  type WebSocketClient,
} from "../test/support/streaming-client.js";
import type { CriContender } from "./starts.js";

/** What clients of Go write at once: the buffer of io.Copy. */
export const chunkBytes = 32 * 1024;
const portForwardProtocol = ["portforward.k8s.io"];
const commandProtocol = "v4.channel.k8s.io";
const tunnelProtocol = "SPDY/3.1+portforward.k8s.io";
/** With code 1000. */
const closeFrame = Buffer.from([0x88, 0x02, 0x03, 0xe8]);

/** URLs of older servers have no scheme. */
function withScheme(url: string): string {
  return url.startsWith("//") ? `http:${url.replace("[::]", "127.0.0.1")}` : url;
}

export async function openExec(
  cri: CriContender["cri"],
  container_id: string,
  cmd: readonly string[],
  way: "in" | "out",
): Promise<{ readonly socket: Duplex; readonly stdin: number | undefined }> {
  const wanted = { tty: false, stdin: way === "in", stdout: true, stderr: false };
  const { url } = await cri.Exec({ container_id, cmd: [...cmd], ...wanted });
  const client = await openSpdy(withScheme(url));
  client.open({ streamtype: "error" });
  const stdin = way === "in" ? client.open({ streamtype: "stdin" }) : undefined;
  client.open({ streamtype: "stdout" });
  const { socket } = client;
  socket.removeAllListeners("data"); // Frames are counted, not read.
  return { socket, stdin: stdin?.id };
}

/** With stdout and stderr, in the latest version of the protocol that cri-dockerd has, too. */
export async function execByWebSocket(
  cri: CriContender["cri"],
  container_id: string,
  cmd: readonly string[],
): Promise<WebSocketClient> {
  const { url } = await cri.Exec({ container_id, cmd: [...cmd], tty: false, stdout: true, stderr: true });
  return openWebSocket(withScheme(url), commandProtocol);
}

/** A connection whose messages on stdin are `stdinMessage`; the server closes it after the status. */
export async function openInputByWebSocket(
  cri: CriContender["cri"],
  container_id: string,
  cmd: readonly string[],
): Promise<Socket> {
  const { url } = await cri.Exec({ container_id, cmd: [...cmd], tty: false, stdin: true, stdout: true });
  const socket = await upgraded(withScheme(url), commandProtocol);
  // The server waits for the answer to its close frame.
  socket.on("data", (chunk: Buffer) => {
    if (chunk.includes(closeFrame)) socket.destroy();
  });
  return socket;
}

export async function openForward(cri: CriContender["cri"], pod_sandbox_id: string): Promise<SpdyClient> {
  const { url } = await cri.PortForward({ pod_sandbox_id, port: [] });
  return openSpdy(withScheme(url), portForwardProtocol);
}

export function openPort(client: SpdyClient, port: number, request: number): ClientStream {
  const headers = { port: String(port), requestid: String(request) };
  client.open({ streamtype: "error", ...headers }, { fin: true });
  return client.open({ streamtype: "data", ...headers });
}

/** SPDY in the messages of a WebSocket, as kubectl sends it. `streamId` is that of the data of `port`. */
export async function openTunnel(
  cri: CriContender["cri"],
  pod_sandbox_id: string,
  port: number,
): Promise<{ readonly socket: Socket; readonly streamId: number }> {
  const { url } = await cri.PortForward({ pod_sandbox_id, port: [] });
  const socket = await upgraded(withScheme(url), tunnelProtocol);
  const toMessages = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      socket.write(maskedMessage(chunk));
      done();
    },
  });
  const { id } = openPort(new SpdyClient(toMessages, Buffer.alloc(0)), port, 1);
  // It is paused behind the answer to the upgrade.
  socket.resume();
  return { socket, streamId: id };
}

async function upgraded(url: string, protocol: string): Promise<Socket> {
  const { status, body, socket } = await sendRaw(url, webSocketRequest(url, protocol));
  if (status !== 101) throw new Error(`${String(status)}: ${body}`);
  return socket;
}

/** As much as a client of Go writes at once, on the channel of stdin. */
export function stdinMessage(): Buffer {
  return maskedMessage(Buffer.alloc(1 + chunkBytes));
}

/** `dataFrame` in three messages: client-go writes the two words of a header and the data each by itself. */
export function tunnelledFrame(streamId: number): Buffer {
  const frame = dataFrame(streamId);
  return Buffer.concat(
    [frame.subarray(0, 4), frame.subarray(4, 8), frame.subarray(8)].map((part) => maskedMessage(part)),
  );
}

/** Of less than 64 KiB. Clients put a mask over each byte. */
function maskedMessage(payload: Buffer): Buffer {
  const { length } = payload;
  const head = length < 126 ? Buffer.from([0x82, 0x80 | length]) : Buffer.from([0x82, 0xfe, 0, 0]);
  if (length >= 126) head.writeUInt16BE(length, 2);
  const mask = Buffer.from([0x12, 0x34, 0xa6, 0x78]);
  return Buffer.concat([head, mask, payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0))]);
}

/** A SPDY data frame with as much as a client of Go writes at once. */
export function dataFrame(streamId: number): Buffer {
  const frame = Buffer.alloc(8 + chunkBytes);
  frame.writeUInt32BE(streamId, 0);
  frame.writeUInt32BE(chunkBytes, 4);
  return frame;
}

export async function rawExec(
  id: string,
  command: readonly string[],
  way: "in" | "out",
): Promise<{ readonly execId: string; readonly socket: Socket }> {
  const body = { Cmd: command, AttachStdin: way === "in", AttachStdout: true, AttachStderr: false };
  const { Id } = (await dockerJson("POST", `/containers/${id}/exec`, body)) as { Id: string };
  const socket = connect({ path: dockerSocket }).on("error", () => undefined);
  const start = JSON.stringify({ Detach: false, Tty: false });
  const head = [
    `POST /exec/${Id}/start HTTP/1.1`,
    ...["Host: docker", "Connection: Upgrade", "Upgrade: tcp", "Content-Type: application/json"],
    `Content-Length: ${String(start.length)}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${start}`);
  await once(socket, "data");
  return { execId: Id, socket };
}
