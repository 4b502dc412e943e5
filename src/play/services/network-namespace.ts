/** The network namespace of a sandbox, found by what the CRI server reports about it. */
import { type FileHandle, open, readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { ShimError, messageOf } from "../../lib/errors.js";

/** Either a file that holds the namespace, or a process in it. */
export type NamespaceSource = { readonly path: string } | { readonly pid: number };

/** From the JSON of a verbose PodSandboxStatus: the OCI configuration's file, else the process. */
export function namespaceSource(info: Readonly<Record<string, string>>): NamespaceSource | undefined {
  let value: unknown;
  try {
    value = JSON.parse(info["info"] ?? "{}");
  } catch {
    return undefined; // Other servers may have other texts there.
  }
  const linux = field(field(value, "runtimeSpec"), "linux");
  const namespaces = field(linux, "namespaces");
  for (const one of Array.isArray(namespaces) ? (namespaces as readonly unknown[]) : []) {
    const path = field(one, "path");
    if (field(one, "type") === "network" && typeof path === "string" && path.startsWith("/")) return { path };
  }
  const pid = field(value, "pid");
  return typeof pid === "number" && Number.isSafeInteger(pid) && pid > 1 ? { pid } : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** Throws when the process has ended: then its number may be that of another one, without the pod's address. */
export async function openNamespace(source: NamespaceSource, address: string): Promise<FileHandle> {
  const path = "path" in source ? source.path : `/proc/${source.pid}/ns/net`;
  let file: FileHandle;
  try {
    file = await open(path, "r");
  } catch (cause) {
    const message = `open the pod's network namespace "${path}": ${messageOf(cause)}`;
    throw new ShimError("unavailable", message, {}, { cause });
  }
  try {
    if ("path" in source || (await hasAddress(source.pid, address))) return file;
    throw new ShimError(
      "precondition",
      `process ${source.pid} of the CRI server is not in the pod's network`,
    );
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Whether the network of the process has this address itself. */
async function hasAddress(pid: number, address: string): Promise<boolean> {
  if (isIPv6(address))
    return localIpv6(await readFile(`/proc/${pid}/net/if_inet6`, "utf8")).has(canonical(address));
  return localIpv4(await readFile(`/proc/${pid}/net/fib_trie`, "utf8")).has(address);
}

/** The addresses in `/proc/PID/net/fib_trie`: one is local when `/32 host LOCAL` is in the line below it. */
export function localIpv4(text: string): ReadonlySet<string> {
  const found = text.matchAll(/\|-- (\d+\.\d+\.\d+\.\d+)\n\s*\/32 host LOCAL/g);
  return new Set([...found].map(([, address = ""]) => address));
}

/** The addresses in `/proc/PID/net/if_inet6`, whose lines begin with 32 digits. */
export function localIpv6(text: string): ReadonlySet<string> {
  const found = text.matchAll(/^([0-9a-f]{32}) /gm);
  return new Set([...found].map(([, digits = ""]) => canonical((digits.match(/.{4}/g) ?? []).join(":"))));
}

function canonical(address: string): string {
  return new URL(`http://[${address}]`).hostname;
}
