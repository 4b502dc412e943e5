/** Redirects of ports within a pod's network namespace, by nsenter and iptables. They are gone with the namespace. */
import { isIPv4, isIPv6 } from "node:net";
import { ShimError, isKind } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import { run } from "../node/run.js";
import { namespaceSource, openNamespace } from "./network-namespace.js";
import type { PodRules, Redirect } from "./redirects.js";

/** All rules are in it, so that a change of the Services replaces them. */
const chain = "DOCKERSHIM-PLAY";
const redirecting = ["nat PREROUTING", "nat OUTPUT"] as const;
const refusing = "filter OUTPUT";

export type RulesOfPorts = {
  readonly redirects: readonly Pick<Redirect, "protocol" | "port" | "target" | "own">[];
} & Pick<PodRules, "ownAddresses">;

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
  rules: RulesOfPorts,
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
    const hooks = [...redirecting, ...(rules.ownAddresses.length === 0 ? [] : [refusing])];
    const missing: string[] = [];
    for (const hook of hooks) {
      const [table = "", name = ""] = hook.split(" ");
      if (!(await succeeds(enter([program, "-t", table, "-C", name, "-j", chain])))) missing.push(hook);
    }
    // Nothing was made, and nothing is wanted.
    if (isEmpty(rules) && missing.length === hooks.length) continue;
    await enter([`${program}-restore`, "--noflush"], rulesText(own, rules, missing));
  }
}

export function isEmpty({ redirects, ownAddresses }: RulesOfPorts): boolean {
  return redirects.length + ownAddresses.length === 0;
}

/** The input of `iptables-restore --noflush`: it empties each chain and fills it in one step. */
export function rulesText(
  ips: readonly string[],
  { redirects, ownAddresses }: RulesOfPorts,
  missingHooks: readonly string[],
): string {
  const isOfFamily = (address: string): boolean => isIPv4(address) === ips.some((ip) => isIPv4(ip));
  const nat = redirects.flatMap(({ protocol, port, target, own }) => {
    // Without an address, DNAT changes the port alone.
    const to = own === undefined ? "" : isIPv6(own.pod) ? `[${own.pod}]` : own.pod;
    const from = own === undefined ? ips : [own.address].filter(isOfFamily);
    return from.map(
      (ip) =>
        `-d ${ip} -p ${protocol.toLowerCase()} --dport ${port} -j DNAT --to-destination ${to}:${target}`,
    );
  });
  // What was not redirected would leave for the gateway, and wait there for an answer.
  const filter = ownAddresses.filter(isOfFamily).map((address) => `-d ${address} -j REJECT`);
  const table = (name: string, rules: readonly string[]): readonly string[] => {
    const own = missingHooks.filter((hook) => hook.startsWith(`${name} `)).map((hook) => hook.split(" ")[1]);
    const jumps = own.map((hook) => `-A ${hook ?? ""} -j ${chain}`);
    return [
      `*${name}`,
      `:${chain} - [0:0]`,
      ...jumps,
      ...rules.map((rule) => `-A ${chain} ${rule}`),
      "COMMIT",
    ];
  };
  return [...(ownAddresses.length === 0 ? [] : table("filter", filter)), ...table("nat", nat), ""].join("\n");
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
