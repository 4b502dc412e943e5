/** The Services of a play: names in the /etc/hosts of all pods, and ports that lead to those of the pods. */
import { lookup } from "node:dns/promises";
import { orAbort } from "../../lib/abort.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { CriClient } from "../cri/client.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import { hostsMode, hostsText } from "../pod-config/hosts-text.js";
import type { MountedFiles } from "../node/mounted-files.js";
import { type Directories, hostsPath } from "../pod-config/pod-paths.js";
import type { HostsEntry, PodServices } from "../pod-config/pod-services.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import { takenOver } from "../kubelet/pod-turns.js";
import type { ObservedPod } from "../pod-rules/observed-pod.js";
import { killing } from "../kubelet/kill-containers.js";
import { type ObserveDeps, observePod } from "../kubelet/observe.js";
import { hasEnded, podStatus } from "../pod-rules/pod-status.js";
import { noProbeResults } from "../pod-rules/probe-results.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import { type Manifest, type PodKey, problemsError } from "../manifests/read-manifests.js";
import type { Service, Notice, Workloads } from "../manifests/workloads.js";
import type { SandboxNetwork } from "./redirect-ports.js";
import { rulesOf, checkRedirects, withOwnAddresses } from "./redirects.js";
import { type MakeRedirects, SandboxRedirects } from "./sandbox-redirects.js";
import {
  type Endpoint,
  type NamesInput,
  externalHosts,
  serviceEntries,
  serviceEnvironment,
} from "./service-names.js";
import { nameOf } from "../manifests/manifest.js";
import { makeJobPod } from "../manifests/make-pod.js";
import { type PublishedPort, publishPorts } from "./publish-ports.js";
import type { PlacedProblem } from "../manifests/documents.js";

export interface ServicesDeps {
  readonly client: ObserveDeps["client"] & Pick<CriClient, "podSandboxInfo">;
  readonly files: ObserveDeps["files"];
  readonly mounted: Pick<MountedFiles, "readTail" | "writeFile" | "rewriteFile">;
  readonly directories: Directories;
  readonly node: Pick<NodeFacts, "addresses" | "hostsFile">;
  /** Lines for people. */
  readonly report: (line: string) => void;
  /** Addresses of a host name; the resolver of this host unless given. */
  readonly lookUp?: (host: string) => Promise<readonly string[]>;
  readonly redirect?: MakeRedirects;
}

interface KnownPod extends Endpoint {
  /** It may have a file of hosts. */
  readonly isUp: boolean;
  /** The addresses of its own line in /etc/hosts; none on the host network. */
  readonly ips: readonly string[];
}

export class Services implements PodServices, AsyncDisposable {
  /** See `planServices`. */
  static readonly plan = planServices;

  #services: readonly Service[];
  readonly #pods = new Map<string, KnownPod>();
  readonly #hosts = new Map<string, readonly string[]>();
  /** By namespace and `reachesOwn`, until something changes. */
  readonly #entries = new Map<string, readonly HostsEntry[]>();
  /** By uid: the text that is in the file. */
  readonly #written = new Map<string, string>();
  readonly #fileLocks = new KeyedMutex();
  readonly #redirects: SandboxRedirects;
  readonly #reported = new Set<string>();
  /** Ends look-ups and redirects. */
  readonly #stop = new AbortController();
  /** Never aborts: what is known is written before the end. */
  readonly #write = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(
    services: readonly Service[],
    private readonly deps: ServicesDeps,
  ) {
    this.#services = services;
    const { client, redirect } = deps;
    this.#redirects = new SandboxRedirects({
      ...{ client, ...(redirect === undefined ? {} : { redirect }) },
      rulesOf: (manifest) => rulesOf(manifest, this.#input(manifest)),
      onChange: ({ key }) => {
        const pod = this.#pods.get(nameOf(key));
        if (pod !== undefined) this.#inBackground(this.#rewrite(pod));
      },
      report: (line) => this.#reportOnce(line),
    });
  }

  /** Learns the addresses of pods that run already, so that no name is lost. Call it before there are pods. */
  async adopt(manifests: readonly Manifest[], signal: AbortSignal): Promise<void> {
    const listed = await this.deps.client.listPodSandboxes({}, signal);
    await Promise.all(
      manifests.map(async (manifest) => {
        const observed = await observePod(this.deps, manifest.key, signal, listed);
        if (observed.sandboxes[0]?.uid !== manifest.key.uid) return;
        const memory = { startTime: 0, waiting: new Map() };
        for (const { id } of observed.sandboxes) this.#redirects.adopt(id);
        this.#learn(manifest, podStatus(manifest, observed, noProbeResults, memory, 0), observed);
      }),
    );
  }

  /** Follows the pods of a kubelet, whose dependencies have this object, too. The result ends that. */
  attach(kubelet: Kubelet): Disposable {
    this.replace(this.#services); // They may have changed since another play.
    return kubelet.listen({
      onStatus: (manifest, status, observed) => {
        if (this.#learn(manifest, status, observed)) this.#rewriteAll();
        this.#inBackground(this.#redirects.renew(manifest, this.#stop.signal));
      },
      onEvent: ({ key, reason }) => {
        if (reason === killing) this.#endReadiness(key);
        if (reason !== takenOver) return;
        if (kubelet.pod(key)?.loss === "removed") this.#forget(key);
        else this.#leave(key);
      },
      onForgotten: (key) => this.#leave(key),
      onRemoved: (key) => this.#forget(key),
    });
  }

  /** Other Services from now on. */
  replace(services: readonly Service[]): void {
    this.#services = services;
    for (const host of externalHosts(services)) this.#inBackground(this.#lookUp(host));
    this.#rewriteAll();
  }

  async prepareSandbox(manifest: Manifest, sandbox: SandboxNetwork, signal: AbortSignal): Promise<void> {
    this.#redirects.place(manifest, sandbox);
    await this.#redirects.renew(manifest, signal);
  }

  async writeHosts(manifest: Manifest, ips: readonly string[], signal: AbortSignal): Promise<void> {
    const { mounted, directories } = this.deps;
    const { key } = manifest;
    const known = this.#pods.get(nameOf(key));
    const addresses = manifest.pod.spec.hostNetwork === true ? this.deps.node.addresses : ips;
    const isReady = known?.isReady === true && isSame(known.addresses, addresses);
    if (this.#set({ manifest, addresses, ips, isReady, isUp: true })) this.#rewriteAll();
    await this.#fileLocks.run(key.uid, signal, async () => {
      await this.#redirects.renew(manifest, signal);
      const text = this.#textFor(manifest, ips);
      const path = hostsPath(directories, key);
      if (!(await mounted.rewriteFile(path, text))) await mounted.writeFile(path, text, hostsMode);
      this.#written.set(key.uid, text);
    });
  }

  environment(manifest: Manifest): ReadonlyMap<string, string> {
    return serviceEnvironment(manifest, this.#input(manifest));
  }

  /** Resolves when the last file is written. Call it after the end of the kubelet. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "play ends"));
    await Promise.all(this.#running);
  }

  /** Its file is written by another play from now on; here its addresses stay known. */
  #leave(key: Pick<PodKey, "namespace" | "name">): void {
    const known = this.#pods.get(nameOf(key));
    if (known === undefined) return;
    this.#pods.set(nameOf(key), { ...known, isUp: false });
    this.#written.delete(known.manifest.key.uid);
    this.#redirects.place(known.manifest, undefined);
  }

  /** Containers get their grace period to serve what they have begun. The next status says more. */
  #endReadiness(key: Pick<PodKey, "namespace" | "name">): void {
    const known = this.#pods.get(nameOf(key));
    if (known !== undefined && this.#set({ ...known, isReady: false })) this.#rewriteAll();
  }

  #forget(key: Pick<PodKey, "namespace" | "name">): void {
    this.#leave(key);
    this.#pods.delete(nameOf(key));
    this.#rewriteAll();
  }

  /** Answers whether names may have changed. */
  #learn(manifest: Manifest, status: PodStatus, observed: ObservedPod): boolean {
    const isUp = observed.sandboxes[0]?.isReady === true && !hasEnded(status);
    const { ips } = observed;
    const isOnHost = manifest.pod.spec.hostNetwork === true;
    const addresses = !isUp ? [] : isOnHost ? this.deps.node.addresses : ips;
    const isReady = status.conditions.some(({ type, status: is }) => type === "Ready" && is === "True");
    const [sandbox] = observed.sandboxes;
    if (!isUp) this.#written.delete(manifest.key.uid); // The next sandbox may have another file.
    this.#redirects.place(manifest, isUp && sandbox !== undefined ? { id: sandbox.id, ips } : undefined);
    return this.#set({ manifest, addresses, ips, isReady, isUp });
  }

  #set(pod: KnownPod): boolean {
    const id = nameOf(pod.manifest.key);
    const known = this.#pods.get(id);
    this.#pods.set(id, pod);
    return (
      known?.manifest !== pod.manifest ||
      known.isReady !== pod.isReady ||
      known.isUp !== pod.isUp ||
      !isSame([...known.addresses, ...known.ips], [...pod.addresses, ...pod.ips])
    );
  }

  #rewriteAll(): void {
    this.#entries.clear();
    for (const pod of this.#pods.values()) if (pod.isUp) this.#inBackground(this.#rewrite(pod));
  }

  async #rewrite({ manifest: { key } }: KnownPod): Promise<void> {
    const { mounted, directories } = this.deps;
    await this.#fileLocks.run(key.uid, this.#write.signal, async () => {
      const pod = this.#pods.get(nameOf(key));
      if (pod?.isUp !== true) return;
      await this.#redirects.renew(pod.manifest, this.#stop.signal);
      const text = this.#textFor(pod.manifest, pod.ips);
      if (this.#written.get(key.uid) === text) return;
      if (await mounted.rewriteFile(hostsPath(directories, key), text)) this.#written.set(key.uid, text);
    });
  }

  #textFor(manifest: Manifest, ips: readonly string[]): string {
    const { namespace } = manifest.key;
    const input = this.#input(manifest);
    const id = `${namespace} ${input.reachesOwn}`;
    const entries = this.#entries.get(id) ?? serviceEntries(namespace, input);
    this.#entries.set(id, entries);
    return hostsText(manifest, ips, entries, this.deps.node);
  }

  /** As the pod sees it. */
  #input(manifest: Manifest): NamesInput & { readonly reachesOwn: boolean } {
    const reachesOwn = this.#redirects.reachesOwn(manifest);
    return { services: this.#services, endpoints: inOrder(this.#pods), hosts: this.#hosts, reachesOwn };
  }

  async #lookUp(host: string): Promise<void> {
    const { lookUp = lookUpHere } = this.deps;
    try {
      this.#hosts.set(host, await orAbort(lookUp(host), this.#stop.signal));
      this.#rewriteAll();
    } catch (error) {
      for (const { namespace, name } of this.#services.filter(({ externalName }) => externalName === host))
        this.#reportOnce(`service ${namespace}/${name}: its name is not in /etc/hosts: ${messageOf(error)}`);
    }
  }

  #reportOnce(line: string): void {
    if (this.#reported.has(line) || this.#stop.signal.aborted) return;
    this.#reported.add(line);
    this.deps.report(line);
  }

  #inBackground(work: Promise<void>): void {
    const guarded = work
      .catch((error: unknown) => this.#reportOnce(`services: ${messageOf(error)}`))
      .finally(() => this.#running.delete(guarded));
    this.#running.add(guarded);
  }
}

/** By name, web-10 after web-9. The first collator of a process takes milliseconds: one pod needs none. */
function inOrder(pods: ReadonlyMap<string, KnownPod>): readonly KnownPod[] {
  if (pods.size < 2) return [...pods.values()];
  const { compare } = new Intl.Collator("en", { numeric: true });
  return [...pods].sort(([left], [right]) => compare(left, right)).map(([, pod]) => pod);
}

function isSame(left: readonly string[], right: readonly string[]): boolean {
  return left.join(" ") === right.join(" ");
}

async function lookUpHere(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true, verbatim: true });
  return found.map(({ address }) => address);
}

/** Before anything starts: what the Services of the files need, and what of them cannot be done. Pure. */
interface ServicesPlan {
  /** The pods of the files, with the host ports of NodePorts and LoadBalancers. */
  readonly pods: readonly Manifest[];
  readonly published: readonly PublishedPort[];
  /** Those of the files, with addresses of their own where they need them. */
  readonly services: Workloads["services"];
  readonly notices: readonly Notice[];
}

/** Throws one error for all that cannot be done; with `strict`, also for what is passed over. */
export function planServices(
  { pods, jobs, cronJobs, services: written }: Workloads,
  { strict = false }: { readonly strict?: boolean } = {},
): ServicesPlan {
  const ofJobs = [...jobs, ...cronJobs.map(({ job }) => job)].map((job) => makeJobPod(job, { attempt: 0 }));
  const publication = publishPorts(pods, written);
  const all = [...publication.pods, ...ofJobs];
  const services = withOwnAddresses(all, written);
  const problems = [...checkRedirects(all, services), ...publication.problems, ...externalNotices(services)];
  const errors = problems.filter(({ kind }) => strict || kind !== "passedOver");
  if (errors.length > 0) throw problemsError(errors);
  const notices = problems.map(({ object = "", ...problem }) => ({ ...problem, object }));
  return { pods: publication.pods, published: publication.published, services, notices };
}

function externalNotices(services: Workloads["services"]): readonly PlacedProblem[] {
  const hosts = new Set(externalHosts(services));
  return services.flatMap(({ externalName = "", source, line, name }) => {
    if (!hosts.has(externalName)) return [];
    const reason = `${externalName} is looked up once, when play starts: pods find its addresses in /etc/hosts`;
    const object = `Service ${name}`;
    return [{ source, line, object, path: "spec.externalName", reason, kind: "passedOver" as const }];
  });
}
