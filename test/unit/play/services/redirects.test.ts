import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkRedirects, rulesOf, withOwnAddresses } from "../../../../src/play/services/redirects.js";
import { podText, serviceText, workloads } from "./texts.js";

const to8080 = "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]";
const ports = "{name: http, containerPort: 8080}, {name: http2, containerPort: 9090}";

async function redirects(text: string): Promise<readonly string[]> {
  const { pods, services } = await workloads(text);
  const endpoints = pods.map((manifest, index) => ({
    ...{ manifest, isReady: true },
    addresses: [`10.0.0.${index + 1}`],
  }));
  const planned = withOwnAddresses(pods, services);
  return rulesOf(pods[0]!, { services: planned, endpoints }).redirects.map(
    ({ service, port, target, protocol, own }) =>
      `${service.name} ${port}->${own === undefined ? "" : `${own.pod}:`}${target}/${protocol}`,
  );
}

/** Names of the Services that have addresses of their own. */
async function owners(text: string): Promise<readonly string[]> {
  const { pods, services } = await workloads(text);
  const planned = withOwnAddresses(pods, services).filter(
    ({ ownAddresses = [] }) => ownAddresses.length === 2,
  );
  return planned.map(({ name }) => name);
}

async function problems(text: string): Promise<readonly string[]> {
  const { pods, services } = await workloads(text);
  return checkRedirects(pods, withOwnAddresses(pods, services)).map(
    ({ object, path, reason, kind }) => `${object ?? ""} ${path} ${kind}: ${reason}`,
  );
}

describe("rulesOf()", () => {
  test("has ports that differ, by number or by the name of a container's port", async () => {
    const text =
      serviceText(
        "a",
        "selector: {app: web}, ports: [{name: x, port: 80, targetPort: http}, {name: z, port: 9090}]",
      ) +
      serviceText("b", "selector: {app: web}, ports: [{port: 81, targetPort: 9090}]") +
      podText("web", "app: web", "", ports);
    assert.deepEqual(await redirects(text), ["a 80->8080/TCP", "b 81->9090/TCP"]);
  });

  test("names a rule once that two services want", async () => {
    const text = serviceText("a", to8080) + serviceText("b", to8080) + podText("web", "app: web", "", ports);
    assert.deepEqual(await redirects(text), ["a 80->8080/TCP"]);
    assert.deepEqual(await problems(text), []);
  });

  test("has none for headless services, whose ports are those of the pods", async () => {
    const service = serviceText("a", `clusterIP: None, ${to8080}`);
    assert.deepEqual(await redirects(service + podText("web", "app: web", "", ports)), []);
  });

  test("has none on the host network, where other pods have those of own addresses", async () => {
    const onHost = podText("web", "app: web", "hostNetwork: true, ", ports);
    const text = serviceText("a", to8080) + onHost;
    assert.deepEqual(await redirects(text), []);
    assert.deepEqual(await problems(text), [
      "Service a spec.ports[0] passedOver: port 80/TCP does not lead to 8080 in pods on the host network, as default/web: use 8080 there",
    ]);
    const client = podText("client", "app: client");
    assert.deepEqual(await redirects(serviceText("a", to8080) + client + onHost), [
      "a 80->10.0.0.2:8080/TCP",
    ]);
  });

  test("leads an own address to the first pod that has the port", async () => {
    const text =
      serviceText("a", to8080) +
      serviceText("b", "selector: {app: web}, ports: [{port: 80, targetPort: http2}]") +
      podText("client", "app: client") +
      podText("w1", "app: web") +
      podText("w2", "app: web", "", ports) +
      podText("w3", "app: web", "", ports);
    assert.deepEqual(await redirects(text), ["b 80->10.0.0.3:9090/TCP"]);
  });
});

describe("withOwnAddresses()", () => {
  const to = (name: string, port: number, target: number): string =>
    serviceText(name, `selector: {app: web}, ports: [{port: ${port}, targetPort: ${target}}]`);
  const pods = podText("w1", "app: web", "", ports) + podText("w2", "app: web", "", ports);
  for (const [what, services, expected] of [
    ["a port that another Service leads to another target", to("a", 80, 8080) + to("b", 80, 9090), ["b"]],
    ["a port that is a container's", to("a", 9090, 8080), ["a"]],
    ["a port that is the target of another Service", to("a", 443, 8443) + to("b", 443, 443), ["a"]],
    ["a port that is another target of its own", to("a", 80, 81) + to("b", 81, 82), ["b"]],
  ] as const)
    test(`gives some to a Service with ${what}`, async () => {
      assert.deepEqual(await owners(services + pods), expected);
      assert.deepEqual(await problems(services + pods), []);
    });

  test("gives none where the addresses of the pods will do", async () => {
    const text = to("a", 80, 8080) + to("b", 80, 8080) + to("c", 9090, 9090) + to("d", 81, 9090);
    assert.deepEqual(await owners(text + pods), []);
  });

  test("gives the same Service the same ones, and no two Services the same", async () => {
    const text = [...Array(50).keys()].map((number) => to(`s${number}`, 9090, 8080)).join("");
    const read = await workloads(text + pods);
    const all = withOwnAddresses(read.pods, read.services).map(({ ownAddresses }) => ownAddresses?.[0] ?? "");
    assert.equal(new Set(all).size, 50);
    assert.match(all.join(" "), /^(198\.18\.\d+\.\d+ ?)+$/);
    const [last] = withOwnAddresses(read.pods, read.services.slice(-1));
    assert.equal(last?.ownAddresses?.[0], all.at(-1));
  });
});

describe("checkRedirects()", () => {
  test("says of sessionAffinity when it depends on the client, which one pod makes no question", async () => {
    const text = serviceText("a", "selector: {app: web}, sessionAffinity: ClientIP, ports: [{port: 8080}]");
    assert.deepEqual(await problems(text + podText("w1", "app: web")), []);
    assert.deepEqual(await problems(text + podText("w1", "app: web") + podText("w2", "app: web")), [
      "Service a spec.sessionAffinity passedOver: holds for programs that connect to the first address of the name, as most do",
    ]);
  });

  test("passes over a selector without pods and a name without a port", async () => {
    const text =
      serviceText("a", "selector: {app: none}, ports: [{port: 80}]") +
      serviceText("b", "selector: {app: web}, ports: [{port: 80, targetPort: metrics}]") +
      podText("web", "app: web", "", ports);
    assert.deepEqual(await problems(text), [
      "Service a spec.selector passedOver: selects no pod of these files, so that its name does not resolve",
      'Service b spec.ports[0].targetPort passedOver: no container of its pods, as default/web, has a port named "metrics"',
    ]);
  });
});
