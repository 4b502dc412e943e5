/**
 * Redirects of ports within a pod's network namespace, by nsenter and iptables. They are gone with the
 * namespace.
 */
import { isIPv4, isIPv6 } from "node:net";
import { ShimError, isKind } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import { run } from "../node/mounts.js";
import { namespaceSource, openNamespace } from "./network-namespace.js";
import type { Redirect } from "./redirects.js";

/** All rules are in it, so that a change of the Services replaces them. */
const chain = "DOCKERSHIM-PLAY";
const hooks = ["PREROUTING", "OUTPUT"] as const;

export type RunProgram = typeof run;

export interface RedirectDeps {
  readonly client: Pick<CriClient, "podSandboxInfo">;
  readonly run?: RunProgram;
  readonly open?: typeof openNamespace;
}

export interface SandboxNetwork {
  readonly id: string;
  readonly ips: readonly string[];
}

/** Replaces the redirects of a sandbox; can be repeated. */
export async function redirectPorts(
  { id, ips }: SandboxNetwork,
  redirects: readonly Pick<Redirect, "protocol" | "port" | "target">[],
  { client, run: runProgram = run, open = openNamespace }: RedirectDeps,
  signal: AbortSignal,
): Promise<void> {
  const [address] = ips;
  if (address === undefined) return;
  const source = namespaceSource(await client.podSandboxInfo(id, signal));
  if (source === undefined)
    throw new ShimError("unsupported", "the CRI server does not report the process of a sandbox");
  await using namespace = await open(source, address);
  const families = [
    { program: "iptables", own: ips.filter((ip) => isIPv4(ip)) },
    { program: "ip6tables", own: ips.filter((ip) => isIPv6(ip)) },
  ];
  for (const { program, own } of families) {
    if (own.length === 0) continue;
    const enter = (words: readonly string[], input?: string): Promise<string> =>
      runProgram("nsenter", ["--net=/proc/self/fd/3", "--", ...words], namespace.fd, input);
    const missing: string[] = [];
    for (const hook of hooks) {
      if (!(await succeeds(enter([program, "-t", "nat", "-C", hook, "-j", chain])))) missing.push(hook);
    }
    // Nothing was made, and nothing is wanted.
    if (redirects.length === 0 && missing.length === hooks.length) continue;
    await enter([`${program}-restore`, "--noflush"], rulesText(own, redirects, missing));
  }
}

/** The input of `iptables-restore --noflush`: it empties the chain and fills it in one step. */
export function rulesText(
  ips: readonly string[],
  redirects: readonly Pick<Redirect, "protocol" | "port" | "target">[],
  missingHooks: readonly string[],
): string {
  const rules = ips.flatMap((ip) =>
    redirects.map(({ protocol, port, target }) => {
      const match = `-d ${ip} -p ${protocol.toLowerCase()} --dport ${port}`;
      // Without an address, DNAT changes the port alone.
      return `-A ${chain} ${match} -j DNAT --to-destination :${target}`;
    }),
  );
  const jumps = missingHooks.map((hook) => `-A ${hook} -j ${chain}`);
  return ["*nat", `:${chain} - [0:0]`, ...jumps, ...rules, "COMMIT", ""].join("\n");
}

/** Any failure means no: what is wrong with the program shows when the rules are made. */
async function succeeds(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (isKind(error, "unknown")) return false;
    throw error;
  }
}
