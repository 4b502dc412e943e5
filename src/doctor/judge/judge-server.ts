/** The server itself: its settings, sockets, ports, certificates and files. Pure. */
import type { Check, Draft } from "../finding.js";
import type { CertificateFacts, DoctorFacts } from "../facts.js";

const warnBeforeMs = 14 * 24 * 3600 * 1000;
const namesShown = 3;

export const serverChecks: readonly Check<DoctorFacts>[] = [
  { id: "settings", part: "server", judge: judgeSettings },
  { id: "socket", part: "server", judge: judgeSocket },
  { id: "ports", part: "server", judge: judgePorts },
  { id: "two-runtimes", part: "server", judge: judgeRuntimes },
  { id: "quarantine", part: "server", judge: judgeQuarantine },
  { id: "certificates", part: "server", judge: judgeCertificates },
];

function judgeSettings({ settings: { problem, source } }: DoctorFacts): readonly Draft[] {
  if (problem === undefined) return [];
  return [
    {
      severity: "error",
      what: `the settings of ${source} are refused: ${problem}`,
      meaning: "the server does not start; the other checks use the defaults",
      remedy: "correct what the message names, then: dockershim config",
    },
  ];
}

function judgeSocket({
  settings: { socket, problem },
  server: { seen },
  migration,
}: DoctorFacts): readonly Draft[] {
  if (seen === undefined || socket === "") return [];
  const start = "systemctl start dockershim, then: journalctl -u dockershim";
  if (!seen.runs && seen.lastWords !== undefined && problem === undefined && seen.takenPorts.length === 0)
    return [
      {
        severity: "error",
        what: `the server has ended: ${seen.lastWords}`,
        meaning: "the kubelet gets no answer, and the node is NotReady; pods that run go on",
        remedy: "correct what it says, then: systemctl restart dockershim",
      },
    ];
  if (seen.socket === "other")
    return [
      {
        severity: "error",
        what: `${socket} is not a socket`,
        meaning: "the server cannot listen there",
        remedy: `rm ${socket}, or another --container-runtime-endpoint`,
      },
    ];
  if (seen.listener === "program" && !seen.runs)
    return [
      {
        severity: "error",
        what: `another program listens on ${socket}`,
        meaning: "the server cannot listen there",
        remedy: `ss -xlp src ${socket} names the process: end it, or give another --container-runtime-endpoint`,
      },
    ];
  if (seen.socket === "socket" && seen.listener === "none")
    return [
      {
        severity: "error",
        what: `${socket} is left of a server that has ended: no process listens on it`,
        meaning: "the kubelet gets no answer, and the node is NotReady",
        remedy: `${start}; the start replaces the file`,
      },
    ];
  // The other findings then say why it does not run.
  if (seen.runs || seen.listener !== "none" || seen.takenPorts.length > 0 || problem !== undefined) return [];
  const hasKubelet = migration.seen?.kubelet.running !== undefined;
  return [
    {
      severity: hasKubelet ? "error" : "note",
      what: "the server does not run",
      meaning: "nothing serves the CRI; pods that run go on",
      remedy: start,
    },
  ];
}

function judgePorts({ server: { seen } }: DoctorFacts): readonly Draft[] {
  return (seen?.takenPorts ?? []).map(({ flag, address, holder }) => ({
    severity: "error",
    what: `${holder} listens on ${address}, the address of --${flag}`,
    meaning: "the server does not start",
    remedy: `end that process, or give another --${flag}`,
  }));
}

function judgeRuntimes({ server: { seen } }: DoctorFacts): readonly Draft[] {
  if (seen === undefined || seen.runtimes.length < 2) return [];
  return [
    {
      severity: "error",
      what: `two runtimes work on one engine: ${seen.runtimes.join(", ")}`,
      meaning: "each takes the other's pods for its own, and removes their networks",
      remedy:
        "stop and disable the one that the kubelet does not use, as by systemctl disable --now cri-docker",
    },
  ];
}

function judgeQuarantine({ server: { seen }, settings: { stateDir } }: DoctorFacts): readonly Draft[] {
  const names = seen?.quarantine ?? [];
  if (names.length === 0) return [];
  const rest = names.length > namesShown ? ` and ${names.length - namesShown} more` : "";
  return [
    {
      severity: "warning",
      what: `${stateDir}/quarantine has ${names.length} files that could not be read: ${names.slice(0, namesShown).join(", ")}${rest}`,
      meaning:
        "a disk is damaged, or another program wrote there; the pods of these files lost what only they said",
      remedy: `look at the disk (dmesg), then: rm ${stateDir}/quarantine/*`,
    },
  ];
}

function judgeCertificates({ certificates, atMs }: DoctorFacts): readonly Draft[] {
  return certificates.flatMap((certificate) => judgeCertificate(certificate, atMs) ?? []);
}

function judgeCertificate({ holder, path, reading }: CertificateFacts, atMs: number): Draft | undefined {
  const remedy = `renew ${path}, as by kubeadm certs renew all, or by who issued it`;
  if (reading.seen === undefined)
    return {
      severity: "error",
      what: `${path} is no certificate: ${reading.problem}`,
      meaning: `${holder} cannot use it`,
      remedy,
    };
  const { notBeforeMs, notAfterMs } = reading.seen;
  if (notBeforeMs > atMs)
    return {
      severity: "error",
      what: `the certificate of ${holder} is not valid before ${dateOf(notBeforeMs)}`,
      meaning: "its peers refuse it now; mostly the clock of this node is wrong",
      remedy: "date; correct the clock, or renew the certificate",
    };
  if (notAfterMs < atMs)
    return {
      severity: "error",
      what: `the certificate of ${holder} ended on ${dateOf(notAfterMs)}`,
      meaning: "its peers refuse it",
      remedy,
    };
  if (notAfterMs - atMs > warnBeforeMs) return undefined;
  return {
    severity: "warning",
    what: `the certificate of ${holder} ends on ${dateOf(notAfterMs)}`,
    meaning: "its peers refuse it from then on",
    remedy,
  };
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
