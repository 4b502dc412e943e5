import { notReached, type Reach, reachOf, sameForAll } from "../../src/domain/reach.js";

/** As of an engine on this host, or of one elsewhere. */
export function fakeReach(isHere: boolean): Reach {
  const elsewhere = "the engine is elsewhere";
  return reachOf(
    "auto",
    sameForAll((job) => (isHere ? { reached: true } : notReached(job, elsewhere))),
  );
}
