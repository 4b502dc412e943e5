/** Programs that reach Docker's socket, its directory or the logs of pods, against the target. Pure. */
import type { DockerUser } from "../facts/facts.js";
import type { Finding, Level } from "./finding.js";
import { type Target, targetNames, usesDocker } from "../kubelet/target.js";

interface Judgement {
  readonly level: Level;
  readonly text: string;
  readonly reason: string;
  readonly next: string;
}

const ids = {
  ...{ socket: "docker-socket", runtime: "runtime-socket", files: "docker-files" },
  ...{ logs: "pod-logs", name: "agent" },
} as const;

const byUse: Readonly<Record<DockerUser["use"], (target: Target) => Judgement>> = {
  socket: (target) =>
    ({
      text: "reaches Docker's socket",
      ...(usesDocker(target)
        ? { level: "note", reason: "the engine stays, with the same containers and names", next: "" }
        : {
            ...{ level: "blocked", reason: "no pod is to be seen there afterwards" },
            next: "give it the CRI socket, or another tool",
          }),
    }) as const,
  runtime: (target) => ({
    level: "change",
    text: "names the socket of the kubelet's runtime, which nobody serves after the change",
    reason: `${targetNames[target]} has another socket`,
    next: "give it the endpoint that the kubelet gets",
  }),
  files: (target) => {
    const text = "reads Docker's directory";
    if (!usesDocker(target)) {
      const reason = "pods have nothing there afterwards";
      return { level: "change", text, reason, next: "let it read /var/log/pods" };
    }
    if (target !== "dockershim")
      return { level: "note", text, reason: "the engine writes its files as before", next: "" };
    return {
      level: "change",
      text: `${text}: logs of new containers are also in /var/log/pods, in the CRI's format`,
      reason: "Docker's JSON files stay, with the same lines; links to them are no longer made",
      next: "let it read /var/log/pods with a parser of that format, or serve with --container-log-format=docker",
    };
  },
  logs: (target) => ({
    level: "note",
    text: "reads /var/log",
    reason:
      target === "dockershim" || !usesDocker(target)
        ? "logs of new containers there are files in the CRI's format, not links to Docker's JSON files"
        : "logs of new containers there are links to Docker's JSON files: it needs Docker's directory as well",
    next: "check that its parser knows the format",
  }),
  name: () => ({
    level: "note",
    text: "may read containers or their logs",
    reason: "its name is that of an agent, and its unit names no path of Docker",
    next: "check its configuration",
  }),
};

/** Undefined for what reads logs and is not a known agent: half of all pods mount /var/log. */
export function judgeDockerUser(user: DockerUser, target: Target): Finding | undefined {
  if (user.use === "logs" && user.agent === "") return undefined;
  const { level, text, reason, next } = byUse[user.use](target);
  const agent = user.agent === "" ? "it" : `this agent (${user.agent})`;
  return {
    id: ids[user.use],
    level,
    reason,
    next,
    source: user.place,
    subject: `${user.what} ${user.name}`,
    text: `${agent} ${text}`,
  };
}
