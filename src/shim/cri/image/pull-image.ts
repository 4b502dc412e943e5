import { createHash } from "node:crypto";
import { formatDuration } from "../../../lib/abort.js";
import type { Call } from "../../../lib/call.js";
import { ShimError, aggregate } from "../../../lib/errors.js";
import { noteWait } from "../../../lib/waits.js";
import type { AuthConfig } from "../../../domain/cri.js";
import { normalizeReference } from "../../../domain/image-reference.js";
import type { Engine, RegistryCredentials } from "../../ports/engine.js";
import { dockerRuntime } from "../../plan/runtime-handler.js";
import type { Handler, Services } from "../services.js";

/** Answers the image's id, as ListImages and ImageStatus do. The kubelet creates containers from it. */
export const pullImage: Handler<"PullImage"> = async (request, services, call) => {
  const { image, runtime_handler: handler } = request.image;
  // Docker has one image store for all handlers. An unknown handler is a mistake of the caller.
  if (handler !== "") dockerRuntime(handler, await services.state.link.live(call.signal));
  const credentials = credentialsOf(request.auth);
  // Callers share a pull of the same reference with the same credentials.
  const key = createHash("sha256")
    .update(JSON.stringify([normalizeReference(image), credentials]))
    .digest("hex");
  const id = await services.images.pulls.run(key, call.signal, (signal) =>
    pull(image, credentials, services, signal, call),
  );
  return { image_ref: id };
};

async function pull(
  image: string,
  credentials: RegistryCredentials | undefined,
  { engine, images: { cache, pullRecords }, settings }: Services,
  signal: AbortSignal,
  call: Call,
): Promise<string> {
  try {
    const recorded = pullRecords.recorded(engine);
    await pullWithProgressDeadline(
      recorded,
      image,
      credentials,
      settings.pullProgressDeadlineMs,
      signal,
      call,
    );
  } catch (error) {
    throw inKubeletWords(ShimError.from(error), image);
  } finally {
    cache.forget();
  }
  // Found by the full reference: after a pull by digest, a tag may name another image.
  const pulled = (await cache.find(image, signal)) ?? (await engine.inspectImage(image, signal));
  if (pulled === undefined)
    throw new ShimError("unavailable", `pull image "${image}": the engine lost it right after the pull`);
  return pulled.id;
}

/**
 * Aborts a pull without progress for `limitMs`, from the request to the end of the extraction. A message that
 * repeats the same numbers is no progress.
 */
export async function pullWithProgressDeadline(
  engine: Pick<Engine, "pullImage">,
  image: string,
  credentials: RegistryCredentials | undefined,
  limitMs: number,
  signal: AbortSignal,
  call: Pick<Call, "log">,
): Promise<void> {
  const stop = new AbortController();
  const layers = new Map<string, string>();
  const stalled = (): void => {
    const reason = `no progress for ${formatDuration(limitMs)} (${describe(layers)})`;
    stop.abort(new ShimError("timeout", `pull image "${image}": ${reason}`, { image }));
  };
  let timer = setTimeout(stalled, limitMs);
  const either = AbortSignal.any([signal, stop.signal]);
  using noted = noteWait(signal, {
    action: () => `pull image "${image}"`,
    detail: () => describe(layers),
    kind: "pull",
    inner: either,
  });
  try {
    await engine.pullImage(
      image,
      credentials,
      ({ layer, status, current, total }) => {
        const seen = `${status} ${current}/${total}`;
        if (layers.get(layer) === seen) return;
        if (layers.get(layer)?.split(" ")[0] !== status.split(" ")[0])
          call.log.debug({ image, layer, status }, "pulling");
        layers.set(layer, seen);
        clearTimeout(timer);
        timer = setTimeout(stalled, limitMs);
      },
      either,
    );
  } catch (error) {
    const thrown: unknown =
      stop.signal.aborted && !signal.aborted ? ShimError.from(stop.signal.reason) : error;
    noted.fail(thrown);
    throw thrown;
  } finally {
    clearTimeout(timer);
  }
}

function describe(layers: ReadonlyMap<string, string>): string {
  if (layers.size === 0) return "the registry or the engine sent nothing";
  return [...layers]
    .map(([layer, seen]) => `${layer}: ${seen}`)
    .slice(-3)
    .join("; ");
}

/** Kubelets look for these words with code UNKNOWN only. An engine that cannot be reached stays UNAVAILABLE. */
function inKubeletWords(error: ShimError, image: string): ShimError {
  if (error.kind !== "unavailable" || error.fields["from"] !== "registry") return error;
  return new ShimError("unknown", `RegistryUnavailable: ${error.message}`, { image }, { cause: error });
}

/** `auth` is base64 of `user:password`, used when there is no user name. Undefined: anonymous. */
function credentialsOf(auth: AuthConfig | null): RegistryCredentials | undefined {
  if (auth === null) return undefined;
  let { username, password } = auth;
  if (username === "" && auth.auth !== "") {
    const decoded = Buffer.from(auth.auth, "base64").toString("utf8");
    const colon = decoded.indexOf(":");
    if (colon === -1) throw new ShimError("invalid", "auth.auth is not base64 of user:password");
    username = decoded.slice(0, colon);
    password = decoded.slice(colon + 1).replace(/\0+$/, "");
  }
  const { server_address, identity_token, registry_token } = auth;
  const all = {
    username,
    password,
    serverAddress: server_address,
    identityToken: identity_token,
    registryToken: registry_token,
  };
  const given = Object.entries(all).filter(([, value]) => value !== "");
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

export interface PauseImagePullDeps extends Pick<Call, "log"> {
  readonly engine: Pick<Engine, "pullImage">;
  /** The node's credentials for a reference, best match first. */
  readonly credentials: {
    lookUp(reference: string, signal: AbortSignal): Promise<readonly RegistryCredentials[]>;
  };
  readonly progressDeadlineMs: number;
}

/** Pulls with each of the node's matching credentials until one succeeds; without any, anonymously. */
export async function pullForPause(
  reference: string,
  deps: PauseImagePullDeps,
  signal: AbortSignal,
): Promise<void> {
  const found = await deps.credentials.lookUp(reference, signal);
  const errors: ShimError[] = [];
  for (const credentials of found.length === 0 ? [undefined] : found) {
    try {
      await pullWithProgressDeadline(
        deps.engine,
        reference,
        credentials,
        deps.progressDeadlineMs,
        signal,
        deps,
      );
      return;
    } catch (error) {
      if (signal.aborted) throw error;
      errors.push(ShimError.from(error));
    }
  }
  throw aggregate(errors) ?? new ShimError("internal", "a pull failed without an error");
}
