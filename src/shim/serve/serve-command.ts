/** `dockershim serve`: runs the shim in the foreground until a signal or a fatal error ends it. */
import { existsSync } from "node:fs";
import { createLogger } from "../../lib/log.js";
import type { ResolvedConfig } from "../config/resolve.js";
import { offerExampleNetwork, writeExampleNetwork } from "./example-network.js";
import { parseSetupReport, renderFirstScreen } from "./first-screen.js";
import { formatEndpoint } from "../engine/http/endpoint.js";
import { startShim } from "../app/start-shim.js";
import type { ProcessIo } from "../../cli/process-io.js";

/**
 * Time for calls in flight while the server drains. With all later steps the end takes 30 s at most:
 * docs/run/faults.md.
 */
const drainTimeoutMs = 18_000;
/** Ctrl-C under npm sends two signals: one from the terminal and one from npm. */
const repeatMs = 500;
/** After everything is closed, the process ends within this time unless something hangs. */
const remainderMs = 1_000;
/** Time that the first screen waits for the engine. */
const engineWaitMs = 5_000;
const nodeWaitMs = 1_000;

type ServeIo = Pick<ProcessIo, "environment" | "version" | "writeOut" | "onSignal" | "endAtOnce">;

export async function runServe({ config, warnings }: ResolvedConfig, io: ServeIo): Promise<number> {
  const { environment } = io;
  const { dockerEndpoint, dockerContext } = config;
  const log = createLogger(config.logLevel);
  for (const warning of warnings) log.warn(warning);
  const example = config.readOnly ? undefined : await writeExampleNetwork(config, log);
  const shim = await startShim(config, log, io);
  let stopping = false;
  let first = { name: "", atMs: 0 };
  const signalled = new Promise<string>((resolve) => {
    io.onSignal((name) => {
      const atMs = performance.now();
      if (stopping) {
        if (name === first.name && atMs - first.atMs < repeatMs) return;
        log.warn({ signal: name }, "second signal while stopping, exiting at once");
        io.endAtOnce();
      }
      stopping = true;
      first = { name, atMs };
      resolve(name);
    });
  });
  /** Prints the first screen and notifies systemd. A signal does not wait for it. */
  const announce = async (): Promise<void> => {
    // The shim serves even if the engine or the preparation of the node takes longer.
    const facts = await Promise.race([within(engineWaitMs, shim.firstLive), shim.failed]);
    if (facts !== undefined) await within(nodeWaitMs, shim.nodePrepared());
    const { name, reason } = shim.network;
    const problem = shim.network.notReadyReason();
    const offers = name === "cni" && problem !== undefined;
    const offer = offers ? await offerExampleNetwork(config, log) : undefined;
    // Loaded when it is needed: it reads kubelets as the commands about migration do.
    const { kubeletWithoutNames } = await import("./kubelet-without-names.js");
    const cadvisorProblem = await within(nodeWaitMs, kubeletWithoutNames(shim.cadvisorSocket));
    if (stopping) return;
    io.writeOut(
      renderFirstScreen({
        version: io.version,
        facts,
        engineEndpoint: formatEndpoint({
          ...dockerEndpoint,
          ...(dockerContext && { context: dockerContext.name }),
        }),
        reach: shim.reach(),
        // Docker makes this file in each container.
        isInContainer: existsSync("/.dockerenv"),
        network: { name, reason, problem },
        example,
        offer,
        pauseImage: shim.pauseImageReference,
        stateDirectory: config.stateDir,
        socket: shim.endpoint,
        streaming: shim.streamingAddress,
        cadvisor: shim.cadvisorSocket,
        cadvisorProblem,
        metrics: shim.metricsAddress,
        setup: parseSetupReport(environment["DOCKERSHIM_SETUP_REPORT"]),
      }),
    );
    log.info({ socket: shim.endpoint, network: name, reason }, "serving");
    await shim.ready(`serving on ${shim.endpoint}`);
  };
  try {
    const signal = await Promise.race([signalled, shim.failed, announce().then(() => signalled)]);
    log.info({ signal }, "stopping; containers keep running");
    return 0;
  } finally {
    // Even without a first signal, the next signal counts as the second.
    stopping = true;
    const hanging = await shim.stop(drainTimeoutMs);
    setTimeout(() => {
      log.error({ hanging }, "shutdown timed out, exiting");
      io.endAtOnce();
    }, remainderMs).unref();
  }
}

/** The value of `promise`, undefined when it takes longer. */
async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const elapsed = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      resolve(undefined);
    }, milliseconds);
    // The timer must not delay the end of a start that failed.
    timer.unref();
  });
  try {
    return await Promise.race([promise, elapsed]);
  } finally {
    clearTimeout(timer);
  }
}
