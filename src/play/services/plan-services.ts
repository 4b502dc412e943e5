/** Before anything starts: what the Services of the files need, and what of them cannot be done. Pure. */
import { makeJobPod } from "../manifests/make-pod.js";
import { type Manifest, problemsError } from "../manifests/read-manifests.js";
import type { Notice, Workloads } from "../manifests/workloads.js";
import { type PublishedPort, publishPorts } from "./publish-ports.js";
import { checkRedirects, withOwnAddresses } from "./redirects.js";
import { externalHosts } from "./service-names.js";
import type { PlacedProblem } from "../manifests/documents.js";

export interface ServicesPlan {
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
