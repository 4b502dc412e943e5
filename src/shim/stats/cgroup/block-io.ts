/** Traffic of block devices, as far as the kernel charges it to a cgroup. */
import { blockDeviceName } from "../../lib/linux/kernel-file.js";
import type { BlockReading } from "../../domain/resource-reading.js";
import type { CgroupText } from "../text-scanner.js";

const operationsV1: ReadonlySet<string> = new Set(["Read", "Write", "Discard"]);
const lineV1 = /^(\d+):(\d+) (\w+) (\d+)$/gm;

/** With what the cgroups below did. */
export function readBlocks(text: CgroupText): readonly BlockReading[] {
  const bytes = text("blkio", "blkio.throttle.io_service_bytes_recursive");
  if (bytes !== undefined) {
    return parseV1(bytes, text("blkio", "blkio.throttle.io_serviced_recursive") ?? "");
  }
  return parseV2(text("", "io.stat") ?? "");
}

/** Lines `8:0 Read 4096`, with totals per device and over all. */
function parseV1(bytesText: string, operationsText: string): readonly BlockReading[] {
  const counts = new Map<string, number>();
  for (const [, major, minor, operation, count] of operationsText.matchAll(lineV1)) {
    counts.set(`${major ?? ""}:${minor ?? ""} ${operation ?? ""}`, Number(count));
  }
  return [...bytesText.matchAll(lineV1)]
    .filter(([, , , operation = ""]) => operationsV1.has(operation))
    .map(([, major = "", minor = "", operation = "", bytes]) => ({
      device: blockDeviceName(Number(major), Number(minor)),
      major: Number(major),
      minor: Number(minor),
      operation,
      bytes: Number(bytes),
      operations: counts.get(`${major}:${minor} ${operation}`) ?? 0,
    }));
}

/** Lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`; devices without any traffic have no values. */
function parseV2(text: string): readonly BlockReading[] {
  return text.split("\n").flatMap((line) => {
    const [, major, minor] = /^(\d+):(\d+) /.exec(line) ?? [];
    if (major === undefined) return [];
    const values = new Map(line.split(" ").map((word) => word.split("=") as [string, string | undefined]));
    const device = blockDeviceName(Number(major), Number(minor));
    const reading = (operation: string, letter: string): BlockReading => ({
      device,
      major: Number(major),
      minor: Number(minor),
      operation,
      bytes: Number(values.get(`${letter}bytes`) ?? 0),
      operations: Number(values.get(`${letter}ios`) ?? 0),
    });
    const all = [reading("Read", "r"), reading("Write", "w"), reading("Discard", "d")];
    return values.has("rbytes") ? all : [];
  });
}
