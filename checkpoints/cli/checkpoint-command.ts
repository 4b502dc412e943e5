/** `dockershim checkpoint ls|verify|convert|repair`: checkpoint files at rest, of dockershim and cri-dockerd. */
import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { convertFiles } from "../convert-files.js";
import { engineSandboxes } from "../engine-sandboxes.js";
import { readFilesAtRest } from "../files-at-rest.js";
import { repairFiles, type RepairedFile } from "../repair-files.js";
import { createEngine, engineEndpoint } from "../../src/shim/app/open-engine.js";
import { options as table } from "../../src/shim/config/options.js";
import { resolveConfig } from "../../src/shim/config/resolve.js";
import { withDeadline } from "../../src/lib/abort.js";
import { ShimError } from "../../src/lib/errors.js";
import { Lifetime } from "../../src/lib/lifetime.js";
import { silentLogger } from "../../src/lib/log.js";
import { join } from "node:path";
import { criDockerdCheckpoints } from "../../src/shim/state/state-directory.js";
import type { ProcessIo } from "../../src/cli/process-io.js";
import type { CheckpointOptions, CheckpointProgram, CheckpointTask } from "./checkpoint-options.js";
import {
  convertedPage,
  listedJson,
  listedPage,
  repairedJson,
  repairedPage,
  verifiedPage,
} from "./checkpoint-pages.js";
import { servingProgram } from "../../src/shim/serve/serving-programs.js";

interface CheckpointIo extends Pick<ProcessIo, "environment" | "writeOut"> {
  /** For tests: where dockershim and cri-dockerd have their checkpoints. */
  readonly usualDirectories?: readonly string[];
}

const usual = [join(table.stateDir.default, "sandbox"), criDockerdCheckpoints];
const engineTimeoutMs = 60_000;

/** Exit code 0, or 2 when a file is corrupt (`verify`) or cannot be, or was not, repaired. */
export async function runCheckpoint(
  { task, directories: given, format }: CheckpointOptions,
  io: CheckpointIo,
): Promise<number> {
  const usualDirectories = io.usualDirectories ?? usual;
  const directories = given.length > 0 ? given : await existing(usualDirectories);
  if (directories.length === 0) {
    const paths = usualDirectories.map((path) => JSON.stringify(path)).join(" nor ");
    throw new ShimError("precondition", `there is neither ${paths}; name a directory with --directory`);
  }
  const print = (page: string, json: object): void =>
    io.writeOut(format === "json" ? `${JSON.stringify(json, undefined, 2)}\n` : page);
  switch (task.kind) {
    case "ls": {
      const files = await readFilesAtRest(directories);
      print(listedPage(files), listedJson(files));
      return 0;
    }
    case "verify": {
      const files = await readFilesAtRest(directories);
      print(verifiedPage(files), listedJson(files));
      return files.corrupt.length > 0 ? 2 : 0;
    }
    case "convert": {
      const { to, output, anyway } = task;
      if (!anyway) await refuseServed(output === undefined ? directories : [output]);
      const files = await convertFiles(directories, {
        to: flavourOf(to),
        ...(output === undefined ? {} : { output }),
      });
      print(convertedPage(files, to), { files });
      return 0;
    }
    case "repair": {
      const { dryRun, anyway } = task;
      if (!anyway && !dryRun) await refuseServed(directories);
      const files = await repair(task, directories, { usualDirectories, environment: io.environment });
      print(repairedPage(files, { dryRun }), repairedJson(files, { dryRun }));
      return files.some(({ source }) => source === "none" || dryRun) ? 2 : 0;
    }
  }
}

async function repair(
  { to, dockerEndpoint, dryRun }: Extract<CheckpointTask, { kind: "repair" }>,
  directories: readonly string[],
  {
    usualDirectories,
    environment,
  }: { usualDirectories: readonly string[]; environment: ProcessIo["environment"] },
): Promise<readonly RepairedFile[]> {
  const named = new Set(directories.map((one) => resolve(one)));
  const options = {
    dryRun,
    alsoLookIn: (await existing(usualDirectories)).filter((directory) => !named.has(directory)),
    ...(to === undefined ? {} : { to: flavourOf(to) }),
  };
  if (dockerEndpoint === undefined) return repairFiles(directories, options);
  const lifetime = new Lifetime(silentLogger());
  try {
    const flags = [{ name: table.dockerEndpoint.name, text: dockerEndpoint }];
    // Neither the file nor the environment of a server counts here.
    const { config } = await resolveConfig(flags, {}, () => Promise.reject(new Error("no file is named")));
    const endpoint = await engineEndpoint(config, environment);
    const engine = createEngine(endpoint, config, silentLogger(), lifetime);
    return await withDeadline(
      undefined,
      engineTimeoutMs,
      "ask the engine for its sandboxes",
      async (signal) => {
        await engine.connect(signal);
        return repairFiles(directories, { ...options, engine: await engineSandboxes(engine, signal) });
      },
    );
  } finally {
    await lifetime.close();
  }
}

async function refuseServed(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    const program = await servingProgram(directory);
    if (program === undefined) continue;
    throw new ShimError(
      "conflict",
      `write into ${JSON.stringify(directory)}: ${program} uses it and may remove a file at the same time; ` +
        "stop it first, or use --anyway",
    );
  }
}

async function existing(directories: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    directories.map((directory) =>
      access(directory).then(
        () => [directory],
        () => [],
      ),
    ),
  );
  return found.flat();
}

function flavourOf(program: CheckpointProgram): "dockershim" | "criDockerd" {
  return program === "dockershim" ? "dockershim" : "criDockerd";
}
