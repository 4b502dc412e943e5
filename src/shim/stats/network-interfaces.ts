/** The network interfaces of a namespace, from the text of `net/dev` below a process of it. */
import type { DirectionReading, InterfaceReading } from "../../domain/resource-reading.js";
import { TextScanner } from "./text-scanner.js";

const defaultInterface = "eth0";
/** Per pod: a pod that may change its network can make any number of interfaces. */
const mostInterfaces = 100;
/** Limit of `net/dev`: some 400 interfaces. Those that were there first, as the default one, come first. */
export const interfacesLimitBytes = 64 * 1024;
const space = 0x20;

/**
 * Lines `name: bytes packets errs drop fifo frame compressed multicast` and as many for what was sent;
 * without `lo`, and `eth0` first, which is the pod's default interface. Of more than 100 the first ones, and
 * `eth0`.
 */
export function parseInterfaces(text: string): readonly InterfaceReading[] {
  const interfaces: InterfaceReading[] = [];
  for (let colon = text.indexOf(":"); colon !== -1; colon = text.indexOf(":", colon + 1)) {
    // A colon without a space behind it is part of the name (aliases).
    const start = nameStart(text, colon);
    if (text.startsWith("lo:", start)) continue;
    const scanner = new TextScanner(text, colon + 1);
    const received = readDirection(scanner);
    const transmitted = readDirection(scanner);
    if (received === undefined || transmitted === undefined) continue;
    const name = text.slice(start, colon);
    // One place is kept for it.
    const room = name === defaultInterface ? mostInterfaces : mostInterfaces - 1;
    if (interfaces.length < room) interfaces.push({ name, received, transmitted });
  }
  return defaultFirst(interfaces);
}

/** The kernel refuses names with white space. */
function nameStart(text: string, colon: number): number {
  let start = colon;
  while (start > 0 && text.charCodeAt(start - 1) > space) start -= 1;
  return start;
}

/** Eight columns; undefined when they are fewer. */
function readDirection(scanner: TextScanner): DirectionReading | undefined {
  const bytes = readColumn(scanner);
  const packets = readColumn(scanner);
  const errors = readColumn(scanner);
  const dropped = readColumn(scanner);
  for (let column = 4; column < 8; column += 1) if (Number.isNaN(readColumn(scanner))) return undefined;
  return { bytes, packets, errors, dropped };
}

function readColumn(scanner: TextScanner): number {
  scanner.skipSpaces();
  return scanner.integer();
}

export function defaultFirst(interfaces: readonly InterfaceReading[]): readonly InterfaceReading[] {
  if (interfaces.length < 2) return interfaces;
  return [
    ...interfaces.filter(({ name }) => name === defaultInterface),
    ...interfaces.filter(({ name }) => name !== defaultInterface),
  ];
}
