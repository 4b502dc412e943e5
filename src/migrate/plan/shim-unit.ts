/** The unit of this program, as examples/dockershim.service, with the flags that a node needs. */
import type { MigrationFacts } from "../facts/facts.js";
import { presentFlags } from "../kubelet/shim-flags.js";

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
ExecStart=${command}
Restart=always
RestartSec=2
TimeoutStartSec=0
# The program alone gets SIGTERM: plugins of the calls that it still answers go on. What is left is killed then. Pods are
# the engine's children and keep running. The program ends within 30 s by itself, whatever hangs.
KillMode=mixed
TimeoutStopSec=40
LimitNOFILE=1048576
OOMScoreAdjust=-500

[Install]
WantedBy=multi-user.target
`;
}

/** The configuration of the program that serves now, as flags of this program: words of ExecStart. */
export function flagsForShim(facts: MigrationFacts, from: string): readonly string[] {
  return [...presentFlags(facts, from)].map(([name, value]) => commandWord(`--${name}=${value}`));
}

/** As a word of ExecStart: quoted where systemd would split or expand it. */
export function commandWord(word: string): string {
  const text = word.replaceAll("$", "$$$$").replaceAll("%", "%%");
  return /[\s"'\\;]/.test(text) ? `"${text.replaceAll(/["\\]/g, "\\$&")}"` : text;
}
