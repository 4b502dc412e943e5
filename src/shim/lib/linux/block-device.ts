/** Names of block devices. */
import { readlinkSync } from "node:fs";
import { basename } from "node:path";

/** `/dev/sda`; `8:0` where the kernel has no device of that number, as for file systems over several. In memory, no disk is waited for. */
export function blockDeviceName(major: number, minor: number, root = "/sys/dev/block"): string {
  const number = `${String(major)}:${String(minor)}`;
  try {
    return `/dev/${basename(readlinkSync(`${root}/${number}`))}`;
  } catch {
    return number;
  }
}

/** The two parts of a device number as stat has it. */
export function splitDeviceNumber(device: number): { readonly major: number; readonly minor: number } {
  const number = BigInt(device);
  return {
    major: Number(((number >> 8n) & 0xfffn) | ((number >> 32n) & 0xfffff000n)),
    minor: Number((number & 0xffn) | ((number >> 12n) & 0xffffff00n)),
  };
}
