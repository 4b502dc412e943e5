/** `dockershim migrate check` and `dockershim migrate plan`. Only `plan --write` and `--undo` write. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { judge } from "../judge/check-report.js";
import type { MigrationFacts } from "../facts/facts.js";
import { gatherFacts, type GatherOptions } from "../node/gather.js";
import { askVersion } from "../kubelet/ask-version.js";
import { renderPage } from "../judge/render-page.js";
import { type MigrationPlan, makePlan, previousTarget, reversePlan } from "../plan/make-plan.js";
import { renderPlan, renderPlanJson } from "../plan/render-plan.js";
import { undoPlan, writePlan } from "../plan/write-plan.js";
import { configuredRuntime, type Target, targetNames } from "../kubelet/target.js";
import { type DockerEndpoint, dockerEndpointKind } from "../../shim/config/endpoints.js";
import { parseFlag } from "../../cli/flag-values.js";
import { dockerEngine } from "../../shim/engine/docker-engine.js";
import { formatEndpoint, readTlsMaterial } from "../../shim/engine/http/endpoint.js";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Environment } from "../../shim/config/given.js";
import type { ProcessIo } from "../../cli/process-io.js";

/** A node has some hundred containers, each with an inspect. */
const timeoutMs = 120_000;
const shortTimeoutMs = 30_000;

export interface MigrateCheckOptions {
  readonly to: Target;
  readonly output: "page" | "json";
  /** Absolute. */
  readonly root: string;
  /** Undefined: Docker's default socket below the root. */
  readonly endpoint: DockerEndpoint | undefined;
  readonly kubeletVersion: string | undefined;
}

export interface MigratePlanOptions extends Omit<MigrateCheckOptions, "endpoint" | "to"> {
  /** Undefined: this program, or with `back` the runtime of before. */
  readonly to: Target | undefined;
  readonly program: string;
  readonly back: boolean;
  readonly write: boolean;
  /** The directory of an earlier `--write`. */
  readonly undo: string | undefined;
}

/** Exit code 0: nothing blocks and nothing changes for pods. 2: something needs attention. */
export async function runMigrateCheck(
  options: MigrateCheckOptions,
  io: Pick<ProcessIo, "environment" | "version" | "isTerminal" | "writeOut">,
): Promise<number> {
  await requireDirectory(options.root);
  const facts = await gather(options, options.endpoint, io.environment);
  const report = judge(facts, options.to, { program: io.version, at: new Date().toISOString() });
  const colour = io.isTerminal && (io.environment["NO_COLOR"] ?? "") === "";
  io.writeOut(
    options.output === "json" ? `${JSON.stringify(report, undefined, 2)}\n` : renderPage(report, { colour }),
  );
  return report.summary.exitCode;
}

/** Exit code 2: a place was not understood, and is left for the operator. */
export async function runMigratePlan(
  options: MigratePlanOptions,
  io: Pick<ProcessIo, "writeOut">,
): Promise<number> {
  const { root, undo, write, output } = options;
  if (undo !== undefined) {
    const undone = await undoPlan(undo);
    io.writeOut(`${undone.map(({ path, change }) => `${change} ${path}`).join("\n")}\n`);
    io.writeOut(`Then: systemctl daemon-reload, and start the services of before. ${undo} may be removed.\n`);
    return 0;
  }
  await requireDirectory(root);
  const facts = await gatherFiles(options);
  const plan = await choosePlan(options, facts);
  if (!write) {
    io.writeOut(output === "json" ? renderPlanJson(plan) : renderPlan(plan));
    return plan.notUnderstood.length > 0 ? 2 : 0;
  }
  const [skipped] = plan.notUnderstood;
  if (skipped !== undefined)
    throw new ShimError(
      "precondition",
      `write the plan: ${skipped.place}: ${skipped.text}; edit it by hand, then ask again (nothing is written)`,
    );
  if (plan.edits.length === 0) {
    io.writeOut(renderPlan(plan));
    return 0;
  }
  const directory = await writePlan(root, plan.edits);
  io.writeOut(renderPlan(plan, { undo: `dockershim migrate plan --undo ${directory}` }));
  return 0;
}

export async function choosePlan(
  { to, back, write, program }: Pick<MigratePlanOptions, "to" | "back" | "write" | "program">,
  facts: MigrationFacts,
): Promise<MigrationPlan> {
  const present = configuredRuntime(facts).runtime;
  const there = to ?? "dockershim";
  if (there === "containerd" || there === "cri-o")
    throw new ShimError(
      "unsupported",
      `plan the migration: there is no plan to ${targetNames[there]}: pods are made again there, see "migrate check --to ${there}"`,
    );
  if (!back) return makePlan(facts, { target: there, program });
  // The node is there already: the way back is a plan of its own.
  if (present === there) return makePlan(facts, { target: previousTarget(facts), program });
  if (write)
    throw new ShimError(
      "precondition",
      `plan the migration: the node is not at ${targetNames[there]} yet, so there is no way back to write`,
    );
  return reversePlan(await makePlan(facts, { target: there, program }), facts);
}

async function gather(
  options: Pick<MigrateCheckOptions, "root" | "kubeletVersion">,
  given: DockerEndpoint | undefined,
  environment: Environment,
): Promise<MigrationFacts> {
  const sources = gathering(options);
  const plain = given ?? (await ownEngine(sources, environment));
  const tls = plain.kind === "tcp" ? await readTlsMaterial(environment) : undefined;
  const endpoint = plain.kind === "tcp" && tls !== undefined ? { ...plain, tls } : plain;
  using engine = dockerEngine({ endpoint, shortTimeoutMs });
  return await withDeadline(undefined, timeoutMs, "read the node", (signal) =>
    gatherFacts({ ...sources, engine, endpoint: formatEndpoint(endpoint) }, signal),
  );
}

/** That of the runtime's flags, else as the docker command finds it; below the root directory, where that is another. */
async function ownEngine(
  sources: Omit<GatherOptions, "engine" | "endpoint">,
  environment: Environment,
): Promise<DockerEndpoint> {
  const { root } = sources;
  const files = await withDeadline(undefined, timeoutMs, "read the node", (signal) =>
    gatherFacts({ ...sources, engine: undefined, endpoint: "" }, signal),
  );
  const flag = files.runtimeEngine?.source.startsWith("/") === true ? files.runtimeEngine : undefined;
  const host = root === "/" ? environment["DOCKER_HOST"] : undefined;
  if (flag !== undefined && (root === "/" || flag.endpoint.startsWith("unix://"))) {
    const parsed = dockerEndpointKind.parse(flag.endpoint);
    return parsed.kind === "unix" ? { ...parsed, path: join(root, parsed.path) } : parsed;
  }
  if (host !== undefined && host !== "") return parseFlag("DOCKER_HOST", host, dockerEndpointKind);
  return { kind: "unix", path: join(root, "/var/run/docker.sock") };
}

function gathering(
  options: Pick<MigrateCheckOptions, "root" | "kubeletVersion">,
): Omit<GatherOptions, "engine" | "endpoint"> {
  const { root, kubeletVersion } = options;
  // A program of another root directory belongs to another node.
  const askProgram = root === "/" ? askVersion : () => Promise.resolve(undefined);
  return { root, kubeletVersion, askProgram };
}

/** Edits depend on files alone. */
function gatherFiles(options: MigratePlanOptions): Promise<MigrationFacts> {
  return withDeadline(undefined, timeoutMs, "read the node", (signal) =>
    gatherFacts({ ...gathering(options), engine: undefined, endpoint: "" }, signal),
  );
}

async function requireDirectory(path: string): Promise<void> {
  try {
    if ((await stat(path)).isDirectory()) return;
  } catch (error) {
    throw new ShimError("invalid", `flag "--root": ${JSON.stringify(path)}: ${messageOf(error)}`);
  }
  throw new ShimError("invalid", `flag "--root": ${JSON.stringify(path)}: is not a directory`);
}
