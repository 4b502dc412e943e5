/** What pods on two nodes must be able to do. Each check throws when they are not. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { addressesOf, bracketed, familyOf, nodeNames } from "./addresses.mjs";
import { image } from "./node.mjs";

/**
 * @typedef {import("./addresses.mjs").Family} Family
 * @typedef {import("./control-plane.mjs").ControlPlane} ControlPlane
 * @typedef {import("./hosts.mjs").Host} Host
 * @typedef {import("./node.mjs").Node} Node
 * @typedef {{ name: string, node: string, addresses: string[] }} Pod
 * @typedef {{ control: ControlPlane, nodes: readonly Node[], families: readonly Family[] }} Cluster
 */

const hostPort = 30081;
/** Says who answers, and who has asked. */
const answer = `#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n%s to %s\\n' "$HOSTNAME" "$REMOTE_ADDR"
`;
const serve = `mkdir -p /www/cgi-bin
printf '%s' "$ANSWER" > /www/cgi-bin/who
chmod +x /www/cgi-bin/who
echo serving
exec httpd -f -p 80 -h /www`;

/** A pod on each node, with a port of its node, and a Service. */
const manifests = {
  ...{ apiVersion: "v1", kind: "List" },
  items: [
    {
      ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" } },
      spec: {
        replicas: nodeNames.length,
        selector: { matchLabels: { app: "web" } },
        template: {
          metadata: { labels: { app: "web" } },
          spec: {
            terminationGracePeriodSeconds: 1,
            topologySpreadConstraints: [
              {
                ...{ maxSkew: 1, topologyKey: "kubernetes.io/hostname", whenUnsatisfiable: "DoNotSchedule" },
                labelSelector: { matchLabels: { app: "web" } },
              },
            ],
            containers: [
              {
                ...{ name: "web", image, imagePullPolicy: "Never", command: ["sh", "-c", serve] },
                env: [{ name: "ANSWER", value: answer }],
                ports: [{ containerPort: 80, hostPort }],
                readinessProbe: { httpGet: { path: "/cgi-bin/who", port: 80 }, periodSeconds: 1 },
                livenessProbe: { exec: { command: ["test", "-x", "/www/cgi-bin/who"] } },
              },
            ],
          },
        },
      },
    },
    {
      ...{ apiVersion: "v1", kind: "Service", metadata: { name: "web" } },
      spec: {
        ipFamilyPolicy: "PreferDualStack",
        selector: { app: "web" },
        ports: [{ port: 8080, targetPort: 80 }],
      },
    },
  ],
};

/** @param {Cluster} cluster @returns {Promise<Pod[]>} */
export async function runPods({ control, nodes, families }) {
  // An account's token, which pods mount, is there a moment after the controllers are.
  await control.host.until("service account", () => control.get("serviceaccount", "default"));
  const stdin = JSON.stringify(manifests);
  await control.host.run(["sh", "-c", 'printf %s "$1" > /run/web.json', "sh", stdin]);
  await control.kubectl("apply", "--filename=/run/web.json");
  await control.kubectl("rollout", "status", "deployment/web", "--timeout=120s");
  const { items } = await control.get("pods", "--selector=app=web");
  /** @type {Pod[]} */
  const pods = items.map((/** @type {any} */ { metadata, spec, status }) => ({
    ...{ name: metadata.name, node: spec.nodeName },
    addresses: status.podIPs.map((/** @type {{ ip: string }} */ { ip }) => ip),
  }));
  assert.deepEqual(
    pods.map(({ node }) => node).sort(),
    nodes.map(({ name }) => name),
  );
  for (const { name, addresses } of pods) assert.deepEqual(addresses.map(familyOf), families, name);
  return pods;
}

/**
 * Each pod asks each of them, itself included, at its own addresses: who asks is seen with the address of the pod.
 * @param {Cluster} cluster
 * @param {readonly Pod[]} pods
 */
export async function askByAddress({ control }, pods) {
  for (const from of pods)
    for (const to of pods)
      for (const [at, address] of to.addresses.entries()) {
        const said = await askFrom(control, from, `http://${bracketed(address)}/cgi-bin/who`);
        assert.equal(
          plain(said),
          `${to.name} to ${from.addresses[at] ?? ""}`,
          `${from.name} asks ${address}`,
        );
      }
}

/**
 * Each host of the cluster asks each pod, at its own addresses and at the port of its node.
 * @param {Cluster} cluster
 * @param {readonly Pod[]} pods
 */
export async function askFromHosts({ control, nodes, families }, pods) {
  for (const host of [control.host, ...nodes.map(({ host: each }) => each)])
    for (const { name, node, addresses } of pods) {
      const nodeAddresses = addressesOf(/** @type {Node["name"]} */ (node), families);
      const places = [
        // Routes to pods are those of the nodes.
        ...(host === control.host ? [] : addresses.map((each) => bracketed(each))),
        ...nodeAddresses.map((each) => `${bracketed(each)}:${String(hostPort)}`),
      ];
      for (const place of places) {
        const said = await askFromHost(host, `http://${place}/cgi-bin/who`);
        assert.ok(said.startsWith(`${name} to `), `${host.name} asks ${place}: ${said}`);
      }
    }
}

/**
 * The Service leads each pod to both of them, so also to itself.
 * @param {Cluster} cluster
 * @param {readonly Pod[]} pods
 */
export async function askService({ control, nodes, families }, pods) {
  const { spec } = await control.get("service", "web");
  assert.deepEqual([...spec.ipFamilies].sort(), families.map((family) => `IPv${family.slice(3)}`).sort());
  const names = pods.map(({ name }) => name).sort();
  for (const address of spec.clusterIPs) {
    const url = `http://${bracketed(address)}:8080/cgi-bin/who`;
    const askers = [
      ...pods.map((pod) => ({ name: pod.name, ask: () => askFrom(control, pod, url) })),
      ...nodes.map(({ host }) => ({ name: host.name, ask: () => askFromHost(host, url) })),
    ];
    for (const { name, ask } of askers) {
      const seen = new Set();
      await control.host.until(`answers of both pods to ${name} at ${address}`, async () => {
        seen.add((await ask()).split(" to ")[0]);
        return seen.size === names.length ? seen : undefined;
      });
      assert.deepEqual([...seen].sort(), names);
    }
  }
}

/**
 * What a user of kubectl does with a pod of either node.
 * @param {Cluster} cluster
 * @param {readonly Pod[]} pods
 */
export async function usePods({ control }, pods) {
  for (const { name } of pods) {
    assert.match(await control.kubectl("logs", name), /^serving$/m);
    assert.equal(await control.kubectl("exec", name, "--", "hostname"), `${name}\n`);
    await assert.rejects(control.kubectl("exec", name, "--", "sh", "-c", "exit 3"), /exit code 3/);
    assert.match(await forwarded(control, name), new RegExp(`^${name} to `));
  }
}

/**
 * Removes them and waits until nothing of them is left on the nodes.
 * @param {Cluster} cluster
 */
export async function removePods({ control, nodes }) {
  await control.kubectl("delete", "--filename=/run/web.json", "--timeout=120s");
  for (const node of nodes) {
    /** @type {string[]} */
    let remains = [];
    await node.host
      .until(
        "end of what pods have left",
        async () => {
          remains = await node.remains();
          return remains.length === 0 ? true : undefined;
        },
        240,
      )
      .catch((/** @type {unknown} */ error) => {
        throw new Error(`${node.name} still has: ${remains.join(", ")}`, { cause: error });
      });
  }
}

/**
 * @param {ControlPlane} control
 * @param {Pod} pod
 * @param {string} url
 */
async function askFrom(control, pod, url) {
  return (await control.kubectl("exec", pod.name, "--", "timeout", "5", "wget", "-q", "-O", "-", url)).trim();
}

/**
 * @param {Host} host
 * @param {string} url
 */
async function askFromHost(host, url) {
  const program =
    "fetch(process.argv[1], { signal: AbortSignal.timeout(5000) }).then((page) => page.text()).then(console.log)";
  return (await host.run([process.execPath, "-e", program, url])).trim();
}

/**
 * The answer through a port of the control plane's host.
 * @param {ControlPlane} control
 * @param {string} pod
 */
async function forwarded(control, pod) {
  const words = ["timeout", "60", ...control.kubectlWords, "port-forward", pod, ":80"];
  const [program = "", ...args] = [...control.host.namespaces.command, ...words];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const place = /^Forwarding from (127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (place !== undefined) return await askFromHost(control.host, `http://${place}/cgi-bin/who`);
    }
    throw new Error(`kubectl port-forward ${pod} ended`);
  } finally {
    const isOver = once(child, "close");
    child.stdout.destroy();
    child.kill();
    await isOver;
  }
}

/** IPv4 addresses as IPv6 sockets see them. @param {string} said */
const plain = (said) => said.replace("::ffff:", "").replace(/\[|\]/g, "");
