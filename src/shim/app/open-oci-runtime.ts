/** The OCI runtime in front of runc: the server that answers it, and whether the engine has it. */
import { withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";
import type { Images } from "../images/images.js";
import type { MappedRoots } from "../oci-runtime/mapped-roots.js";
import { OciRuntimeServer } from "../oci-runtime/oci-runtime-server.js";
import { RegisteredRuntime } from "../oci-runtime/registered-runtime.js";
import { splitByNeed } from "../plan/cgroups.js";
import type { Engine } from "../ports/engine.js";
import type { OciRuntime } from "../ports/host.js";
import type { Records } from "../state/records.js";

/** Of the container that finds out whether it works; the pause image may have to be pulled. */
const trialTimeoutMs = 60_000;

export function openOciRuntimeServer(
  { containers }: Pick<Records, "containers">,
  { stateDirectoryId, roots }: { readonly stateDirectoryId: string; readonly roots: MappedRoots },
  log: Logger,
  lifetime: Lifetime,
): OciRuntimeServer {
  const server = new OciRuntimeServer({
    stateDirectoryId,
    roots,
    plannedContainer: (id) => {
      const record = containers.get(id);
      if (record?.oci === undefined) return undefined;
      return { changes: record.oci, limits: splitByNeed(record.cgroup).needed };
    },
    log,
  });
  lifetime.onClose("server of the OCI runtime", () => server.stop());
  return server;
}

/** Without a server nothing uses it: this program only reads. */
export function createOciRuntime(
  server: Pick<OciRuntimeServer, "listen" | "try"> | undefined,
  { engine, images, log }: { readonly engine: Engine; readonly images: Images; readonly log: Logger },
): OciRuntime {
  if (server === undefined) {
    const state = { problem: "this server only reads (--read-only)" };
    return { state: () => state, find: () => Promise.resolve(state) };
  }
  return new RegisteredRuntime({
    listen: () => server.listen(),
    startTrial: (program) =>
      withDeadline(undefined, trialTimeoutMs, "try the OCI runtime", async (signal) => {
        const reference = await images.pause.ensure(signal);
        const image = await engine.inspectImage(reference, signal);
        if (image === undefined) throw new ShimError("unavailable", `image "${reference}" is gone`);
        await images.scratch.use(
          image,
          signal,
          async (id, limited) => {
            using _ = server.try(id, program);
            await engine.startContainer(id, limited);
          },
          ociRuntimeName,
        );
      }),
    now: () => performance.now(),
    log,
  });
}
