#!/usr/bin/env node
/**
 * A cluster of two nodes on this machine, in namespaces of its own: an API server, and two nodes with a Docker Engine, a server of
 * this checkout and a kubelet each. Pods on both nodes reach each other by routes, and everything is removed again.
 * docs/run/cluster.md says what is needed, and how the same is made of machines. Run it as root.
 *
 *     node scripts/two-nodes.mjs [flags]
 *       --programs DIRECTORY      with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl and, for
 *                                 Services, kube-proxy; several with ":" between (default: PATH)
 *       --family ipv4|ipv6|dual   again for another one (default: all three, one after another)
 *       --network cni|kubenet     the network plugin (default: cni)
 *       --stay                    removes nothing before Ctrl-C, and says how to use the cluster
 *
 * Exit code 0: all checks have passed, and nothing is left.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { inspect, parseArgs } from "node:util";
import { ensureBuilt } from "./setup/build.mjs";
import { findProgram } from "./setup/install.mjs";
import { repositoryRoot } from "./setup/paths.mjs";
import { nodeNames, stacks } from "./two-nodes/addresses.mjs";
import { askByAddress, askFromHosts, askService, removePods, runPods, usePods } from "./two-nodes/checks.mjs";
import { ControlPlane } from "./two-nodes/control-plane.mjs";
import { openHosts } from "./two-nodes/hosts.mjs";
import { Node } from "./two-nodes/node.mjs";

const needed = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"];
const ofHost = ["dockerd", "iptables", "ip6tables", "ip", "nsenter", "unshare", "openssl", "sysctl"];
/** Settings of the whole machine that kubelets change. */
const kernelSettings = ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"]
  .concat(["kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"])
  .map((name) => `/proc/sys/${name}`);

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: process.env["PATH"] ?? "" },
    family: { type: "string", multiple: true, default: Object.keys(stacks) },
    network: { type: "string", default: "cni" },
    stay: { type: "boolean", default: false },
  },
});
const log = (/** @type {string} */ line) => process.stderr.write(`two-nodes: ${line}\n`);
/** @type {(line: string) => never} */
const fail = (line) => {
  log(line);
  process.exit(2);
};

/** @returns {Record<string, string>} */
function findPrograms() {
  /** @type {Record<string, string>} */
  const found = {};
  for (const name of [...needed, "kube-proxy"]) {
    const path = values.programs
      .split(":")
      .map((each) => join(each, name))
      .find((each) => existsSync(each));
    if (path !== undefined) found[name] = path;
    else if (needed.includes(name)) fail(`no ${name} in --programs=${values.programs}`);
  }
  for (const name of ofHost) if (findProgram(name) === undefined) fail(`${name} is not installed`);
  return found;
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stop.abort());
const stopped = once(stop.signal, "abort").then(() => Promise.reject(new Error("stopped")));
stopped.catch(() => undefined);

/**
 * @param {string} family
 * @param {"cni" | "kubenet"} network
 * @param {Readonly<Record<string, string>>} programs
 */
async function runCluster(family, network, programs) {
  /** @type {(() => Promise<unknown>)[]} */
  const undo = [];
  const families = stacks[family] ?? [];
  const step = (/** @type {string} */ line) => log(`${family}, ${network}: ${line}`);
  try {
    const hosts = await openHosts(families, undo);
    const work = useCluster({ hosts, families, network, programs, undo, step });
    await Promise.race([work, stopped]).catch((error) => {
      if (!stop.signal.aborted) for (const host of Object.values(hosts)) host.logs().forEach(log);
      throw error;
    });
  } finally {
    for (const each of undo.reverse()) await each();
  }
}

/**
 * @param {object} options
 * @param {Awaited<ReturnType<typeof openHosts>>} options.hosts
 * @param {readonly import("./two-nodes/addresses.mjs").Family[]} options.families
 * @param {"cni" | "kubenet"} options.network
 * @param {Readonly<Record<string, string>>} options.programs
 * @param {(() => Promise<unknown>)[]} options.undo
 * @param {(line: string) => void} options.step says what was reached
 */
async function useCluster({ hosts, families, network, programs, undo, step }) {
  const control = new ControlPlane(hosts.control, programs, families);
  await control.start();
  step("the API server is ready");
  const nodes = nodeNames.map((name) => new Node(hosts[name], control, { families, network }));
  await Promise.all(nodes.map((node) => node.start(undo)));
  const [a, b] = /** @type {[Node, Node]} */ (nodes);
  await Promise.all([a.routeTo(b), b.routeTo(a)]);
  step("both nodes are ready");
  const cluster = { control, nodes, families };
  const pods = await runPods(cluster);
  step(`pods: ${pods.map(({ node, addresses }) => `${addresses.join(" ")} on ${node}`).join(", ")}`);
  if (values.stay) {
    const words = [...control.host.namespaces.command, ...control.kubectlWords, "get", "pods"];
    log(`Ctrl-C ends it: ${words.map((word) => (word.includes(" ") ? `'${word}'` : word)).join(" ")}`);
    const held = setInterval(() => undefined, 1 << 30);
    await stopped.finally(() => clearInterval(held));
  }
  await askByAddress(cluster, pods);
  step("pods reach each other at their addresses");
  await askFromHosts(cluster, pods);
  step("nodes reach the pods, and all hosts the ports of nodes");
  const hasProxy = programs["kube-proxy"] !== undefined;
  if (hasProxy) await askService(cluster, pods);
  step(hasProxy ? "the Service leads to both pods" : "no kube-proxy, so no Service");
  await usePods(cluster, pods);
  step("kubectl logs, exec and port-forward reach both nodes");
  await removePods(cluster);
  step("the pods are removed and have left nothing");
}

const network = values.network;
if (network !== "cni" && network !== "kubenet") fail(`--network is "cni" or "kubenet"`);
for (const family of values.family) if (stacks[family] === undefined) fail(`no such --family: ${family}`);
if (process.getuid?.() !== 0) fail("must run as root");
const programs = findPrograms();
await ensureBuilt({ root: repositoryRoot, log });
const settings = kernelSettings.map((file) => /** @type {const} */ ([file, readFileSync(file, "utf8")]));
try {
  for (const family of values.family) await runCluster(family, network, programs);
  log("all checks have passed");
} catch (error) {
  log(stop.signal.aborted ? "stopped" : inspect(error));
  process.exitCode = stop.signal.aborted && values.stay ? 0 : 1;
} finally {
  for (const [file, value] of settings) writeFileSync(file, value);
}
