/** The server's sockets, ports and files, and other servers beside it. */
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { connectCri } from "../../client/cri-connection.js";
import { namesIn } from "../../lib/files/directories.js";
import { isTable } from "../../lib/files/record-format.js";
import { NodeFiles } from "../../migrate/files/node-files.js";
import { holdersOfSockets, listenerOf } from "../../migrate/node/listeners.js";
import type { Config } from "../../shim/config/resolve.js";
import { kubeletWithoutNames } from "../../shim/serve/kubelet-without-names.js";
import { criDockerds } from "../../shim/serve/serving-programs.js";
import { isStateDirectoryClaimed } from "../../shim/state/state-directory.js";
import type { PortFacts, ServerFacts } from "../facts.js";
import { readLastWords } from "./last-words.js";

/** A server that is well answers Status within milliseconds. */
const statusMs = 5_000;
/** `TCP_LISTEN` in /proc/net/tcp. */
const listenState = "0A";

/** `source`: the name of its unit, where one is installed. */
export async function readServer(config: Config, source = ""): Promise<ServerFacts> {
  const { stateDir, containerRuntimeEndpoint: endpoint, cadvisorSocket } = config;
  const files = new NodeFiles("/");
  const path = endpoint.kind === "unix" ? endpoint.path : "";
  const kind = path === "" ? "absent" : await files.kindOf(await files.resolve(path).catch(() => path));
  const runs = await isStateDirectoryClaimed(stateDir).catch(() => false);
  const others = (await criDockerds()).filter(({ root }) => resolve(root) !== resolve(stateDir));
  const cadvisor = cadvisorSocket?.kind === "unix" ? `unix://${cadvisorSocket.path}` : "";
  return {
    runs,
    socket: kind === "absent" ? "absent" : kind === "other" ? "socket" : "other",
    listener: path === "" ? "unknown" : await listenerOf(files, path),
    takenPorts: runs ? [] : await takenPorts(config, files),
    lastWords: runs || !source.endsWith(".service") ? undefined : await readLastWords(source),
    quarantine: await namesIn(join(stateDir, "quarantine")).catch(() => []),
    runtimes: [...(runs ? ["dockershim"] : []), ...others.map(({ pid }) => `cri-dockerd (process ${pid})`)],
    namesProblem: await kubeletWithoutNames(cadvisor, files),
    ociRuntimeProblem: runs && path !== "" ? await ociRuntimeProblem(path) : undefined,
  };
}

/** A trial container has told the server; a second one is not made. A server that does not answer is another finding. */
export async function ociRuntimeProblem(socket: string): Promise<string | undefined> {
  const connection = connectCri(socket);
  try {
    const options = { signal: new AbortController().signal, timeoutMs: statusMs };
    const { info } = await connection.call("Status", { verbose: true }, options);
    const state: unknown = JSON.parse(info["ociRuntime"] ?? "null");
    return isTable(state) && typeof state["problem"] === "string" ? state["problem"] : undefined;
  } catch {
    return undefined;
  } finally {
    connection.close();
  }
}

/** While the server does not run, what listens on its ports is another program. */
async function takenPorts(
  { streamingBindAddress, metricsBindAddress }: Config,
  files: NodeFiles,
): Promise<readonly PortFacts[]> {
  const wanted = [
    { flag: "streaming-bind-addr", ...streamingBindAddress },
    ...(metricsBindAddress?.kind === "tcp" ? [{ flag: "metrics-bind-address", ...metricsBindAddress }] : []),
  ].filter(({ port }) => port !== 0);
  const taken: PortFacts[] = [];
  for (const { flag, host, port } of wanted) {
    const sockets = await socketsAt(port);
    if (sockets.size === 0) continue;
    const [holder = "another program"] = await holdersOfSockets(files, sockets);
    taken.push({ flag, address: `${host}:${port}`, holder });
  }
  return taken;
}

/** Inodes of the sockets that listen on the port, at any address. */
async function socketsAt(port: number): Promise<ReadonlySet<string>> {
  const inodes = new Set<string>();
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const file of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const text = await readFile(file, "utf8").catch(() => "");
    for (const line of text.split("\n")) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      if (local?.endsWith(suffix) === true && state === listenState && inode !== undefined) inodes.add(inode);
    }
  }
  return inodes;
}
