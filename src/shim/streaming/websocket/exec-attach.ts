/** Exec and attach over WebSocket: a numbered channel for each stream. */
import type { WebSocket } from "ws";
import { orAbort } from "../../../lib/abort.js";
import { endOf } from "../../../lib/streams.js";
import type { CommandSession } from "../../ports/streaming.js";
import { base64Codec, binaryCodec, type ChannelCodec } from "./channel-codec.js";
import type { CommandClient, StatusForm } from "../command-session.js";
import { ResizeQueue } from "../resize-queue.js";
import { WebSocketChannels } from "./channels.js";

const channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 } as const;

interface Form {
  readonly codec: ChannelCodec;
  readonly statusForm: StatusForm;
  /** Whether the client can end stdin, as in v5. In other versions stdin ends with the connection. */
  readonly halfClose: boolean;
}

const text = { statusForm: "text", halfClose: false } as const;
const json = { statusForm: "json", halfClose: false } as const;

const forms = {
  "v5.channel.k8s.io": { ...json, codec: binaryCodec, halfClose: true },
  "v4.channel.k8s.io": { ...json, codec: binaryCodec },
  "v4.base64.channel.k8s.io": { ...json, codec: base64Codec },
  "v3.channel.k8s.io": { ...text, codec: binaryCodec },
  "v2.channel.k8s.io": { ...text, codec: binaryCodec },
  "channel.k8s.io": { ...text, codec: binaryCodec },
  "base64.channel.k8s.io": { ...text, codec: base64Codec },
  "": { ...text, codec: binaryCodec },
} as const satisfies Record<string, Form>;

export type WebSocketCommandProtocol = keyof typeof forms;
export const webSocketCommandProtocols = Object.keys(forms) as readonly WebSocketCommandProtocol[];

/** The streams are open with the connection: to be called before the event loop turns. */
export function openWebSocketCommand(
  ws: WebSocket,
  protocol: WebSocketCommandProtocol,
  session: CommandSession,
): CommandClient {
  const { codec, statusForm, halfClose }: Form = forms[protocol];
  const channels = new WebSocketChannels(ws, { codec, halfClose });
  const resizes = new ResizeQueue();
  if (session.tty) {
    resizes.readFrom(channels.readable(channel.resize));
    void channels.closed.then(() => resizes.end());
  } else {
    resizes.end();
  }
  const error = channels.writable(channel.error);
  const streams = {
    stdin: session.stdin ? channels.readable(channel.stdin) : undefined,
    stdout: session.stdout ? channels.writable(channel.stdout) : undefined,
    stderr: session.stderr ? channels.writable(channel.stderr) : undefined,
    resizes,
  };
  channels.announce(session.stdout ? channel.stdout : session.stderr ? channel.stderr : channel.error);
  return {
    connection: channels,
    statusForm,
    streams,
    finish: async (status, signal) => {
      resizes.end();
      // Some clients disconnect at the status: the output is sent first. Its end is not sent.
      await orAbort(Promise.all([endOf(streams.stdout), endOf(streams.stderr)]), signal);
      await orAbort(endOf(error, status), signal);
      await channels.close(signal);
    },
  };
}
