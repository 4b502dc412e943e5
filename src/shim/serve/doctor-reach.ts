/** `dockershim doctor reach`: proves what of the engine's host is in reach. Leaves nothing behind. */
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { createEngine, engineEndpoint } from "../app/open-engine.js";
import type { ResolvedConfig } from "../config/resolve.js";
import type { ProcessIo } from "../../cli/process-io.js";
import { reachJobs, type Reach, reachProblem, reachTable } from "../../domain/reach.js";
import { EngineHost } from "../host/engine-host.js";
import { withDeadline } from "../../lib/abort.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";

const timeoutMs = 60_000;

/** Exit code 1 when `--engine-reach=host` asks for more than is in reach, else 0. */
export async function runDoctorReach(
  { config }: ResolvedConfig,
  { environment, writeOut }: Pick<ProcessIo, "environment" | "writeOut">,
): Promise<number> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  try {
    const endpoint = await engineEndpoint(config, environment);
    const engine = createEngine(endpoint, config, log, lifetime);
    // No server has run yet where its directory is missing.
    const isThere = (await stat(config.stateDir).catch(() => undefined))?.isDirectory() === true;
    const directory = isThere ? config.stateDir : tmpdir();
    const { engineReach: mode, readOnly } = config;
    const reach = await withDeadline(undefined, timeoutMs, "prove what is in reach", async (signal) => {
      const facts = await engine.connect(signal);
      const found = await EngineHost.connected(facts, { engine, mode, directory, readOnly, log }, signal);
      await found.observeAny(signal);
      return found.reach;
    });
    const problem = reachProblem(reach);
    writeOut(describeReach(reach) + (problem === undefined ? "" : `\n${problem}\n`));
    return problem === undefined ? 0 : 1;
  } finally {
    await lifetime.close();
  }
}

/** The jobs, one a line; below those that are out of reach the reason and what is lost. */
export function describeReach({ jobs }: Pick<Reach, "jobs">): string {
  const width = Math.max(...reachJobs.map((job) => reachTable[job].title.length));
  const indent = " ".repeat(width + 2);
  return reachJobs
    .map((job) => {
      const found = jobs[job];
      const title = reachTable[job].title.padEnd(width);
      if (found.reached) return `${title}  in reach: ${reachTable[job].proof}\n`;
      const [word, loss] =
        found.pending === true
          ? ["not known yet", `if out of reach: ${found.lost}`]
          : ["out of reach", found.lost];
      return `${title}  ${word}: ${found.reason}\n${indent}${loss}\n`;
    })
    .join("");
}
