/** The client's side of the streaming benchmark: SPDY with as little work as possible, and the engine's own exec. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dockerJson, dockerSocket } from "../test/support/docker.js";
import type { ClientStream, SpdyClient } from "../test/support/spdy-client.js";
import { openSpdy } from "../test/support/streaming-client.js";
import type { CriContender } from "./starts.js";

/** What clients of Go write at once: the buffer of io.Copy. */
export const chunkBytes = 32 * 1024;
const portForwardProtocol = ["portforward.k8s.io"];

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

export async function openForward(cri: CriContender["cri"], pod_sandbox_id: string): Promise<SpdyClient> {
  const { url } = await cri.PortForward({ pod_sandbox_id, port: [] });
  return openSpdy(withScheme(url), portForwardProtocol);
}

export function openPort(client: SpdyClient, port: number, request: number): ClientStream {
  const headers = { port: String(port), requestid: String(request) };
  client.open({ streamtype: "error", ...headers }, { fin: true });
  return client.open({ streamtype: "data", ...headers });
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
