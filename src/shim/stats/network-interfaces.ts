/** The network interfaces of a namespace, from the text of `net/dev` below a process of it. */
import type { InterfaceReading } from "../domain/resource-reading.js";

const defaultInterface = "eth0";

/**
 * Lines `name: bytes packets errs drop fifo frame compressed multicast` and as many for what was sent; without `lo`, and
 * `eth0` first, which is the pod's default interface.
 */
export function parseInterfaces(text: string): readonly InterfaceReading[] {
  const interfaces = text.split("\n").flatMap((line): readonly InterfaceReading[] => {
    const colon = line.lastIndexOf(":");
    const name = line.slice(0, colon).trim();
    const numbers = line
      .slice(colon + 1)
      .trim()
      .split(/ +/)
      .map(Number);
    if (colon === -1 || name === "lo" || numbers.length < 16) return [];
    const [receivedBytes = 0, receivedPackets = 0, receivedErrors = 0, receivedDropped = 0] = numbers;
    const [bytes = 0, packets = 0, errors = 0, dropped = 0] = numbers.slice(8);
    return [
      {
        name,
        received: {
          bytes: receivedBytes,
          packets: receivedPackets,
          errors: receivedErrors,
          dropped: receivedDropped,
        },
        transmitted: { bytes, packets, errors, dropped },
      },
    ];
  });
  return defaultFirst(interfaces);
}

export function defaultFirst(interfaces: readonly InterfaceReading[]): readonly InterfaceReading[] {
  return [
    ...interfaces.filter(({ name }) => name === defaultInterface),
    ...interfaces.filter(({ name }) => name !== defaultInterface),
  ];
}
