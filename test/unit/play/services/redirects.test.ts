import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkRedirects, redirectsOf } from "../../../../src/play/services/redirects.js";
import { podText, serviceText, workloads } from "./texts.js";

const to8080 = "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]";
const ports = "{name: http, containerPort: 8080}, {name: http2, containerPort: 9090}";

async function redirects(text: string): Promise<readonly string[]> {
  const { pods, services } = await workloads(text);
  return redirectsOf(pods[0]!, services).map(
    ({ service, port, target, protocol }) => `${service.name} ${port}->${target}/${protocol}`,
  );
}

async function problems(text: string): Promise<readonly string[]> {
  const { pods, services } = await workloads(text);
  return checkRedirects(pods, services).map(
    ({ object, path, reason, kind }) => `${object ?? ""} ${path} ${kind}: ${reason}`,
  );
}

describe("redirectsOf()", () => {
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

  test("has none on the host network", async () => {
    const text = serviceText("a", to8080) + podText("web", "app: web", "hostNetwork: true, ", ports);
    assert.deepEqual(await redirects(text), []);
    assert.deepEqual(await problems(text), [
      "Service a spec.ports[0] passedOver: port 80/TCP is not redirected on the host network, as of pod default/web: use 8080",
    ]);
  });
});

describe("checkRedirects()", () => {
  test("refuses one port that leads to two ports of a pod, once for all replicas", async () => {
    const text =
      serviceText("a", "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]") +
      serviceText("b", "selector: {app: web}, ports: [{port: 80, targetPort: 9090}]") +
      podText("w1", "app: web", "", ports) +
      podText("w2", "app: web", "", ports);
    assert.deepEqual(await problems(text), [
      "Service b spec.ports[0] notHonoured: port 80/TCP leads to 9090, and for the Service a to 8080 of the same pod, default/w1: give one of them another port",
    ]);
  });

  test("refuses a port that leads away from a container port of that number", async () => {
    const service = serviceText("a", "selector: {app: web}, ports: [{port: 9090, targetPort: 8080}]");
    assert.deepEqual(await problems(service + podText("web", "app: web", "", ports)), [
      "Service a spec.ports[0] notHonoured: port 9090/TCP leads to 8080, but pod default/web has a container port 9090, too: give the Service another port",
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
