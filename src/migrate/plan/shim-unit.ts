/** The unit of this program, as examples/dockershim.service, with the flags that a node needs. */
import { optionList } from "../../shim/config/options.js";
import type { FlagFact, MigrationFacts } from "../facts/facts.js";
import { lastFlag } from "../kubelet/flags.js";

export const shimUnitPath = "/etc/systemd/system/dockershim.service";
export const defaultProgram = "/opt/dockershim/bin/dockershim";

export function shimUnit(command: string): string {
  return `[Unit]
Description=Kubernetes Container Runtime Interface for the Docker Engine
After=network-online.target docker.service
Wants=network-online.target docker.service
Before=kubelet.service

[Service]
Type=notify
# Readiness is told by systemd-notify, a child process.
NotifyAccess=all
ExecStart=${command}
Restart=always
RestartSec=2
TimeoutStartSec=0
# Pods are the engine's children and keep running. The program ends within 30 s by itself, whatever hangs.
TimeoutStopSec=40
LimitNOFILE=1048576
OOMScoreAdjust=-500

[Install]
WantedBy=multi-user.target
`;
}

/** Flags of the kubelet's dockershim, with the name of this program's flag. */
const kubeletFlags: readonly string[] = [
  ...["network-plugin", "cni-conf-dir", "cni-bin-dir", "cni-cache-dir", "network-plugin-mtu"],
  ...["hairpin-mode", "non-masquerade-cidr", "pod-cidr", "docker-endpoint", "pod-infra-container-image"],
  ...["image-pull-progress-deadline", "experimental-dockershim-root-directory"],
];

/** Flags of cri-dockerd that are not taken over: the socket stays its own. */
const notTaken: readonly string[] = ["container-runtime-endpoint", "log-level"];
const criDockerdRoot = "cri-dockerd-root-directory";

/** The configuration of the program that serves now, as flags of this program. */
export function flagsForShim({ kubelet, services }: MigrationFacts, from: string): readonly string[] {
  if (from === "cri-dockerd") {
    const flags = services.criDocker?.flags ?? [];
    const known = new Set(optionList.flatMap(([, { name, aliases = [] }]) => [name, ...aliases]));
    const names = [...new Set(flags.map(({ name }) => name))].filter(
      (name) => known.has(name) && !notTaken.includes(name) && !isDefaultRoot(name, flags),
    );
    const taken = names.map((name) => flagText(name, lastFlag(flags, name)?.value ?? ""));
    return names.includes("network-plugin") ? taken : ["--network-plugin=cni", ...taken];
  }
  if (from !== "dockershim-in-tree") return [];
  const flags = kubelet.service?.flags ?? [];
  const taken = kubeletFlags.flatMap((name) => {
    const value = lastFlag(flags, name)?.value;
    return value === undefined || value === "" ? [] : [flagText(name, value)];
  });
  const hasPlugin = (lastFlag(flags, "network-plugin")?.value ?? "") !== "";
  // The kubelet's default is no network plugin; this program would look for CNI.
  return hasPlugin ? taken : ["--network-plugin=no-op", ...taken];
}

/** This program reads checkpoints there in any case; those of another directory only as its own state. */
function isDefaultRoot(name: string, flags: readonly FlagFact[]): boolean {
  return name === criDockerdRoot && lastFlag(flags, name)?.value === "/var/lib/cri-dockerd";
}

function flagText(name: string, value: string): string {
  return commandWord(`--${name}=${value}`);
}

/** As a word of ExecStart: quoted where systemd would split or expand it. */
export function commandWord(word: string): string {
  const text = word.replaceAll("$", "$$$$").replaceAll("%", "%%");
  return /[\s"'\\;]/.test(text) ? `"${text.replaceAll(/["\\]/g, "\\$&")}"` : text;
}
