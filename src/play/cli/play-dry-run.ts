/** `play --dry-run`: what the files ask for, checked. Starts and changes nothing. */
import { connect } from "../cri/client.js";
import { refuseChangedJobs } from "../controllers/changed-jobs.js";
import { refuseUnserved } from "../pod-config/server-features.js";
import { refuseBusyPorts } from "../session/busy-ports.js";
import { refuseSharedUids } from "../session/listed-pods.js";
import type { Workloads } from "../manifests/workloads.js";
import { renderPlayedPods } from "../view/pod-table.js";
import { formatTable } from "../view/format-table.js";
import { shownText } from "../../lib/shown-text.js";
import { type DryRun, type PlayContext, readFilesOf } from "./play-context.js";
import { readKubeletDeps } from "./play-deps.js";
import { openEngineAccess } from "./open-engine-access.js";
import { readPlayed } from "./play-up.js";

/** Throws what a play would refuse before it starts anything. */
export async function dryRun(how: DryRun, context: PlayContext): Promise<number> {
  const { options, io, report } = context;
  const workloads = await readPlayed(await readFilesOf(context), options, report);
  if (how === "server") await checkAtServer(workloads, context);
  const { output = "table" } = options;
  const pods = workloads.pods.map((manifest) => ({ manifest, status: undefined }));
  io.stdout.write(
    output === "table" || output === "wide"
      ? formatTable([["KIND", "NAME", "SOURCE"], ...rowsOf(workloads)])
      : await renderPlayedPods(pods, output, { now: Date.now(), runtimeName: "" }),
  );
  report("dry run: nothing was started");
  return 0;
}

function rowsOf({ pods, jobs, cronJobs }: Workloads): readonly (readonly string[])[] {
  const kinds = [
    ...pods.map((pod) => ["Pod", pod.key, pod] as const),
    ...jobs.map((job) => ["Job", job, job] as const),
    ...cronJobs.map((cronJob) => ["CronJob", cronJob, cronJob] as const),
  ];
  return kinds.map(([kind, { namespace, name }, { source }]) =>
    [kind, `${namespace}/${name}`, source].map(shownText),
  );
}

async function checkAtServer(
  { pods, jobs, cronJobs }: Workloads,
  { options, io: { signal }, directories, report }: PlayContext,
): Promise<void> {
  const { endpoint, dockerEndpoint } = options;
  const client = connect(endpoint);
  using _connection = { [Symbol.dispose]: () => client.close() };
  const status = await client.status(signal);
  await using access = await openEngineAccess(
    client,
    status,
    { endpoint, dockerEndpoint, directories, report },
    signal,
  );
  const deps = (await readKubeletDeps(client, access, { report, status }, signal))(options);
  const templates = [...jobs, ...cronJobs.map(({ job }) => job)].map(({ template }) => template);
  refuseUnserved([...pods, ...templates], deps.features);
  const listed = await client.listPodSandboxes({}, signal);
  refuseSharedUids(pods, listed);
  refuseChangedJobs(jobs, listed);
  await refuseBusyPorts(pods, { ...deps, isBusy: access.isPortBusy }, signal);
}
