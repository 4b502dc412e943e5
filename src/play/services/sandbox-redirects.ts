/** The redirects of the sandboxes of a play, as they are and as they should be. */
import { messageOf } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import { type Manifest, nameOf } from "../manifests/manifest.js";
import { type RedirectDeps, type SandboxNetwork, isEmpty, redirectPorts } from "./redirect-ports.js";
import type { PodRules } from "./redirects.js";

export type MakeRedirects = (
  sandbox: SandboxNetwork,
  rules: PodRules,
  deps: RedirectDeps,
  signal: AbortSignal,
) => Promise<void>;

export interface SandboxRedirectsDeps {
  readonly client: Pick<CriClient, "podSandboxInfo">;
  readonly redirect?: MakeRedirects;
  /** Those that a pod should have now. */
  readonly rulesOf: (manifest: Manifest) => PodRules;
  /** `reachesOwn` of the pod has changed. */
  readonly onChange: (manifest: Manifest) => void;
  /** Takes a line for the user, which it may have had before. */
  readonly report: (line: string) => void;
}

interface Made {
  readonly sandbox: SandboxNetwork;
  /** The rules as text. */
  readonly text: string;
  /** Never rejects. */
  work: Promise<void>;
  /** Those for own addresses of Services are there, of these rules or of the ones before. */
  reachesOwn: boolean;
}

export class SandboxRedirects {
  /** By uid; those that failed are tried again. */
  readonly #made = new Map<string, Made>();
  /** Those that are ready, by uid. */
  readonly #sandboxes = new Map<string, SandboxNetwork>();
  /** Sandboxes that another play has made. */
  readonly #adopted = new Set<string>();

  constructor(private readonly deps: SandboxRedirectsDeps) {}

  /** Its redirects may be those of another play, and may not be wanted any more. */
  adopt(sandboxId: string): void {
    this.#adopted.add(sandboxId);
  }

  /** The sandbox of a pod, which is ready; undefined when it has none, or none of this play. */
  place({ key: { uid } }: Pick<Manifest, "key">, sandbox: SandboxNetwork | undefined): void {
    if (sandbox !== undefined) {
      this.#sandboxes.set(uid, sandbox);
      return;
    }
    this.#sandboxes.delete(uid);
    this.#made.delete(uid);
  }

  /** Whether the pod reaches the own addresses of Services. */
  reachesOwn({ key: { uid } }: Pick<Manifest, "key">): boolean {
    return this.#made.get(uid)?.reachesOwn === true;
  }

  /** Brings those of the pod's sandbox up to date. Reports a failure, and does not reject. */
  async renew(manifest: Manifest, signal: AbortSignal): Promise<void> {
    const { uid } = manifest.key;
    const sandbox = this.#sandboxes.get(uid);
    if (sandbox === undefined || sandbox.ips.length === 0 || manifest.pod.spec.hostNetwork === true) return;
    const known = this.#made.get(uid);
    const before = known?.sandbox.id === sandbox.id ? known : undefined;
    const rules = this.deps.rulesOf(manifest);
    const text = JSON.stringify(rules);
    if (before?.text === text) return before.work;
    if (isEmpty(rules) && before === undefined && !this.#adopted.has(sandbox.id)) return;
    const reachesOwn = before?.reachesOwn === true;
    const next: Made = { sandbox, text, reachesOwn, work: Promise.resolve() };
    this.#made.set(uid, next);
    next.work = this.#make(manifest, next, { before, rules, signal });
    await next.work;
  }

  async #make(
    manifest: Manifest,
    next: Made,
    {
      before,
      rules,
      signal,
    }: { readonly before: Made | undefined; readonly rules: PodRules; readonly signal: AbortSignal },
  ): Promise<void> {
    const { client, redirect = redirectPorts } = this.deps;
    const { uid } = manifest.key;
    await before?.work;
    const didReach = (next.reachesOwn = before?.reachesOwn === true);
    try {
      await redirect(next.sandbox, rules, { client }, signal);
      next.reachesOwn = rules.ownAddresses.length > 0;
    } catch (error) {
      const isCurrent = this.#made.get(uid) === next;
      if (isCurrent && signal.aborted && before !== undefined) this.#made.set(uid, before);
      else if (isCurrent) this.#made.delete(uid);
      if (signal.aborted) return;
      this.#report(rules, error);
      next.reachesOwn = false;
    }
    if (next.reachesOwn !== didReach) this.deps.onChange(manifest);
  }

  /** By the Services that it concerns. */
  #report({ redirects }: PodRules, error: unknown): void {
    for (const { service, port, target } of redirects) {
      if (port === target) continue;
      const what = `service ${nameOf(service)}: port ${port} does not lead to port ${target} of its pods`;
      this.deps.report(`${what}; use ${service.name}:${target} instead: ${messageOf(error)}`);
    }
  }
}
