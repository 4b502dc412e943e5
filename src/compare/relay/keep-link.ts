/** Processes beside the relay point the clients' link at the server when the relay has died. */
import { messageOf } from "../../lib/errors.js";
import { createLogger } from "../../lib/log.js";
import { pointAtPrimary, type RelayPaths } from "./relay-link.js";

/** The command `keep-link`. The end of standard input, a pipe from the relay, is that of the relay. */
export async function runKeepLink(
  paths: string,
  io: { readonly stdin: AsyncIterable<Buffer> },
): Promise<number> {
  // The relay of this program wrote it.
  await untilRelayEnds(io.stdin, JSON.parse(paths) as RelayPaths).next();
  return 0;
}

/** Before anything else at the end, such as writing to a disk that hangs: clients wait for the link. */
export async function* untilRelayEnds(
  input: AsyncIterable<Buffer>,
  paths: RelayPaths,
): AsyncGenerator<Buffer> {
  yield* input;
  const log = createLogger("info");
  // A relay that ended in order has done it already.
  const moved = await pointAtPrimary(paths).catch((error: unknown) => {
    log.error({ err: messageOf(error), link: paths.listen }, "cannot point the link at the server");
  });
  if (moved === true) log.error({ link: paths.listen }, "the relay has died, the link points at the server");
}
