/** The kubelet against the server and the engine: what `migrate check` knows of a node that has arrived. Pure. */
import { judge } from "../../migrate/judge/check-report.js";
import type { Level } from "../../migrate/judge/finding.js";
import { configuredRuntime, runningRuntime, socketPath } from "../../migrate/kubelet/target.js";
import type { MigrationFacts } from "../../migrate/facts/facts.js";
import type { Check, Draft, Part, Severity } from "../finding.js";
import type { DoctorFacts } from "../facts.js";

/** The findings of `migrate check` that are also findings here, and their parts. */
const taken: Readonly<Record<string, Part>> = {
  "not-root": "node",
  "cgroup-driver": "kubelet",
  "cgroup-version": "kubelet",
  "kubelet-version": "kubelet",
  "kubelet-config-broken": "kubelet",
  "kubelet-config-missing": "kubelet",
  "half-migrated-kubelet": "kubelet",
  "flag-refused": "kubelet",
  "engine-other": "kubelet",
  "unit-masked": "server",
  "unit-disabled": "server",
  "unit-dependency": "server",
  "unit-without-command": "server",
  "half-migrated-services": "server",
  "checkpoint-corrupt-alone": "server",
  "daemon-config-broken": "engine",
  "engine-rootless": "engine",
};

const severityOf: Readonly<Record<Level, Severity | undefined>> = {
  ok: undefined,
  note: "note",
  change: "warning",
  restart: "warning",
  blocked: "error",
  lost: "error",
};

export const kubeletChecks: readonly Check<DoctorFacts>[] = [
  { id: "kubelet-endpoint", part: "kubelet", judge: judgeEndpoint },
  { id: "container-names", part: "kubelet", judge: judgeNames },
  ...Object.entries(taken).map(([id, part]): Check<DoctorFacts> => ({ id, part, judge: ofMigration(id) })),
];

function ofMigration(id: string): Check<DoctorFacts>["judge"] {
  return (facts) => {
    if (facts.migration.seen === undefined) return [];
    const { findings } = judge(withEngine(facts.migration.seen, facts), "dockershim", {
      program: "",
      at: "",
    });
    return findings.flatMap(({ id: its, level, text, reason, next }) => {
      const severity = severityOf[level];
      if (its !== id || severity === undefined) return [];
      return [{ severity, what: text, meaning: reason, remedy: next }];
    });
  };
}

/** Without containers: those are not judged here. */
function withEngine(migration: MigrationFacts, { engine, settings }: DoctorFacts): MigrationFacts {
  if (engine.state !== "answers") return migration;
  const none = { pods: [], foreign: [], outside: [], localImages: [] };
  return { ...migration, engine: { endpoint: settings.engineEndpoint, facts: engine.facts.info, ...none } };
}

function judgeEndpoint({ migration: { seen }, settings: { socket } }: DoctorFacts): readonly Draft[] {
  if (seen === undefined || socket === "") return [];
  const { endpoint, source, runtime } = runningRuntime(seen) ?? configuredRuntime(seen);
  if (runtime === "dockershim-in-tree")
    return [
      {
        severity: "error",
        what: "the kubelet uses the dockershim inside of itself",
        meaning: "it does not ask this server: both work on the same pods",
        remedy: "dockershim migrate plan",
      },
    ];
  const path = seen.services.links.get(socketPath(endpoint)) ?? socketPath(endpoint);
  if (endpoint === "" || path === socketPath(socket)) return [];
  return [
    {
      severity: "error",
      what: `the kubelet asks ${endpoint} (${source}), and this server listens on ${socket}`,
      meaning: "the kubelet does not use this server",
      remedy: `containerRuntimeEndpoint: unix://${socket} in the kubelet's configuration, then restart the kubelet`,
    },
  ];
}

function judgeNames({ server: { seen } }: DoctorFacts): readonly Draft[] {
  if (seen?.namesProblem === undefined) return [];
  return [
    {
      severity: "note",
      what: seen.namesProblem,
      meaning: "container metrics of this kubelet have no names of pods",
      remedy: "dockershim migrate plan writes the flag",
    },
  ];
}
