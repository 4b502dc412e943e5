/** Messages of the channel protocols: the number of a channel, then its bytes. Pure. */

export interface ChannelMessage {
  readonly channel: number;
  readonly data: Buffer;
}

export interface ChannelCodec {
  /** How many channels there can be. */
  readonly channels: number;
  /** Binary frames; else text frames. */
  readonly binary: boolean;
  encode(channel: number, data: Uint8Array): Buffer;
  /** Undefined for an empty message, which has no meaning. */
  decode(message: Buffer): ChannelMessage | "malformed" | undefined;
}

/** The first byte is the channel. */
export const binaryCodec: ChannelCodec = {
  channels: 255,
  binary: true,
  encode(channel, data) {
    const message = Buffer.allocUnsafe(1 + data.length);
    message[0] = channel;
    message.set(data, 1);
    return message;
  },
  decode: (message) =>
    message.length === 0 ? undefined : { channel: message.readUInt8(0), data: message.subarray(1) },
};

const zero = "0".charCodeAt(0);

/** The first character is the channel, counted from "0", the others are base64 with padding. */
export const base64Codec: ChannelCodec = {
  // Up to the last character of ASCII.
  channels: 0x7f - zero,
  binary: false,
  encode: (channel, data) =>
    Buffer.from(
      String.fromCharCode(zero + channel) +
        Buffer.from(data.buffer, data.byteOffset, data.length).toString("base64"),
    ),
  decode(message) {
    if (message.length === 0) return undefined;
    const channel = message.readUInt8(0) - zero;
    const text = message.toString("latin1", 1);
    if (channel < 0 || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return "malformed";
    return { channel, data: Buffer.from(text, "base64") };
  },
};
