/** Plugins that are shell scripts: they write down how they were called and do what a test tells them. */
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "../../../../src/lib/log.js";
import { PluginInvoker, type InvokerOptions } from "../../../../src/network/libcni/invoke-plugin.js";
import { NetworkListRunner } from "../../../../src/network/libcni/network-list-runner.js";
import { ResultCache } from "../../../../src/network/libcni/cache.js";
import { RunningPlugins } from "../../../../src/network/libcni/running-plugins.js";
import { Attachments } from "../../../../src/network/cni/attachments.js";
import type { NatTable } from "../../../../src/network/cni/nat-rules.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import {
  HeldNamespaces,
  type HeldNamespace,
  type PodNamespaces,
} from "../../../../src/lib/linux/held-namespaces.js";
import type {
  NamespaceProof,
  NamespaceLook,
  NetworkNamespaces,
  PodNamespace,
} from "../../../../src/lib/linux/network-namespaces.js";

export type RecordedCall = ReturnType<typeof recordedCall>;

/** 64 hex digits, as the engine's ids. */
export function sandboxId(digit: string): string {
  return digit.repeat(64);
}

/** A namespace that lives in every test, until it is told to die. The kernel has no process of this number. */
export const livingNetns = "/proc/4194305/ns/net";
/** The path of a held namespace, without the id of its container. */
export const heldNetns = "/held/";

/** Only root can make real ones. */
export class FakeNamespaces implements PodNamespaces {
  /** Identities by path. */
  readonly living = new Map([[livingNetns, "first"]]);
  readonly own = new Set<string>();
  /** By container id. */
  readonly held = new Map<string, HeldNamespace>();

  hold(containerId: string, { netns = "", netnsIdentity }: Partial<PodNamespace>): HeldNamespace | undefined {
    const known = this.held.get(containerId);
    const found = this.look(netns);
    if (known !== undefined || found?.own !== false) return known;
    if (found.identity !== (netnsIdentity ?? found.identity)) return undefined;
    const held = { netns: `${heldNetns}${containerId}`, netnsIdentity: found.identity };
    this.held.set(containerId, held);
    this.living.set(held.netns, held.netnsIdentity);
    return held;
  }

  release(containerId: string): void {
    this.living.delete(this.held.get(containerId)?.netns ?? "");
    this.held.delete(containerId);
  }

  look(path: string): NamespaceLook | undefined {
    const identity = this.living.get(path);
    return identity === undefined ? undefined : { identity, own: this.own.has(path) };
  }

  prove(path: string): NamespaceProof | undefined {
    return proofBy((at) => this.look(at), path);
  }
}

function proofBy(look: NetworkNamespaces["look"], path: string): NamespaceProof | undefined {
  const found = look(path);
  if (found === undefined) return undefined;
  const holds = (): boolean => look(path)?.identity === found.identity;
  return { ...found, directory: undefined, holds, [Symbol.dispose]: () => undefined };
}

/** Namespaces as they are seen by `look`. */
export function namespacesSeen(look: NetworkNamespaces["look"]): PodNamespaces {
  return new HeldNamespaces({ look, prove: (path) => proofBy(look, path) });
}

/** A result with one address on `eth0`. */
export const oneAddress = {
  cniVersion: "0.4.0",
  interfaces: [{ name: "eth0", sandbox: "/x" }],
  ips: [{ version: "4", interface: 0, address: "10.1.2.3/24", gateway: "10.1.2.1" }],
  routes: [{ dst: "0.0.0.0/0" }],
  dns: {},
};

export class FakePlugins implements AsyncDisposable {
  readonly binDir: string;
  readonly namespaces = new FakeNamespaces();
  readonly #journal: string;

  private constructor(readonly directory: string) {
    this.binDir = join(directory, "bin");
    this.#journal = join(directory, "journal");
  }

  static async create(...names: readonly string[]): Promise<FakePlugins> {
    const fake = new FakePlugins(await realpath(await mkdtemp(join(tmpdir(), "fake-cni-"))));
    await mkdir(fake.binDir);
    await writeFile(fake.#journal, "");
    for (const name of names) await fake.install(name);
    return fake;
  }

  /**
   * Installs a plugin that answers ADD with its previous result or `oneAddress`, and VERSION with `versions`.
   */
  async install(name: string, versions = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]): Promise<void> {
    const reply = JSON.stringify({ cniVersion: "1.0.0", supportedVersions: versions });
    const script = `#!/bin/sh
input=$(cat)
printf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' '${name}' "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_NETNS" \\
  "$CNI_IFNAME" "$CNI_ARGS" "$CNI_PATH" "$input" >> '${this.#journal}'
behaviour='${this.directory}/'${name}.$CNI_COMMAND
if [ -f "$behaviour" ]; then . "$behaviour"; exit $?; fi
case $CNI_COMMAND in
  VERSION) echo '${reply}' ;;
  ADD) echo '${JSON.stringify(oneAddress)}' ;;
esac
`;
    await this.write(name, script);
  }

  /** A file in the directory of binaries, executable unless told otherwise. */
  async write(name: string, content: string | Uint8Array, mode = 0o755): Promise<void> {
    const path = join(this.binDir, name);
    await writeFile(path, content);
    await chmod(path, mode);
  }

  /** Shell text that the plugin runs at the command, instead of its usual answer. It may use `$input`. */
  async behave(name: string, command: string, script: string): Promise<void> {
    await writeFile(join(this.directory, `${name}.${command}`), script);
  }

  async behaveAgain(name: string, command: string): Promise<void> {
    await rm(join(this.directory, `${name}.${command}`));
  }

  /** All calls so far, VERSION and STATUS left out unless asked for. */
  async calls(...commands: readonly string[]): Promise<readonly RecordedCall[]> {
    const wanted = commands.length === 0 ? ["ADD", "DEL", "CHECK", "GC"] : commands;
    const lines = (await readFile(this.#journal, "utf8")).split("\n").filter((line) => line !== "");
    return lines.map(recordedCall).filter(({ command }) => wanted.includes(command));
  }

  /** `ADD bridge`, `DEL portmap` and so on. */
  async order(): Promise<readonly string[]> {
    return (await this.calls()).map(({ command, plugin }) => `${command} ${plugin}`);
  }

  invoker(options: Partial<InvokerOptions> = {}): PluginInvoker {
    const { namespaces } = this;
    return new PluginInvoker({ binDirs: [this.binDir], log: silentLogger(), namespaces, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

function recordedCall(line: string) {
  const [plugin = "", command = "", containerId = "", netns = "", ifName = "", ...more] = line.split("\t");
  const [args = "", path = "", stdinText = ""] = more;
  const stdin = JSON.parse(stdinText) as Record<string, unknown>;
  return { plugin, command, containerId, netns, ifName, args, path, stdinText, stdin };
}

/** A nat table in memory that only knows how to be saved, and what was restored into it. */
export class FakeNatTable implements NatTable {
  readonly restored: string[] = [];
  constructor(public text = "") {}

  async save(family: string): Promise<string> {
    return family === "ipv4" ? this.text : "";
  }

  async restore(_family: string, text: string): Promise<void> {
    this.restored.push(text);
    const gone = text.split("\n").flatMap((line) => {
      if (line.startsWith("-D ")) return [line.replace("-D ", "-A ")];
      return line.startsWith("-X ") ? [line.slice(3)] : [];
    });
    const is = (line: string) => (part: string) =>
      line === part || line.startsWith(`:${part} `) || line.startsWith(`-A ${part} `);
    const left = this.text.split("\n").filter((line) => !gone.some(is(line)));
    this.text = left.join("\n");
  }
}

/** Attachments with their files in a new directory, and plugins that succeed. */
export async function attachmentsWith(...types: readonly string[]) {
  const fake = await FakePlugins.create(...types);
  const directory = join(fake.directory, "state");
  await mkdir(join(directory, "legacy"), { recursive: true });
  const log = recordingLog();
  const cache = new ResultCache(directory, log, [join(directory, "legacy")]);
  await cache.open();
  const clock = new ManualClock();
  const natTable = new FakeNatTable();
  /** As another run of the program has them. */
  const open = (options: Partial<InvokerOptions> = {}) => {
    const running = new RunningPlugins(join(directory, "running"), log);
    const invoker = fake.invoker({ running, ...options });
    const runner = new NetworkListRunner(invoker, log);
    const natTables = async () => [natTable];
    const attachments = new Attachments({ runner, cache, natTables, running, log, clock });
    return { running, invoker, attachments };
  };
  return { fake, directory, log, cache, clock, natTable, open, ...open() };
}
