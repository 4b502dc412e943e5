/** All checks, and the report of them as a plain value. Pure. */
import { describeReach } from "../../domain/reach.js";
import { type Check, type Draft, type Finding, type Part, parts, severities } from "../finding.js";
import type { DoctorFacts, Observed } from "../facts.js";
import { engineChecks } from "./judge-engine.js";
import { kubeletChecks } from "./judge-kubelet.js";
import { networkChecks } from "./judge-network.js";
import { nodeChecks } from "./judge-node.js";
import { serverChecks } from "./judge-server.js";

/** The value of `--json`: keys are added, never renamed, within one version. */
export interface Report {
  readonly format: "dockershim-doctor";
  readonly version: 1;
  readonly program: string;
  /** RFC 3339. */
  readonly at: string;
  readonly engine: { readonly endpoint: string; readonly version: string; readonly apiVersion: string };
  readonly parts: readonly Part[];
  /** How many checks were made. */
  readonly checks: number;
  readonly exitCode: 0 | 1;
  /** The worst first, and causes before what they cause. */
  readonly findings: readonly Finding[];
  /** What a part shows when it is asked for by name. */
  readonly details: readonly string[];
}

/** What may cause another thing comes before it: a full disk ends the engine, and that the server. */
const byCause: readonly Part[] = ["node", "engine", "server", "kubelet", "network", "reach", "ulimits"];

/** A broken daemon.json, which is among the checks of the kubelet, comes before an engine that does not run. */
export const checks: readonly Check<DoctorFacts>[] = [
  ...kubeletChecks,
  ...engineChecks,
  ...serverChecks,
  ...networkChecks,
  ...nodeChecks,
  { id: "not-seen", part: "node", judge: judgeBlindSpots },
];

/** `asked`: the parts that were named; none: all. */
export function diagnose(facts: DoctorFacts, program: string, asked: readonly Part[] = []): Report {
  const chosen = asked.length === 0 ? parts : parts.filter((part) => asked.includes(part));
  // Without an engine nothing is known, whatever was asked.
  const made = checks.filter(({ part, id }) => chosen.includes(part) || id === "engine");
  const findings = made.flatMap(({ id, part, judge }) =>
    judge(facts).map((draft): Finding => ({ check: id, part, ...draft })),
  );
  const order = ({ severity, part }: Finding): number =>
    severities.indexOf(severity) * 100 + byCause.indexOf(part);
  const { engine, settings, atMs } = facts;
  const info = engine.state === "answers" ? engine.facts.info : undefined;
  return {
    format: "dockershim-doctor",
    version: 1,
    program,
    at: new Date(atMs).toISOString(),
    engine: {
      endpoint: settings.engineEndpoint,
      version: info?.engineVersion ?? "",
      apiVersion: info?.engineApiVersion ?? "",
    },
    parts: chosen,
    checks: made.length,
    exitCode: findings.some(({ severity }) => severity === "error") ? 1 : 0,
    findings: findings.toSorted((one, other) => order(one) - order(other)),
    details: asked.flatMap((part) => detailsOf(part, facts)),
  };
}

function detailsOf(part: Part, { engine }: DoctorFacts): readonly string[] {
  if (engine.state !== "answers") return [];
  const { reach, openFiles } = engine.facts;
  if (part === "reach") return describeReach(reach).trimEnd().split("\n");
  if (part !== "ulimits") return [];
  if (openFiles === undefined)
    return ["Open files: not known, no pod runs whose pause container is in reach."];
  return [`Open files, as the engine gives them: ${openFiles.soft} soft, ${openFiles.hard} hard.`];
}

/** What could not be looked at: its checks found nothing because they saw nothing. */
function judgeBlindSpots(facts: DoctorFacts): readonly Draft[] {
  const looked: readonly (readonly [string, Observed<unknown>])[] = [
    ["the server's files and sockets", facts.server],
    ["the settings of the kernel", facts.host],
    ["the networks", facts.network],
    ["the resources of dead pods", facts.orphans],
    ["the kubelet and the units", facts.migration],
  ];
  return looked.flatMap(([what, { problem }]) =>
    problem === undefined
      ? []
      : [
          {
            severity: "warning",
            what: `${what} could not be read: ${problem}`,
            meaning: "its checks were not made",
            remedy: "run this command as root, on the node itself",
          },
        ],
  );
}
