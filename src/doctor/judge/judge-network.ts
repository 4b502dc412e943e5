/** Networks of pods: configuration, plugins, firewall, kernel settings, bridges and what dead pods left. Pure. */
import { overlap } from "../../network/example/free-range.js";
import { kubenetBridge } from "../../network/kubenet/kubenet-conflist.js";
import type { Check, Draft } from "../finding.js";
import type { DoctorFacts, NetworkFacts, Settings } from "../facts.js";

/** Bridges that networks of pods make, by the names of the bridge plugin, of kubenet and of the example. */
const podBridges: readonly string[] = ["cni0", kubenetBridge, "dockershim0"];
const lowAddressShare = 0.95;

export const networkChecks: readonly Check<DoctorFacts>[] = [
  { id: "cni-files", part: "network", judge: ofNetwork(judgeFiles) },
  { id: "cni-plugins", part: "network", judge: ofNetwork(judgePlugins) },
  { id: "network-ready", part: "network", judge: ofNetwork(judgeReady) },
  { id: "cni-status", part: "network", judge: ofNetwork(judgeStatus) },
  { id: "addresses", part: "network", judge: ofNetwork(judgeAddresses) },
  { id: "between-pods", part: "network", judge: ofNetwork(judgeBetweenPods) },
  { id: "bridges", part: "network", judge: ofNetwork(judgeBridges) },
  { id: "forwarding", part: "network", judge: ofNetwork(judgeSysctls) },
  { id: "iptables", part: "network", judge: ofNetwork(judgeIptables) },
  { id: "forward-policy", part: "network", judge: ofNetwork(judgeForwardPolicy) },
  { id: "orphans", part: "network", judge: judgeOrphans },
  { id: "cni-check", part: "network", judge: judgeComplaints },
];

function ofNetwork(
  judge: (network: NetworkFacts, facts: DoctorFacts) => readonly Draft[],
): Check<DoctorFacts>["judge"] {
  return (facts) => (facts.network.seen === undefined ? [] : judge(facts.network.seen, facts));
}

function judgeFiles({ configurations, plugin }: NetworkFacts): readonly Draft[] {
  return configurations.flatMap(({ path, problem }) =>
    problem === undefined
      ? []
      : [
          {
            severity: plugin === "cni" && configurations[0]?.path === path ? "error" : "warning",
            what: problem.includes(path) ? problem : `${path}: ${problem}`,
            meaning: "this file is skipped: pods get the network of a later one, or none",
            remedy: `correct ${path}, or move it out of the directory`,
          },
        ],
  );
}

function judgePlugins({ configurations, plugin }: NetworkFacts, { settings }: DoctorFacts): readonly Draft[] {
  if (plugin !== "cni") return [];
  const first = configurations.find(({ network }) => network !== undefined);
  return (first?.missing ?? []).map((type) => ({
    severity: "error",
    what: `the CNI plugin "${type}" of ${first?.path ?? ""} is not installed`,
    meaning: "pods get no network: the node is NotReady",
    remedy: `put it into ${settings.cniBinDirs[0] ?? ""}, as by apt-get install containernetworking-plugins`,
  }));
}

/** What the two checks above do not name. */
function judgeReady(
  { network, problem, configurations, plugin }: NetworkFacts,
  { settings }: DoctorFacts,
): readonly Draft[] {
  if (plugin !== "cni" || network !== undefined) return [];
  if (configurations.some((one) => one.problem !== undefined || one.missing.length > 0)) return [];
  return [
    {
      severity: "error",
      what: problem ?? "no network",
      meaning: "pods get no network: the node is NotReady",
      remedy: remedyOf(problem ?? "", configurations.length > 0, settings),
    },
  ];
}

function remedyOf(problem: string, hasFiles: boolean, { cniConfDir, cniBinDirs }: Settings): string {
  const directory = cniBinDirs[0] ?? "";
  if (problem.includes("does not support config version"))
    return 'a lower "cniVersion" in that file, which all of its plugins have, or newer plugins';
  if (/not executable|program for this processor/.test(problem))
    return `put plugins for this processor (uname -m) there, with mode 755; findmnt -T ${directory} must not say noexec`;
  if (hasFiles) return "correct what the message names";
  return `install a cluster network, or for a single node: --write-example-cni-config (${cniConfDir})`;
}

function judgeStatus({ network = "", status }: NetworkFacts): readonly Draft[] {
  if (status === undefined) return [];
  return [
    {
      severity: "error",
      what: `the network ${network} says that it is not ready: ${status}`,
      meaning: "its plugin answers STATUS with an error, and the node is NotReady",
      remedy: "look at the pod or the daemon of that network on this node",
    },
  ];
}

/** A warning before the last: a node that makes and removes pods needs some at once. */
function judgeAddresses({ network = "", addresses }: NetworkFacts): readonly Draft[] {
  if (addresses === undefined || addresses.used < addresses.total * lowAddressShare) return [];
  const { used, total, ranges } = addresses;
  return [
    {
      severity: used >= total ? "error" : "warning",
      what: `${used} of ${total} addresses of the network ${network} (${ranges.join(", ")}) are taken`,
      meaning: "the next pods get no network: no IP addresses available in range set",
      remedy:
        "systemctl restart dockershim removes those of pods that are gone; else a larger range, or fewer pods (maxPods)",
    },
  ];
}

/** No request tells of this setting. It has an effect on the bridge of the engine alone. */
function judgeBetweenPods({ plugin }: NetworkFacts, { migration: { seen } }: DoctorFacts): readonly Draft[] {
  const { icc } = seen?.daemonConfig?.values ?? {};
  if (plugin !== "no-op" || icc !== false) return [];
  return [
    {
      severity: "error",
      what: `"icc" is false in ${seen?.daemonConfig?.path ?? ""}`,
      meaning:
        "the engine lets no packet pass between containers of its bridge: pods do not reach each other",
      remedy: 'leave out "icc" there, then: systemctl restart docker; or give pods a network of CNI',
    },
  ];
}

function judgeBridges({ configurations, bridges, ranges, plugin }: NetworkFacts): readonly Draft[] {
  const first = configurations.find(({ network }) => network !== undefined);
  const wanted = plugin === "cni" ? (first?.bridges ?? []) : [];
  const drafts: Draft[] = [];
  const rangesOf = (name: string): readonly string[] => [
    ...new Set(ranges.filter(({ interfaceName }) => interfaceName === name).map(({ cidr }) => cidr)),
  ];
  for (const { name, subnets } of wanted) {
    const own = rangesOf(name);
    const isOther =
      own.length > 0 && subnets.length > 0 && !own.some((one) => subnets.some((each) => overlap(one, each)));
    if (isOther)
      drafts.push({
        severity: "error",
        what: `the bridge ${name} has ${own.join(", ")}, and the configuration wants ${subnets.join(", ")}`,
        meaning: "it is left of an earlier network: the bridge plugin refuses new pods",
        remedy: `drain the node, then: ip link delete ${name}`,
      });
  }
  const names = wanted.map(({ name }) => name);
  const used = wanted.flatMap(({ subnets }) => subnets);
  for (const { name, ports } of bridges) {
    if (names.includes(name) || (plugin === "kubenet" && name === kubenetBridge)) continue;
    const taken = rangesOf(name).find((one) => used.some((each) => overlap(one, each)));
    if (taken !== undefined)
      drafts.push({
        severity: "error",
        what: `the bridge ${name} has ${taken}, the range of the pods of ${names.join(", ")}`,
        meaning: "packets to pods go to that bridge",
        remedy: `ip link delete ${name}, if no container uses it, or another range for the pods`,
      });
    else if (podBridges.includes(name) && ports === 0)
      drafts.push({
        severity: "warning",
        what: `the bridge ${name} has no pods, and no configuration names it`,
        meaning: "it is left of an earlier network, and keeps its range and routes",
        remedy: `ip link delete ${name}`,
      });
  }
  return drafts;
}

/** Where Docker's bridge is the network, Docker sets what it needs. */
function judgeSysctls({ plugin }: NetworkFacts, { host }: DoctorFacts): readonly Draft[] {
  if (plugin === "no-op" || host.seen === undefined) return [];
  const { sysctls } = host.seen;
  const drafts: Draft[] = [];
  if (sysctls["net.ipv4.ip_forward"] !== "1")
    drafts.push({
      severity: "error",
      what: "net.ipv4.ip_forward is 0",
      meaning: "pods reach nothing outside of this node",
      remedy: "sysctl -w net.ipv4.ip_forward=1, and a file in /etc/sysctl.d",
    });
  const bridged = sysctls["net.bridge.bridge-nf-call-iptables"];
  if (bridged === undefined)
    drafts.push({
      severity: "warning",
      what: "the kernel module br_netfilter is not loaded",
      meaning: "pods of one node do not reach each other through Services",
      remedy: "modprobe br_netfilter && echo br_netfilter >/etc/modules-load.d/kubernetes.conf",
    });
  else if (bridged !== "1")
    drafts.push({
      severity: "warning",
      what: "net.bridge.bridge-nf-call-iptables is 0",
      meaning: "pods of one node do not reach each other through Services",
      remedy: "sysctl -w net.bridge.bridge-nf-call-iptables=1, and a file in /etc/sysctl.d",
    });
  if (sysctls["net.ipv4.conf.all.rp_filter"] === "1")
    drafts.push({
      severity: "note",
      what: "net.ipv4.conf.all.rp_filter is 1 (strict)",
      meaning: "a pod does not reach itself through a Service",
      remedy: "sysctl -w net.ipv4.conf.all.rp_filter=2",
    });
  return drafts;
}

function judgeIptables(
  { plugin, configurations }: NetworkFacts,
  { firewall }: DoctorFacts,
): readonly Draft[] {
  if (plugin === "no-op") return [];
  const fails = plugin === "kubenet" || (configurations[0]?.bridges.length ?? 0) > 0;
  if (firewall.seen === undefined)
    return [
      {
        severity: fails ? "error" : "warning",
        what: `iptables cannot be asked: ${firewall.problem}`,
        meaning: `host ports, masquerading and Services have no rules${fails ? ", and pods get no network" : ""}`,
        remedy: "apt-get install iptables; iptables -S says what the kernel lacks",
      },
    ];
  if (!firewall.seen.differsFromDefault) return [];
  return [
    {
      severity: "warning",
      what: `rules of Kubernetes are in ${firewall.seen.version}, and plain iptables has the other backend`,
      meaning: "CNI plugins write rules into the other one; a packet meets both",
      remedy: "update-alternatives --config iptables",
    },
  ];
}

function judgeForwardPolicy({ plugin }: NetworkFacts, { firewall }: DoctorFacts): readonly Draft[] {
  if (plugin === "no-op" || firewall.seen === undefined) return [];
  const { forwardPolicy, otherForwardRules } = firewall.seen;
  // What other rules let pass is for those who wrote them.
  if (forwardPolicy !== "DROP" || otherForwardRules.length > 0) return [];
  return [
    {
      severity: "error",
      what: "the policy of iptables' chain FORWARD is DROP, and no rule lets pods pass",
      meaning:
        "pods reach no other node and nothing outside; Docker sets this policy when it enables forwarding",
      remedy:
        'add the plugin "firewall" to the list, or iptables -P FORWARD ACCEPT, or "ip-forward-no-drop": true in daemon.json',
    },
  ];
}

function judgeOrphans({ orphans: { seen }, settings: { stateDir } }: DoctorFacts): readonly Draft[] {
  const draftOf = orphanDrafts(seen?.otherEngine, stateDir);
  return (seen?.resources ?? []).map(({ what, certainlyOurs }) =>
    certainlyOurs
      ? draftOf(what)
      : {
          severity: "note",
          what: `of unknown owner: ${what}`,
          meaning: "no container has it, and nothing says that this program made it: it is kept",
          remedy: "remove it by hand, if no other runtime on this node uses it",
        },
  );
}

/** Of pods that are gone, unless they are another engine's: the server keeps those. */
function orphanDrafts(otherEngine: string | undefined, stateDir: string): (what: string) => Draft {
  if (otherEngine === undefined)
    return (what) => ({
      severity: "warning",
      what: `orphaned: ${what}`,
      meaning: "it is of a pod that is gone, and keeps an address or a port",
      remedy: "systemctl restart dockershim: each start removes it",
    });
  return (what) => ({
    severity: "warning",
    what: `of a pod of another engine: ${what}`,
    meaning:
      `${stateDir} is of the engine ${otherEngine}, as before userns-remap or a new data root: ` +
      "its pods may run, and each start keeps this",
    remedy: `if that engine is gone for good: rm ${stateDir}/engine-id, then: systemctl restart dockershim`,
  });
}

function judgeComplaints({ orphans: { seen } }: DoctorFacts): readonly Draft[] {
  return (seen?.complaints ?? []).map((complaint) => ({
    severity: "warning",
    what: `CHECK failed: ${complaint}`,
    meaning: "the network of this pod is not as the plugin has made it; some plugins say so of healthy pods",
    remedy: "test the pod's network; delete the pod if it is broken",
  }));
}
