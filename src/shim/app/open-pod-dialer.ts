/** Dialers of port-forward. */
import { tries } from "../../domain/reach.js";
import { arch } from "node:process";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import { builtinPauseReference } from "../pause/pause-image.js";
import { programPath } from "../native/programs.js";
import { portForwardArchive, portForwardPath } from "../pause/port-forward-program.js";
import { DialerProcess } from "../pod-dialer/dialer-process.js";
import { FallbackDialer } from "../pod-dialer/fallback-dialer.js";
import { NamespaceDialer } from "../pod-dialer/namespace-dialer.js";
import { RelayDialer } from "../pod-dialer/relay-dialer.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { PodDialer } from "../ports/pod-dialer.js";
import type { EngineLink } from "../state/engine-link.js";

const connectTimeoutMs = 10_000;

export interface PodDialerParts {
  readonly engine: Engine;
  readonly link: Pick<EngineLink, "facts">;
  readonly host: () => HostAccess;
  /** Where the executable writes its programs: see `programPath`. */
  readonly programs: string;
  readonly log: Logger;
}

/** In the namespace where the engine is on this host, else by a process in the sandbox. */
export function createPodDialer(
  { engine, link, host, programs, log }: PodDialerParts,
  lifetime: Lifetime,
): () => PodDialer {
  const dialer = new DialerProcess({
    program: () => programPath("pod-dialer", arch, programs),
    connectTimeoutMs,
    log,
  });
  lifetime.onClose("pod dialer", () => dialer.close());
  const relay = new RelayDialer({
    engine,
    programPath: portForwardPath,
    programArchive: () => portForwardArchive(link.facts?.architecture ?? arch),
    builtinImage: builtinPauseReference,
  });
  const local = new FallbackDialer(new NamespaceDialer(dialer, host), relay);
  return () => (tries(host().reach, "networkNamespaces") ? local : relay);
}
