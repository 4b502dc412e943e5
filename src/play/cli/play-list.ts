/** `dockershim play ls`: which plays and pods there are, and which process keeps each. */
import { join } from "node:path";
import { messageOf } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { connect } from "../cri/client.js";
import { nodeFiles } from "../node/files.js";
import { defaultDirectories } from "../pod-config/pod-paths.js";
import { type PlayedPod, type PlayListing, listPlays } from "../session/list-plays.js";
import { PlayStore } from "../store/play-store.js";
import { formatTable } from "../view/format-table.js";
import { jsonText } from "../view/object-text.js";
import { recordDirectories } from "./open-engine-access.js";
import type { PlayIo } from "./play-context.js";
import { playProcesses } from "./play-deps.js";

export interface PlayListOptions {
  readonly endpoint: string;
  readonly output: "table" | "json";
}

export async function runPlayList({ endpoint, output }: PlayListOptions, io: PlayIo): Promise<number> {
  const { signal, commandNames = (text: string): string => text } = io;
  const report = (line: string): void => {
    io.stderr.write(`${commandNames(shownText(line))}\n`);
  };
  const client = connect(endpoint);
  try {
    const directories = await recordDirectories(
      client,
      { endpoint, directories: defaultDirectories },
      signal,
    );
    const store = new PlayStore(join(defaultDirectories.state, "plays.d"), endpoint);
    const processes = playProcesses();
    const listing = await listPlays(
      { client, files: nodeFiles, directories, report, store, processes },
      signal,
    );
    if (output === "json") io.stdout.write(jsonText(listing));
    else {
      io.stdout.write(renderListing(listing));
      if (listing.plays.length > 0 && !listing.isSupervisorAlive)
        report('no supervisor runs: "dockershim play --supervise" keeps what was detached');
    }
    return 0;
  } catch (error) {
    report(`dockershim play ls: ${messageOf(error)}`);
    return 1;
  } finally {
    client.close();
  }
}

/** A line for each pod, and for each workload of the supervisor that has none now. */
export function renderListing({ plays, otherPods }: PlayListing): string {
  const row = ({ key, workload, keptBy, process }: PlayedPod, files: string): readonly string[] => [
    `${key.namespace}/${key.name}`,
    workload.split(" ")[1] ?? "",
    process === undefined ? keptBy : `${keptBy} (${process})`,
    files,
  ];
  const rows = plays.flatMap(({ files, workloads, pods }) => {
    const names = files.join(",");
    const idle = workloads.filter((name) => !pods.some(({ workload }) => workload === name));
    return [
      ...pods.map((pod) => row(pod, names)),
      ...idle.map((name) => [`${name.split(" ")[0] ?? ""}/-`, name.split(" ")[1] ?? "", "-", names]),
    ];
  });
  const all = [...rows, ...otherPods.map((pod) => row(pod, "-"))].map((cells) => cells.map(shownText));
  return formatTable([["POD", "OF", "KEPT BY", "FILES"], ...all]);
}
