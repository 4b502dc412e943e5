/** The node: disks, clock, DNS. Pure. */
import type { Check, Draft } from "../finding.js";
import type { DoctorFacts, FileSystemFacts } from "../facts.js";
import { dateOf } from "./judge-server.js";

const mebibyte = 1024 ** 2;
/** Of the whole; the kubelet evicts pods below 10 % (nodefs) and 15 % (imagefs). */
const fullShare = 0.02;
const lowShare = 0.1;
const fullBytes = 100 * mebibyte;
/** The kubelet evicts below 5 %. */
const lowInodeShare = 0.05;
const fullInodeShare = 0.005;

export const nodeChecks: readonly Check<DoctorFacts>[] = [
  { id: "disk", part: "node", judge: ofFileSystems(judgeSpace) },
  { id: "inodes", part: "node", judge: ofFileSystems(judgeInodes) },
  { id: "mounts", part: "node", judge: judgeMounts },
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

function judgeClock({ host: { seen }, atMs }: DoctorFacts): readonly Draft[] {
  if (seen === undefined) return [];
  const { passed, synchronized } = seen;
  if (passed !== undefined && passed.atMs > atMs)
    return [
      {
        severity: "error",
        what: `the clock is wrong: it says ${dateOf(atMs)}, and ${passed.proof} is of ${dateOf(passed.atMs)}`,
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
