import { collect } from "../../../src/shim/lib/streams.js";

/** All readings of a source. */
export async function byId<Reading>(
  readings: AsyncIterable<readonly [string, Reading]>,
): Promise<ReadonlyMap<string, Reading>> {
  return new Map(await collect(readings));
}
