/** `dockershim doctor ulimits`: shows how many files containers may open. Changes nothing. */
import { withDeadline } from "../../lib/abort.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import { createEngine, engineEndpoint } from "../app/open-engine.js";
import { configuredOpenFiles, isLow, readOpenFileLimits } from "../limits/open-files-notice.js";
import type { ResolvedConfig } from "../config/resolve.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { DockerUlimit } from "../../domain/create-body.js";
import { EngineHost } from "../host/engine-host.js";
import type { OpenFileLimits } from "../ports/host.js";

const timeoutMs = 60_000;

/** Exit code 1 when containers may open few files, else 0. */
export async function runDoctorUlimits(
  { config }: ResolvedConfig,
  { environment, writeOut }: Pick<ProcessIo, "environment" | "writeOut">,
): Promise<number> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  try {
    const endpoint = await engineEndpoint(config, environment);
    const engine = createEngine(endpoint, config, log, lifetime);
    const limits = await withDeadline(
      undefined,
      timeoutMs,
      "read the limits of a pause container",
      async (signal) => {
        const facts = await engine.connect(signal);
        const proofs = { engine, mode: config.engineReach, directory: config.stateDir, readOnly: true, log };
        const { host } = await EngineHost.connected(facts, proofs, signal);
        return readOpenFileLimits(engine, host, signal);
      },
    );
    const { text, exitCode } = describeOpenFiles(limits, config.defaultUlimits);
    writeOut(text);
    return exitCode;
  } finally {
    await lifetime.close();
  }
}

export function describeOpenFiles(
  limits: OpenFileLimits | undefined,
  defaultUlimits: readonly DockerUlimit[],
): { readonly text: string; readonly exitCode: number } {
  const lines: string[] = [];
  if (limits === undefined) {
    lines.push(
      "Open files, as the engine gives them: not known, no pod runs whose pause container is in reach.",
    );
  } else {
    lines.push(`Open files, as the engine gives them: ${limits.soft} soft, ${limits.hard} hard.`);
  }
  const own = configuredOpenFiles(defaultUlimits);
  if (own !== undefined) {
    lines.push(`Open files of containers, by --default-ulimits: ${own.Soft} soft, ${own.Hard} hard.`);
  }
  const isProblem = own === undefined && limits !== undefined && isLow(limits);
  if (isProblem)
    lines.push("Programs that do not raise their soft limit may need more: see --default-ulimits.");
  return { text: `${lines.join("\n")}\n`, exitCode: isProblem ? 1 : 0 };
}
