/** Namespaces of a rehearsal: what plugins of pod networks never remove ends with them, also after a kill. */
import { spawn } from "node:child_process";
import { mkdir, readlink, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { exampleForPlugins } from "../../network/example/example-conflist.js";
import { outputOf, runCommand } from "../../network/iptables/run-command.js";
import { requiredPlugins } from "../../network/kubenet/kubenet-conflist.js";
import { PluginInvoker } from "../../network/libcni/invoke-plugin.js";
import { installedOf, PluginVersions } from "../../network/libcni/versions.js";
import type { NetworkPluginName } from "../rehearse/network-plugins.js";
import type { Environment } from "../../shim/app/open-engine.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { mountMemory } from "../../lib/linux/helper-verbs.js";
import { silentLogger } from "../../lib/log.js";
import { criDockerdCheckpoints } from "../../shim/state/state-directory.js";
import type { ProcessIo } from "../../cli/process-io.js";

/** Set in the program inside; the value is the network plugin. Servers refuse unknown names that begin with DOCKERSHIM_. */
const insideVariable = "_DOCKERSHIM_REHEARSAL_NETWORK";
/** The largest of this command; unshare and setpriv have larger ones. */
const largestExitCode = 2;
/** Directories of CNI plugins and of cri-dockerd: those of the host are neither seen nor changed inside. */
const ownDirectories = ["/var/lib/cni", dirname(criDockerdCheckpoints)] as const;

/** What the command is given. */
export interface RehearseOptions {
  readonly recording: string;
  /** By the recording when it is not given. */
  readonly as?: "dockershim" | "cri-dockerd";
  readonly dockerEndpoint?: string;
  readonly networkPlugin: "auto" | NetworkPluginName;
  /** Where the network list is; an example of its own when it is not given. */
  readonly cniConfDir?: string;
  readonly cniBinDirs: readonly string[];
  /** Path of a cri-dockerd to ask in the end. */
  readonly criDockerd?: string;
  readonly anyway: boolean;
  readonly format: "page" | "json";
}

export type NamespacesIo = Pick<ProcessIo, "environment" | "signal" | "self" | "argv">;

/** The network plugin when this program runs inside, else undefined. */
export function networkInside(environment: Environment): NetworkPluginName | undefined {
  const found = environment[insideVariable];
  return found === "cni" || found === "kubenet" || found === "no-op" ? found : undefined;
}

/** Runs this command again inside, and returns its exit code; it prints by itself. */
export async function runInside(options: RehearseOptions, io: NamespacesIo): Promise<number> {
  const { signal, environment, self, argv } = io;
  const plugin = await choosePlugin(options);
  const words = ["--mount", ...(plugin === "no-op" ? [] : ["--net"]), "--propagation=private"];
  await outputOf(runCommand, "unshare", [...words, "true"], { signal }).catch((error: unknown) => {
    throw new ShimError(
      "precondition",
      `make namespaces for the rehearsal: ${messageOf(error)}; run it as root on a host, not in a container`,
    );
  });
  const made: string[] = [];
  try {
    for (const path of ownDirectories) {
      if ((await mkdir(path, { recursive: true, mode: 0o755 })) !== undefined) made.push(path);
    }
    // Should this process be killed, the one inside removes what it made.
    const own = ["setpriv", "--pdeathsig", "TERM", ...self, ...argv];
    const child = spawn("unshare", [...words, "--", ...own], {
      stdio: "inherit",
      env: { ...environment, [insideVariable]: plugin },
    });
    const stop = (): void => void child.kill("SIGTERM");
    signal.addEventListener("abort", stop);
    return await new Promise<number>((resolve, reject) => {
      child.once("error", (error) =>
        reject(new ShimError("precondition", `run unshare and setpriv of util-linux: ${error.message}`)),
      );
      child.once("exit", (code, name) => {
        if (code !== null && code <= largestExitCode) resolve(code);
        else if (code !== null)
          reject(new ShimError("precondition", `run unshare and setpriv of util-linux: exit code ${code}`));
        else reject(new ShimError("cancelled", `the rehearsal was ended by ${name ?? "a signal"}`));
      });
    }).finally(() => signal.removeEventListener("abort", stop));
  } finally {
    // Empty, unless another program uses them by now.
    for (const path of made) await rmdir(path).catch(() => undefined);
  }
}

/** Empty directories of its own, and a loopback device that works. */
export async function prepareInside(plugin: NetworkPluginName, signal: AbortSignal): Promise<void> {
  // A variable that a user exported must not cover directories of the host.
  const own = await readlink("/proc/self/ns/mnt");
  const outer = await readlink(`/proc/${process.ppid}/ns/mnt`).catch(() => own);
  if (own === outer)
    throw new ShimError(
      "invalid",
      `environment variable ${insideVariable}: it is set by this program alone; unset it`,
    );
  for (const path of ownDirectories) await mountMemory(path, "mode=755");
  if (plugin !== "no-op") await outputOf(runCommand, "ip", ["link", "set", "lo", "up"], { signal });
}

/** A network namespace of its own has no way to such an engine. */
export function isOverNetwork({ dockerEndpoint = "" }: Pick<RehearseOptions, "dockerEndpoint">): boolean {
  return /^(tcp|http):/.test(dockerEndpoint);
}

/** `auto`: cni, where the plugins for it are installed, and the engine has a socket of this host. */
export async function choosePlugin(
  options: Pick<RehearseOptions, "networkPlugin" | "cniBinDirs" | "dockerEndpoint">,
): Promise<NetworkPluginName> {
  const { networkPlugin, cniBinDirs, dockerEndpoint = "" } = options;
  if (networkPlugin === "no-op") return "no-op";
  if (isOverNetwork(options)) {
    if (networkPlugin === "auto") return "no-op";
    throw new ShimError(
      "precondition",
      `rehearse with ${networkPlugin}: the engine at ${JSON.stringify(dockerEndpoint)} cannot be reached from the rehearsal's network namespace; name its unix socket, or --network-plugin no-op`,
    );
  }
  const invoker = new PluginInvoker({ binDirs: cniBinDirs, log: silentLogger() });
  const isInstalled = (await installedOf(requiredPlugins, invoker)).length === requiredPlugins.length;
  if (isInstalled) return networkPlugin === "auto" ? "cni" : networkPlugin;
  if (networkPlugin === "auto") return "no-op";
  throw new ShimError(
    "precondition",
    `rehearse with ${networkPlugin}: the CNI plugins ${requiredPlugins.join(" and ")} are not in ${cniBinDirs.join(" or ")}; install them, or name --cni-bin-dir`,
  );
}

/** The directory with the network list of `cni`: the given one, else one with the example for a single node. */
export async function networkListDirectory(
  { cniConfDir, cniBinDirs: binDirs }: RehearseOptions,
  directory: string,
  signal: AbortSignal,
): Promise<string> {
  if (cniConfDir !== undefined) return cniConfDir;
  const invoker = new PluginInvoker({ binDirs, log: silentLogger() });
  const text = await exampleForPlugins({}, { invoker, versions: new PluginVersions(invoker) }, signal);
  const own = join(directory, "net.d");
  await writeFileAtomically(join(own, "10-rehearsal.conflist"), text, {
    mode: 0o600,
    temporaryPrefix: ".dockershim-",
    directoryMode: 0o700,
  });
  return own;
}
