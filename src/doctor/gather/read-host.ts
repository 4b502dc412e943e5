/** The node itself: kernel settings, clock, file systems, certificates. */
import { X509Certificate } from "node:crypto";
import { access, constants, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { watch } from "node:fs";
import { ShimError, succeeds } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { readKernelFile } from "../../lib/linux/kernel-file.js";
import type { KubeletFacts } from "../../migrate/facts/facts.js";
import { lastFlag } from "../../migrate/kubelet/flags.js";
import { type RunCommand, runCommand } from "../../network/iptables/run-command.js";
import type { CertificateFacts, FileSystemFacts, HostFacts, PlaceFacts, KernelLimit } from "../facts.js";
import { observe } from "./observe.js";

const placeMs = 5_000;

const sysctls = [
  "net.ipv4.ip_forward",
  "net.bridge.bridge-nf-call-iptables",
  "net.ipv4.conf.all.rp_filter",
] as const;

/** Written to by this program and the kubelet while they run. */
const writtenDirectories = ["pods", "sandbox", "logs"] as const;

export async function readHost(stateDir: string, kubelet: KubeletFacts | undefined): Promise<HostFacts> {
  const kernel = (path: string): Promise<string | undefined> =>
    readKernelFile(path).then(
      (text) => text.trim(),
      () => undefined,
    );
  const values = await Promise.all(
    sysctls.map(async (name) => [name, await kernel(`/proc/sys/${name.replaceAll(".", "/")}`)] as const),
  );
  const enforce = await kernel("/sys/fs/selinux/enforce");
  const resolvConf = resolvConfOf(kubelet);
  const text = await readFile(resolvConf, "utf8").catch(() => "");
  const timesync = "/run/systemd/timesync";
  return {
    passed: await newest(writtenDirectories.map((name) => join(stateDir, name))),
    synchronized: (await exists(timesync)) ? await exists(`${timesync}/synchronized`) : undefined,
    sysctls: Object.fromEntries(values),
    limits: await readKernelLimits(kernel),
    selinux: enforce === undefined ? "off" : enforce === "1" ? "enforcing" : "permissive",
    apparmor: (await kernel("/sys/module/apparmor/parameters/enabled")) === "Y",
    nameservers: [...text.matchAll(/^nameserver\s+(\S+)/gm)].map(([, address = ""]) => address),
    resolvConf,
  };
}

function resolvConfOf(kubelet: KubeletFacts | undefined): string {
  const flags = kubelet?.running?.flags ?? kubelet?.service?.flags ?? [];
  const path = lastFlag(flags, "resolv-conf")?.value ?? kubelet?.settings.get("resolvConf")?.value;
  return path === undefined || path === "" ? "/etc/resolv.conf" : path;
}

async function newest(paths: readonly string[]): Promise<HostFacts["passed"]> {
  let found: HostFacts["passed"];
  for (const path of paths) {
    const status = await stat(path).catch(() => undefined);
    if (status !== undefined && status.mtimeMs > (found?.atMs ?? 0))
      found = { atMs: status.mtimeMs, proof: `the last change of ${path}` };
  }
  return found;
}

function exists(path: string): Promise<boolean> {
  return succeeds(stat(path));
}

/**
 * By a program of its own, which may hang in the kernel in place of a thread of this process. Directories that do
 * not exist are left out.
 */
export async function readPlaces(
  places: readonly (readonly [path: string, holds: string])[],
  run: RunCommand = runCommand,
  timeoutMs = placeMs,
): Promise<readonly PlaceFacts[]> {
  const read = async (path: string, holds: string): Promise<PlaceFacts | undefined> => {
    const reading = await observe(`look at the file system of "${path}"`, timeoutMs, async (signal) => {
      const words = ["-f", "-c", "%i %S %b %a %c %d", "--", path];
      const { exitCode, stdout } = await run("stat", words, { signal, timeoutMs });
      return exitCode === 0 ? { ...parseFileSystem(stdout), readOnly: await isReadOnly(path) } : undefined;
    });
    if (reading.problem !== undefined) return { path, holds, reading };
    return reading.seen === undefined ? undefined : { path, holds, reading: { seen: reading.seen } };
  };
  const all = await Promise.all(places.map(([path, holds]) => read(path, holds)));
  return all.filter((place) => place !== undefined);
}

export function isHung({ reading }: PlaceFacts): boolean {
  return reading.problem !== undefined && reading.timedOut;
}

/** Whether a read of the path would not end, as far as is known. */
export function isBelowHung(places: readonly PlaceFacts[], path: string): boolean {
  return places.filter(isHung).some((place) => path === place.path || path.startsWith(`${place.path}/`));
}

/** Of a path whose file system answers. */
function isReadOnly(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => false,
    (error: unknown) => hasCode(error, "EROFS"),
  );
}

function parseFileSystem(text: string): Omit<FileSystemFacts, "readOnly"> {
  const [id = "", ...numbers] = text.trim().split(" ");
  const [blockBytes = 0, blocks = 0, available = 0, inodes = 0, freeInodes = 0] = numbers.map(Number);
  return { id, totalBytes: blocks * blockBytes, availableBytes: available * blockBytes, inodes, freeInodes };
}

/** Files that are not there are left out. */
export async function readCertificates(
  files: readonly (readonly [path: string, holder: string])[],
): Promise<readonly CertificateFacts[]> {
  const facts: CertificateFacts[] = [];
  for (const [path, holder] of files) {
    if (!(await exists(path))) continue;
    const reading = await observe(`read "${path}"`, placeMs, async () => validityOf(await readFile(path)));
    facts.push({ path, holder, reading });
  }
  return facts;
}

/** Of the first certificate of a PEM file. */
function validityOf(pem: Buffer): { readonly notBeforeMs: number; readonly notAfterMs: number } {
  try {
    const { validFrom, validTo } = new X509Certificate(pem);
    return { notBeforeMs: Date.parse(validFrom), notAfterMs: Date.parse(validTo) };
  } catch {
    // The message of OpenSSL names functions of its own.
    throw new ShimError("invalid", "it holds none in PEM");
  }
}

/** What this kernel does not tell is left out. `read`: a file without blanks around it; undefined for none. */
export async function readKernelLimits(
  read: (path: string) => Promise<string | undefined>,
  watches: () => boolean = canWatch,
): Promise<readonly KernelLimit[]> {
  const number = async (path: string): Promise<number> => Number((await read(path)) ?? NaN);
  const netfilter = "/proc/sys/net/netfilter/nf_conntrack";
  const [files, , mostFiles] = ((await read("/proc/sys/fs/file-nr")) ?? "").split(/\s+/);
  const [, , , threads = ""] = ((await read("/proc/loadavg")) ?? "").split(" ");
  const ids = await number("/proc/sys/kernel/pid_max");
  const limits: readonly KernelLimit[] = [
    {
      name: "connections",
      used: await number(`${netfilter}_count`),
      limit: await number(`${netfilter}_max`),
    },
    {
      name: "threads",
      used: Number(threads.split("/")[1] ?? NaN),
      limit: Math.min(ids, await number("/proc/sys/kernel/threads-max")),
    },
    { name: "files", used: Number(files), limit: Number(mostFiles) },
  ];
  const known = limits.filter(({ used, limit }) => Number.isFinite(used) && limit > 0);
  if (watches()) return known;
  const instances = await number("/proc/sys/fs/inotify/max_user_instances");
  return [...known, { name: "inotify", used: instances, limit: instances }];
}

/** Nothing says how many there are: whether there is room for one more. */
function canWatch(): boolean {
  try {
    watch("/proc").close();
    return true;
  } catch (error) {
    return !hasCode(error, "EMFILE", "ENOSPC");
  }
}
