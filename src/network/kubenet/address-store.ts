/** Addresses that the host-local plugin has given out, as it keeps them: one file for each, named after it. */
import { isIP } from "node:net";
import { join } from "node:path";
import { namesIn } from "../../shim/base/directories.js";
import { readRegularFile } from "../../shim/base/regular-file.js";

export interface Reservation {
  readonly address: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Above the directories of the networks, when their configuration does not say where. */
export const hostLocalDirectory = "/var/lib/cni/networks";

const largestFileBytes = 4096;

/** Reservations of the network whose directory this is; none when it is missing. Throws on faults of the disk. */
export async function readReservations(directory: string): Promise<readonly Reservation[]> {
  const found: Reservation[] = [];
  for (const name of await namesIn(directory)) {
    // Others are the lock and the last address of each range.
    if (isIP(name) === 0) continue;
    const content = await readRegularFile(join(directory, name), largestFileBytes);
    if (content.kind !== "read") continue;
    // Old versions of the plugin wrote the id alone.
    const [containerId = "", ifName = ""] = Buffer.from(content.bytes).toString("utf8").trim().split(/\r?\n/);
    if (containerId !== "")
      found.push({ address: name, containerId, ifName: ifName === "" ? "eth0" : ifName });
  }
  return found;
}
