/** The node: disks, clock, DNS. Pure. */
import type { Check, Draft } from "../finding.js";
import type { DoctorFacts, FileSystemFacts, KernelLimit } from "../facts.js";

const mebibyte = 1024 ** 2;
/** Of the whole; the kubelet evicts pods below 10 % (nodefs) and 15 % (imagefs). */
const fullShare = 0.02;
const lowShare = 0.1;
const fullBytes = 100 * mebibyte;
/** The kubelet evicts below 5 %. */
const lowInodeShare = 0.05;
const fullInodeShare = 0.005;
/** Of what the kernel has a limited number. */
const lowLimitShare = 0.8;
const fullLimitShare = 0.98;

export const nodeChecks: readonly Check<DoctorFacts>[] = [
  { id: "disk", part: "node", judge: ofFileSystems(judgeSpace) },
  { id: "inodes", part: "node", judge: ofFileSystems(judgeInodes) },
  { id: "read-only", part: "node", judge: judgeReadOnly },
  { id: "mounts", part: "node", judge: judgeMounts },
  { id: "kernel-limits", part: "node", judge: judgeKernelLimits },
  { id: "clock", part: "node", judge: judgeClock },
  { id: "resolv-conf", part: "node", judge: judgeResolvConf },
];

/** Each file system once, with all that it holds. */
function ofFileSystems(
  judge: (seen: FileSystemFacts, place: string) => readonly Draft[],
): Check<DoctorFacts>["judge"] {
  return ({ places }) => {
    const byId = new Map<string, { readonly seen: FileSystemFacts; readonly holds: string[] }>();
    for (const { path, holds, reading } of places) {
      if (reading.seen === undefined) continue;
      const text = `${path} (${holds})`;
      const known = byId.get(reading.seen.id);
      if (known === undefined) byId.set(reading.seen.id, { seen: reading.seen, holds: [text] });
      else known.holds.push(text);
    }
    return [...byId.values()].flatMap(({ seen, holds }) => judge(seen, holds.join(", ")));
  };
}

function judgeSpace({ availableBytes, totalBytes }: FileSystemFacts, place: string): readonly Draft[] {
  const share = totalBytes === 0 ? 1 : availableBytes / totalBytes;
  if (share >= lowShare) return [];
  const isFull = share < fullShare || availableBytes < fullBytes;
  return [
    {
      severity: isFull ? "error" : "warning",
      what: `${isFull ? "the disk is full" : "the disk is nearly full"}: ${Math.floor(availableBytes / mebibyte)} MiB are left at ${place}`,
      meaning: isFull
        ? "pods cannot be started, and records and logs are not written"
        : "the kubelet evicts pods, and removes images",
      remedy: "docker system df; docker system prune, or make room or the disk larger",
    },
  ];
}

function judgeInodes({ inodes, freeInodes }: FileSystemFacts, place: string): readonly Draft[] {
  const share = inodes === 0 ? 1 : freeInodes / inodes;
  if (share >= lowInodeShare) return [];
  const isFull = share < fullInodeShare;
  return [
    {
      severity: isFull ? "error" : "warning",
      what: `${freeInodes} of ${inodes} inodes are left at ${place}`,
      meaning: isFull
        ? "no file can be made, although the disk has room: it looks as if it were full"
        : "the kubelet evicts pods, and removes images",
      remedy: "df -i; docker system prune; find the many small files by: du --inodes -x / | sort -n | tail",
    },
  ];
}

/** Of mounts: one of a file system may be read-only, and another not. */
function judgeReadOnly({ places }: DoctorFacts): readonly Draft[] {
  const found = places.filter(({ reading }) => reading.seen?.readOnly === true);
  if (found.length === 0) return [];
  return [
    {
      severity: "error",
      what: `the file system is read-only at ${found.map(({ path, holds }) => `${path} (${holds})`).join(", ")}`,
      meaning:
        "pods cannot be started, and records and logs are not written; mostly the kernel found it damaged",
      remedy:
        "dmesg | grep -i remount; repair it (fsck) after a reboot, or: mount -o remount,rw of its mount point",
    },
  ];
}

function judgeMounts({ places }: DoctorFacts): readonly Draft[] {
  return places.flatMap(({ path, holds, reading }) =>
    reading.problem === undefined || !reading.timedOut
      ? []
      : [
          {
            severity: "error",
            what: `the file system of ${path} (${holds}) does not answer`,
            meaning: "every program that touches it hangs, and cannot be killed",
            remedy: `findmnt -T ${path}; bring its server back, or umount -f -l it`,
          },
        ],
  );
}

const limitWords: Readonly<Record<KernelLimit["name"], Omit<Draft, "severity">>> = {
  connections: {
    what: "connections that the kernel tracks (net.netfilter.nf_conntrack_max)",
    meaning: "the kernel drops packets of new connections: of pods, probes and Services",
    remedy: "sysctl -w net.netfilter.nf_conntrack_max=524288, and a file in /etc/sysctl.d; conntrack -S",
  },
  threads: {
    what: "threads (kernel.pid_max, kernel.threads-max)",
    meaning: "no process can be started: no container, no probe, no plugin",
    remedy: "ps -eo nlwp,pid,comm --sort=-nlwp | head; end what has too many; podPidsLimit of the kubelet",
  },
  files: {
    what: "open files (fs.file-max)",
    meaning: "every program that opens a file fails with ENFILE",
    remedy: "sysctl -w fs.file-max=2097152; lsof -n | cut -d' ' -f1 | sort | uniq -c | sort -n | tail",
  },
  inotify: {
    what: "inotify instances of this user, or its watches (fs.inotify)",
    meaning:
      "programs that watch files fail with 'too many open files' or 'no space left': the kubelet, logs -f",
    remedy:
      "sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288, and a file in /etc/sysctl.d",
  },
};

function judgeKernelLimits({ host: { seen } }: DoctorFacts): readonly Draft[] {
  return (seen?.limits ?? []).flatMap(({ name, used, limit }) => {
    const share = used / limit;
    if (share < lowLimitShare) return [];
    const { what, ...words } = limitWords[name];
    return [
      {
        severity: share < fullLimitShare ? "warning" : "error",
        what: `${used} of ${limit} ${what} are in use`,
        ...words,
      },
    ];
  });
}

function judgeClock({ host: { seen }, atMs }: DoctorFacts): readonly Draft[] {
  if (seen === undefined) return [];
  const { passed, synchronized } = seen;
  if (passed !== undefined && passed.atMs > atMs)
    return [
      {
        severity: "error",
        what: `the clock is wrong: it says ${timeOf(atMs)}, and ${passed.proof} is of ${timeOf(passed.atMs)}`,
        meaning: "certificates are refused, and ages and back-offs of pods are wrong",
        remedy: "timedatectl set-ntp true, or: systemctl restart chrony",
      },
    ];
  if (synchronized !== false) return [];
  return [
    {
      severity: "warning",
      what: "systemd-timesyncd has not synchronized the clock since the boot",
      meaning: "the clock drifts until certificates and leases are refused",
      remedy: "timedatectl timesync-status; open UDP port 123 to its server",
    },
  ];
}

/** In UTC, to the second. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** CoreDNS with `dnsPolicy: Default` then asks itself. */
function judgeResolvConf({ host: { seen }, migration }: DoctorFacts): readonly Draft[] {
  const { kubelet } = migration.seen ?? {};
  if (seen === undefined || (kubelet?.service === undefined && kubelet?.running === undefined)) return [];
  const { nameservers, resolvConf } = seen;
  const isLoop = nameservers.length > 0 && nameservers.every((one) => /^127\.|^::1$/.test(one));
  if (!isLoop) return [];
  return [
    {
      severity: "error",
      what: `${resolvConf}, which the kubelet gives to pods, names only ${nameservers.join(", ")}`,
      meaning: "in a pod that is the pod itself: CoreDNS asks itself in a loop and ends",
      remedy:
        "resolvConf: /run/systemd/resolve/resolv.conf in the kubelet's configuration, then restart the kubelet",
    },
  ];
}
