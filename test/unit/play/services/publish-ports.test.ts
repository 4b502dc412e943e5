import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { podHash } from "../../../../src/play/pod-config/hashes.js";
import { planServices } from "../../../../src/play/services/services.js";
import { publishPorts } from "../../../../src/play/services/publish-ports.js";
import { podText, serviceText, workloads } from "./texts.js";

const node = (spec: string): string => serviceText("web", `type: NodePort, selector: {app: web}, ${spec}`);
const balancer = (name: string, spec: string): string =>
  serviceText(name, `type: LoadBalancer, selector: {app: web}, ${spec}`);

async function published(text: string) {
  const { pods, services } = await workloads(text);
  const result = publishPorts(pods, services);
  return {
    ...result,
    before: pods,
    ports: result.pods.map(({ pod }) => pod.spec.containers.map((container) => container.ports ?? [])),
    lines: result.published.map(({ pod, address }) => `${address} ${pod}`),
    reasons: result.problems.map(({ kind, reason }) => `${kind}: ${reason}`),
  };
}

describe("publishPorts()", () => {
  test("gives a NodePort to the container's port, and says which of several pods answers", async () => {
    const text =
      node("ports: [{port: 80, targetPort: http, nodePort: 30080}]") +
      podText("a", "app: web", "", "{name: http, containerPort: 8080}") +
      podText("b", "app: web", "", "{name: http, containerPort: 8080}");
    const result = await published(text);
    assert.deepEqual(result.ports, [
      [[{ name: "http", containerPort: 8080, hostPort: 30080 }]],
      [[{ name: "http", containerPort: 8080 }]],
    ]);
    assert.deepEqual(result.lines, ["http://localhost:30080 default/a"]);
    assert.deepEqual(result.reasons, [
      "passedOver: port 30080/TCP of this host reaches one of 2 pods, default/a",
    ]);
    assert.notEqual(result.pods[0]!.hash, result.before[0]!.hash);
    assert.notEqual(podHash(result.pods[0]!), podHash(result.before[0]!));
    assert.equal(result.pods[1], result.before[1]);
  });

  test("gives a LoadBalancer its own port, also where no container names the target", async () => {
    const result = await published(
      balancer("db", "ports: [{name: sql, port: 5432, targetPort: 5433}]") + podText("a", "app: web"),
    );
    assert.deepEqual(result.ports, [[[{ containerPort: 5433, protocol: "TCP", hostPort: 5432 }]]]);
    assert.deepEqual(result.lines, ["localhost:5432 default/a"]);
  });

  test("gives a NodePort without a number the same free one each time", async () => {
    const text = node("ports: [{port: 80}]") + podText("a", "app: web");
    const [first] = (await published(text)).published;
    const [again] = (await published(text)).published;
    assert.ok(first !== undefined && first.hostPort >= 30_000 && first.hostPort <= 32_767);
    assert.deepEqual(again, first);
    const taken = text + podText("x", "app: x", "", `{containerPort: 1, hostPort: ${first.hostPort}}`);
    const [other] = (await published(taken)).published;
    assert.equal(other?.hostPort, first.hostPort === 32_767 ? 30_000 : first.hostPort + 1);
  });

  test("gives a LoadBalancer another port where a pod or another service has its own, and refuses a nodePort", async () => {
    const text =
      balancer("one", "ports: [{port: 80}]") +
      balancer("two", "ports: [{port: 80, targetPort: 81}]") +
      balancer("three", "ports: [{port: 82}]") +
      podText("a", "app: web") +
      podText("x", "app: x", "", "{containerPort: 1, hostPort: 82}");
    const { lines, reasons, published: all } = await published(text);
    const [, two = 0, three = 0] = all.map(({ hostPort }) => hostPort);
    assert.ok(two >= 30_000 && three >= 30_000);
    assert.deepEqual(lines, [
      `http://localhost:80 default/a`,
      `http://localhost:${two} default/a`,
      `localhost:${three} default/a`,
    ]);
    assert.deepEqual(reasons, [
      `passedOver: port 80/TCP of this host is wanted by the Service default/one, too: it is published on port ${two} instead`,
      `passedOver: port 82/TCP of this host is wanted by the pod default/x, too: it is published on port ${three} instead`,
    ]);
    const written = node("ports: [{port: 80, nodePort: 30082}]") + podText("a", "app: web");
    const owner = podText("x", "app: x", "", "{containerPort: 1, hostPort: 30082}");
    assert.deepEqual((await published(written + owner)).reasons, [
      "notHonoured: port 30082/TCP of this host is wanted by the pod default/x, too",
    ]);
  });

  test("takes ports of 0 for those that are not given", async () => {
    const text =
      node('ports: [{name: a, port: 80, targetPort: 0, nodePort: 0}, {name: b, port: 81, targetPort: ""}]') +
      podText("a", "app: web", "", "{containerPort: 80, hostPort: 0}");
    const { ports, reasons } = await published(text);
    assert.deepEqual(reasons, []);
    const rows = ports[0]?.[0]?.map(({ containerPort, hostPort = 0 }) => [containerPort, hostPort >= 30_000]);
    assert.deepEqual(rows, [
      [80, true],
      [81, true],
    ]);
  });

  test("accepts a host port that the pod has for the same port", async () => {
    const text =
      balancer("one", "ports: [{port: 80, targetPort: 8080}]") +
      podText("a", "app: web", "", "{containerPort: 8080, hostPort: 80}");
    const result = await published(text);
    assert.deepEqual(result.reasons, []);
    assert.deepEqual(result.lines, ["http://localhost:80 default/a"]);
    assert.equal(result.pods[0], result.before[0]);
  });

  test("names the port that works for a pod on the host network", async () => {
    const text =
      node("ports: [{port: 80, targetPort: 8080, nodePort: 30080}]") +
      podText("a", "app: web", "hostNetwork: true, ");
    assert.deepEqual((await published(text)).reasons, [
      "passedOver: pod default/a is on the host network: use port 8080 instead of 30080",
    ]);
  });
});

describe("planServices()", () => {
  test("throws one error for all that cannot be done, with the lines of the services", async () => {
    const text =
      node("ports: [{port: 80, nodePort: 30080}]") +
      node("ports: [{port: 80, nodePort: 30081}]").replace("name: web", "name: b") +
      podText("a", "app: web") +
      podText("x", "app: x", "", "{containerPort: 1, hostPort: 30080}, {containerPort: 2, hostPort: 30081}");
    const all = await workloads(text);
    assert.throws(
      () => planServices(all),
      /2 problems[^]*line 2: spec\.ports\[0\]: port 30080[^]*line 7: .*30081/,
    );
  });

  test("counts the pods of jobs, and takes notices for errors with strict", async () => {
    const job = `---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
`;
    const all = await workloads(serviceText("a", "selector: {app: web}, ports: [{port: 80}]") + job);
    assert.deepEqual(planServices(all).notices, []);
    const external = await workloads(
      serviceText("db", "type: ExternalName, externalName: db.example.com") + podText("a", "app: web"),
    );
    assert.match(planServices(external).notices[0]!.reason, /looked up once/);
    assert.throws(() => planServices(external, { strict: true }), /db\.example\.com is looked up once/);
  });
});
