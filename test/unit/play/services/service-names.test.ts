import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hostsFile } from "../../../../src/play/pod-config/hosts-text.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import {
  type Endpoint,
  externalHosts,
  serviceEntries,
  serviceEnvironment,
} from "../../../../src/play/services/service-names.js";
import { podText, serviceText, workloads } from "./texts.js";

/** Lines as `ADDRESS NAME…`. `states` has `ADDRESS` or `ADDRESS ready` for each pod, in order. */
async function lines(text: string, states: readonly string[], namespace = "default") {
  const { services, pods } = await workloads(text);
  const endpoints = pods.map((manifest, index): Endpoint => {
    const [address = "", ready] = (states[index] ?? "").split(" ");
    return { manifest, addresses: address === "" ? [] : [address], isReady: ready === "ready" };
  });
  const hosts = new Map([["db.example.com", ["192.0.2.9"]]]);
  const input = { services, endpoints, hosts };
  return {
    input,
    pods,
    lines: serviceEntries(namespace, input).map(({ address, names }) => `${address} ${names.join(" ")}`),
  };
}

const web = serviceText("web", "selector: {app: web}, ports: [{port: 80}]");
const names = (name: string): string =>
  `${name} ${name}.default ${name}.default.svc ${name}.default.svc.cluster.local`;

describe("serviceEntries()", () => {
  const [a, b, c] = ["a", "b", "c"].map((name) => podText(name, name === "c" ? "app: other" : "app: web"));
  const headless = "clusterIP: None, selector: {app: web}, publishNotReadyAddresses: true";
  for (const [what, service, states, expected] of [
    ["the ready pods that the selector matches", web, ["1", "2 ready", "3 ready"], ["2"]],
    ["all pods that have an address when none is ready", web, ["1", ""], ["1"]],
    ["all pods with publishNotReadyAddresses", serviceText("web", headless), ["1", "2 ready"], ["1", "2"]],
  ] as const)
    test(`names ${what}`, async () => {
      const found = await lines(
        `${service}${a!}${b!}${c!}`,
        states.map((state) => (state === "" ? "" : `10.0.0.${state}`)),
      );
      assert.deepEqual(
        found.lines,
        expected.map((last) => `10.0.0.${last} ${names("web")}`),
      );
    });

  test("gives pods of another namespace no short name", async () => {
    const found = await lines(web + podText("a", "app: web"), ["10.0.0.1 ready"], "other");
    assert.deepEqual(found.lines, [`10.0.0.1 ${names("web").replace("web ", "")}`]);
  });

  test("names each pod of a StatefulSet below its headless service, ready or not", async () => {
    const text =
      serviceText("db", "clusterIP: None, selector: {app: db}") +
      `---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x}]}
`;
    const found = await lines(text, ["10.0.0.1 ready", "10.0.0.2"]);
    assert.deepEqual(found.lines, [
      `10.0.0.1 ${names("db")}`,
      `10.0.0.1 db-0.db db-0.db.default db-0.db.default.svc db-0.db.default.svc.cluster.local`,
      `10.0.0.2 db-1.db db-1.db.default db-1.db.default.svc db-1.db.default.svc.cluster.local`,
    ]);
  });

  test("gives an ExternalName the addresses of its host, or of the service that it names", async () => {
    const text =
      serviceText("db", "type: ExternalName, externalName: db.example.com") +
      serviceText("alias", "type: ExternalName, externalName: web.default.svc.cluster.local") +
      web +
      podText("a", "app: web");
    const found = await lines(text, ["10.0.0.1 ready"]);
    assert.deepEqual(found.lines, [
      `192.0.2.9 ${names("db")}`,
      `10.0.0.1 ${names("alias")}`,
      `10.0.0.1 ${names("web")}`,
    ]);
    assert.deepEqual(externalHosts(found.input.services), ["db.example.com"]);
  });
});

describe("serviceEnvironment()", () => {
  const text =
    serviceText(
      "my-web",
      "selector: {app: web}, ports: [{name: http, port: 80}, {name: dns-udp, port: 53, protocol: UDP}]",
    ) +
    serviceText("late", "selector: {app: late}, ports: [{port: 81}]") +
    serviceText("headless", "clusterIP: None, selector: {app: web}, ports: [{port: 82}]") +
    podText("a", "app: web") +
    podText("b", "app: client");

  test("has the kubelet's variables for services whose address is known", async () => {
    const { input, pods } = await lines(text, ["10.0.0.1 ready"]);
    assert.deepEqual(Object.fromEntries(serviceEnvironment(pods[1]!, input)), {
      MY_WEB_SERVICE_HOST: "10.0.0.1",
      MY_WEB_SERVICE_PORT: "80",
      MY_WEB_SERVICE_PORT_HTTP: "80",
      MY_WEB_SERVICE_PORT_DNS_UDP: "53",
      MY_WEB_PORT: "tcp://10.0.0.1:80",
      MY_WEB_PORT_80_TCP: "tcp://10.0.0.1:80",
      MY_WEB_PORT_80_TCP_PROTO: "tcp",
      MY_WEB_PORT_80_TCP_PORT: "80",
      MY_WEB_PORT_80_TCP_ADDR: "10.0.0.1",
      MY_WEB_PORT_53_UDP: "udp://10.0.0.1:53",
      MY_WEB_PORT_53_UDP_PROTO: "udp",
      MY_WEB_PORT_53_UDP_PORT: "53",
      MY_WEB_PORT_53_UDP_ADDR: "10.0.0.1",
    });
  });

  test("is empty for a pod without enableServiceLinks", async () => {
    const { input } = await lines(text, ["10.0.0.1 ready"]);
    const { pods } = await readWorkloads([
      { name: "c.yaml", text: podText("c", "app: c", "enableServiceLinks: false, ") },
    ]);
    assert.equal(serviceEnvironment(pods[0]!, input).size, 0);
  });
});

describe("hostsFile()", () => {
  const spec = { containers: [], hostAliases: [{ ip: "192.0.2.1", hostnames: ["db"] }] };
  const pod = { hostname: "web", domain: "", ips: ["10.0.0.1"] };

  test("names services last, without the names that the pod has otherwise", () => {
    const services = [
      { address: "10.0.0.2", names: ["web", "web.default"] },
      { address: "10.0.0.3", names: ["db"] },
    ];
    const text = hostsFile(spec, pod, "", services);
    assert.ok(text.endsWith("192.0.2.1\tdb\n\n# Services\n10.0.0.2\tweb.default\n"), text);
  });

  test("breaks lines that C libraries would cut", () => {
    const long = ["a".repeat(300), "b".repeat(300)];
    const text = hostsFile(spec, pod, "", [{ address: "10.0.0.2", names: long }]);
    assert.ok(text.endsWith(`10.0.0.2\t${long[0]!}\n10.0.0.2\t${long[1]!}\n`));
  });
});
