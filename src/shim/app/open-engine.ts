/** The connection to the Docker Engine. */
import { linkAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import { noteWait } from "../../lib/waits.js";
import type { Config } from "../config/resolve.js";
import { dockerEngine } from "../engine/docker-engine.js";
import { type EngineEndpoint, readContextTls, readTlsMaterial } from "../engine/http/endpoint.js";
import { instrument } from "../engine/instrumented-engine.js";
import type { Engine } from "../ports/engine.js";
import type { Observer } from "../ports/observer.js";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The engine's endpoint, with the key material of Docker's context, or that Docker's environment
 * variables name. */
export async function engineEndpoint(
  { dockerEndpoint, dockerContext: context }: Pick<Config, "dockerEndpoint" | "dockerContext">,
  environment: Environment,
): Promise<EngineEndpoint> {
  const endpoint = context === undefined ? dockerEndpoint : { ...dockerEndpoint, context: context.name };
  if (endpoint.kind !== "tcp") return endpoint;
  const tls =
    context === undefined
      ? await readTlsMaterial(environment)
      : await readContextTls(context.tlsDirectory, context);
  return tls === undefined ? endpoint : { ...endpoint, tls };
}

/** Opens no connection yet, and needs no engine. */
export function createEngine(
  endpoint: EngineEndpoint,
  { runtimeRequestTimeoutMs, readOnly }: Config,
  log: Logger,
  lifetime: Lifetime,
  observer?: Observer,
): Engine {
  const docker = dockerEngine({ endpoint, shortTimeoutMs: runtimeRequestTimeoutMs, readOnly });
  lifetime.onClose("engine connections", () => {
    docker[Symbol.dispose]();
    return Promise.resolve();
  });
  return instrument(docker, {
    log,
    ...(observer === undefined ? {} : { observe: (ended) => observer.engineCallEnded(ended) }),
  });
}

/**
 * Begins the first `connect` now: the engine takes tens of milliseconds to say what it is, in which a start opens
 * its files and sockets. The first caller gets its answer, or its failure. It changes nothing in the engine.
 */
export function connectAhead<E extends Pick<Engine, "connect">>(engine: E, lifetime: Lifetime): E {
  const ahead = new AbortController();
  // Of a start that fails: an engine that hangs would keep the process for the time limit of a request.
  lifetime.onClose("first connect", () => {
    ahead.abort(new ShimError("cancelled", "the start has failed, or the shim is stopping"));
    return Promise.resolve();
  });
  const first = engine.connect(ahead.signal);
  first.catch(() => undefined); // The caller is told.
  let isTaken = false;
  return {
    ...engine,
    connect: async (signal: AbortSignal) => {
      if (isTaken) return engine.connect(signal);
      isTaken = true;
      using _ = linkAbort(signal, () => ahead.abort(signal.reason));
      using _wait = noteWait(signal, { action: "first connect", inner: ahead.signal, kind: "engine" });
      return await first;
    },
  };
}
