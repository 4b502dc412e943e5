import { withDeadline } from "../../../lib/abort.js";
import type { Call } from "../../../lib/call.js";
import { ShimError } from "../../../lib/errors.js";
import { markOf, type ProcessMark } from "../../../lib/linux/process-mark.js";
import type { Container } from "../../../domain/container.js";
import { ContainerState } from "../../../domain/cri.js";
import { requireReadContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

/** For requests without a timeout. */
const defaultTimeoutSeconds = 600;
/** The longest delay of a timer of Node.js. */
const longestTimeoutSeconds = 2_147_483;
/** The OCI runtime's error when CRIU is missing, or does not work on this kernel. */
const noCriu = /CRIU version check failed|criu.*executable file not found|CRIU version must be/i;

/**
 * Writes the state of a running container to an archive at `location`; the container runs on. `unsupported`
 * where the container's OCI runtime is out of reach, `unknown` without CRIU, both in the words of
 * CRI-O and containerd, by which callers of kubelets and Kubernetes' tests know that there are no checkpoints.
 */
export const checkpointContainer: Handler<"CheckpointContainer"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  const seconds = Math.min(Number(request.timeout) || defaultTimeoutSeconds, longestTimeoutSeconds);
  const timeoutMs = seconds * 1000;
  await withDeadline(call.signal, timeoutMs, `checkpoint container "${id}"`, (signal) =>
    services.locks.containers.run(id, signal, () =>
      checkpoint(id, { location: request.location, timeoutMs }, services, { ...call, signal }),
    ),
  );
  return {};
};

function ownMark(): ProcessMark {
  const { pid } = process;
  return markOf(pid) ?? { pid, startTime: "" };
}

/** The reason is for the log alone. */
function inKnownWords(reason: ShimError, id: string, call: Call): ShimError {
  call.log.warn({ containerId: id, err: reason.message }, "cannot checkpoint containers on this node");
  const [kind, words] = noCriu.test(reason.message)
    ? ([
        "unknown",
        `CRIU binary not found or too old (<31600). Failed to checkpoint container "${id}"`,
      ] as const)
    : (["unsupported", "method CheckpointContainer not implemented"] as const);
  return new ShimError(kind, words, { containerId: id }, { cause: reason });
}

async function checkpoint(
  id: string,
  { location, timeoutMs }: { readonly location: string; readonly timeoutMs: number },
  { state: { model }, records, node: { host }, images: { cache: images } }: Services,
  call: Call,
): Promise<void> {
  const { signal } = call;
  const container = model.requireContainer(id);
  const { snapshot, state } = container;
  try {
    if (state !== ContainerState.CONTAINER_RUNNING)
      throw new ShimError("precondition", `it is ${snapshot.state.status}, not running`);
    const image = await images.get(snapshot.imageId, signal);
    const content = {
      config: configOf(container, image?.repoTags[0] ?? snapshot.imageName, new Date()),
      annotations: annotationsOf(container, model.sandbox(container.sandboxId)?.pod),
    };
    // First: a process that is killed meanwhile leaves the container frozen.
    await records.containers.noteCheckpoint(id, { location, server: ownMark() });
    try {
      await host().archiveCheckpoint(snapshot, location, content, { signal, timeoutMs });
    } finally {
      await records.containers.noteCheckpoint(id, undefined);
    }
  } catch (error) {
    const failure = ShimError.from(error);
    if (failure.kind === "unsupported" || noCriu.test(failure.message)) throw inKnownWords(failure, id, call);
    throw failure.within(`checkpoint container "${id}"`, { containerId: id });
  }
}

/** Has the keys that other runtimes write, for their restores and for checkpointctl. */
function configOf(
  { id, identity, snapshot }: Container,
  image: string,
  now: Date,
): Readonly<Record<string, unknown>> {
  return {
    id,
    name: identity.name,
    rootfsImage: image,
    rootfsImageRef: snapshot.imageId,
    rootfsImageName: image,
    runtime: snapshot.runtime,
    createdTime: new Date(Number(snapshot.created / 1_000_000n)).toISOString(),
    checkpointedTime: now.toISOString(),
    restoredTime: "0001-01-01T00:00:00Z",
    restored: false,
  };
}

function annotationsOf(
  { identity, sandboxId, snapshot }: Container,
  pod: { readonly name: string; readonly namespace: string; readonly uid: string } | undefined,
): Readonly<Record<string, string>> {
  const prefix = "io.kubernetes.cri.";
  return {
    [`${prefix}container-type`]: "container",
    [`${prefix}container-name`]: identity.name,
    [`${prefix}image-name`]: snapshot.imageName,
    [`${prefix}sandbox-id`]: sandboxId,
    ...(pod === undefined
      ? {}
      : {
          [`${prefix}sandbox-name`]: pod.name,
          [`${prefix}sandbox-namespace`]: pod.namespace,
          [`${prefix}sandbox-uid`]: pod.uid,
        }),
  };
}
