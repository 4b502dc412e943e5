/** `dockershim play FILE…`: runs Pod manifests through the CRI socket. */
import { join } from "node:path";
import { messageOf } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { inBackground } from "../../lib/abort.js";
import { connect } from "../cri/client.js";
import { readRemoval } from "../manifests/read-manifests.js";
import { defaultDirectories } from "../pod-config/pod-paths.js";
import { podsToRemove, removePods, takenFromSupervisor } from "../session/remove-pods.js";
import { PlayStore, namesToRemove } from "../store/play-store.js";
import { type PlayContext, type PlayIo, type PlayOptions, readFilesOf } from "./play-context.js";
import { podDeps } from "./play-deps.js";
import { openEngineAccess } from "./open-engine-access.js";

/** The exit code: 0 when all pods run or have succeeded (or are removed). Errors are printed, not thrown. */
export async function runPlay(options: PlayOptions, io: PlayIo): Promise<number> {
  const directories = { ...defaultDirectories, ...options.directories };
  const store = new PlayStore(join(directories.state, "plays.d"), options.endpoint);
  const { commandNames = (text: string): string => text } = io;
  const report = (line: string): void => {
    io.stderr.write(`${commandNames(shownLines(line))}\n`);
  };
  const context = { options, io, directories, store, report };
  try {
    if (options.down) return await down(context);
    if (options.supervise === true) {
      const { runSupervisor } = await import("./play-supervisor.js");
      return await runSupervisor(context);
    }
    if (options.dryRun !== undefined) {
      const { dryRun } = await import("./play-dry-run.js");
      return await dryRun(options.dryRun, context);
    }
    const { playUp } = await import("./play-up.js");
    return await playUp(context);
  } catch (error) {
    report(`dockershim play: ${messageOf(error)}`);
    return 1;
  }
}

/** Probes, hooks and termination messages say what a container wants: nothing for the terminal to act on. */
function shownLines(text: string): string {
  return text.split("\n").map(shownText).join("\n");
}

async function down(context: PlayContext): Promise<number> {
  const { options, io, directories, store, report } = context;
  const { signal } = io;
  const client = connect(options.endpoint);
  try {
    const status = inBackground(client.status(signal));
    const removal = await readRemoval(await readFilesOf(context));
    const server = await status; // So that a missing server is the first error.
    const paths = { endpoint: options.endpoint, dockerEndpoint: options.dockerEndpoint, directories, report };
    await using access = await openEngineAccess(client, server, paths, signal);
    const deps = podDeps(client, access, { report });
    const { failed } = await takenFromSupervisor(store, namesToRemove(removal), report, async () => {
      const { pods, missing } = await podsToRemove(removal, deps, signal);
      for (const { kind, namespace, name } of missing)
        report(`${namespace}/${name}: no pod of the ${kind} is there`);
      if (pods.length + missing.length === 0) report("no object of the files makes pods: nothing to remove");
      return removePods(pods, deps, signal, options);
    });
    return failed > 0 ? 1 : 0;
  } finally {
    client.close();
  }
}
