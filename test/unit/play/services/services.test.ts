import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Kubelet } from "../../../../src/play/kubelet/kubelet.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { Services, type ServicesDeps } from "../../../../src/play/services/services.js";
import { turns } from "../../../fakes/turns.js";
import { makeFixture } from "../fake-cri.js";
import { podText, serviceText, workloads } from "./texts.js";

const web = serviceText("web", "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]");
const text = web + podText("server", "app: web") + podText("client", "app: client");
const { signal } = new AbortController();

/** A play whose pods have the addresses 10.0.0.1, 10.0.0.2 … in the order of their sandboxes. */
async function makePlay(manifests = text, changes: Partial<ServicesDeps> = {}) {
  const fixture = makeFixture();
  const { cri, deps, clock, files } = fixture;
  const plan = await workloads(manifests);
  const redirects: string[] = [];
  const status = cri.podSandboxStatus.bind(cri);
  cri.podSandboxStatus = async (id) => {
    const number = / (\d+)$/.exec(id)?.[1] ?? "";
    return { ...(await status(id)), network: { ip: `10.0.0.${number}`, additional_ips: [] } };
  };
  const open = () => {
    const services = new Services(plan.services, {
      ...deps,
      redirect: ({ id }, rules) => {
        redirects.push(`${id}: ${rules.map(({ port, target }) => `${port}->${target}`).join(" ")}`);
        return Promise.resolve();
      },
      ...changes,
    });
    const kubelet = new Kubelet({ ...deps, services });
    return { services, kubelet };
  };
  const apply = async (kubelet: Kubelet, manifest: Manifest): Promise<void> => {
    await kubelet.apply(manifest, { failFast: true }).applied;
    await clock.advance(0);
  };
  const hosts = (manifest: Manifest): string =>
    (files.texts.get(`/state/${manifest.key.uid}/etc-hosts`) ?? "").split("# Services\n")[1] ?? "";
  return { ...fixture, plan, open, apply, hosts, redirects };
}

const names = "web\tweb.default\tweb.default.svc\tweb.default.svc.cluster.local\n";

describe("Services", () => {
  test("gives a pod the names of pods that came before it, and of those that come after it", async () => {
    const { open, apply, hosts, plan } = await makePlay();
    const [server, client] = plan.pods as [Manifest, Manifest];
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, client);
    assert.equal(hosts(client), "");
    await apply(kubelet, server);
    const address = /10\.0\.0\.\d+/.exec(hosts(client))?.[0] ?? "";
    assert.equal(hosts(client), `${address}\t${names}`);
    assert.equal(hosts(server), hosts(client));
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  for (const how of ["another play takes", "the kubelet forgets"] as const) {
    test(`leaves the file of a pod alone that ${how}`, async () => {
      const { open, apply, hosts, plan, files, clock, cri } = await makePlay();
      const [server, client] = plan.pods as [Manifest, Manifest];
      const { services, kubelet } = open();
      using _ = services.attach(kubelet);
      await apply(kubelet, client);
      if (how === "another play takes") {
        await files.replaceFile(`/state/${client.key.uid}/owner`, "other");
        cri.notify("client");
        await clock.advance(60_000);
      } else await kubelet.forget(client.key);
      files.texts.set(`/state/${client.key.uid}/etc-hosts`, "# Services\nof another play");
      await apply(kubelet, server);
      assert.equal(hosts(client), "of another play");
      assert.ok(hosts(server).endsWith(names));
      await kubelet[Symbol.asyncDispose]();
      await services[Symbol.asyncDispose]();
    });
  }

  test("keeps the names when a container is started again, and changes them with the address", async () => {
    const { open, apply, hosts, plan, cri, clock } = await makePlay();
    const [server, client] = plan.pods as [Manifest, Manifest];
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, server);
    await apply(kubelet, client);
    const before = hosts(client);
    cri.end("c", 1);
    await clock.advance(0);
    assert.equal(cri.calls.at(-1), "startContainer c");
    assert.equal(hosts(client), before);
    await cri.stopPodSandbox(cri.sandboxes[0]!.id);
    cri.notify("server");
    await clock.advance(0);
    assert.notEqual(hosts(client), before);
    assert.ok(hosts(client).endsWith(names));
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("forgets the address of a pod that was removed", async () => {
    const { open, apply, hosts, plan, clock } = await makePlay();
    const [server, client] = plan.pods as [Manifest, Manifest];
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, server);
    await apply(kubelet, client);
    await kubelet.remove(server.key, signal);
    await clock.advance(0);
    assert.equal(hosts(client), "");
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("redirects ports before the first container is created", async () => {
    const { open, apply, plan, cri, redirects } = await makePlay();
    const { services, kubelet } = open();
    const create = cri.createContainer.bind(cri);
    const seen: number[] = [];
    cri.createContainer = (...args) => {
      seen.push(redirects.length);
      return create(...args);
    };
    await apply(kubelet, plan.pods[0]!);
    assert.deepEqual(seen, [1]);
    assert.deepEqual(redirects, ["sandbox server 1: 80->8080"]);
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("says once which port works when a redirect fails, and tries it again", async () => {
    let attempts = 0;
    const redirect = (): Promise<void> => {
      attempts += 1;
      return Promise.reject(new Error("run iptables: not installed"));
    };
    const { open, apply, plan, reports, clock } = await makePlay(text, { redirect });
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, plan.pods[0]!);
    await clock.advance(120_000);
    assert.ok(attempts > 2);
    assert.deepEqual(reports, [
      "service default/web: port 80 does not lead to port 8080 of its pods; use web:8080 instead: run iptables: not installed",
    ]);
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("a second play loses no name before it has observed all pods", async () => {
    const { open, apply, hosts, plan, files } = await makePlay();
    const [server, client] = plan.pods as [Manifest, Manifest];
    const first = open();
    const attached = first.services.attach(first.kubelet);
    await apply(first.kubelet, server);
    await apply(first.kubelet, client);
    attached[Symbol.dispose]();
    await first.kubelet[Symbol.asyncDispose]();
    await first.services[Symbol.asyncDispose]();
    const before = hosts(client);
    const write = files.rewriteFile.bind(files);
    const written: string[] = [];
    files.rewriteFile = (path, content) => {
      written.push(content);
      return write(path, content);
    };
    const second = open();
    await second.services.adopt(plan.pods, signal);
    using _ = second.services.attach(second.kubelet);
    await apply(second.kubelet, client);
    await apply(second.kubelet, server);
    assert.ok(written.length > 0);
    for (const content of written) assert.ok(content.endsWith(before), content);
    await second.kubelet[Symbol.asyncDispose]();
    await second.services[Symbol.asyncDispose]();
  });

  test("gives the variables of services to containers", async () => {
    const { open, apply, plan, cri } = await makePlay();
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, plan.pods[0]!);
    await apply(kubelet, plan.pods[1]!);
    const { envs = [] } = cri.containers[1]!.config;
    const host = envs.find(({ key }) => key === "WEB_SERVICE_HOST");
    assert.equal(Buffer.from(host?.value ?? "").toString(), "10.0.0.1");
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("gives pods on the host network the node's address, and keeps the node's file before the names", async () => {
    const onHost =
      serviceText("web", "selector: {app: web}, ports: [{port: 8080}]") +
      podText("server", "app: web", "hostNetwork: true, ");
    const { open, apply, plan, files } = await makePlay(onHost);
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await apply(kubelet, plan.pods[0]!);
    const content = files.texts.get(`/state/${plan.pods[0]!.key.uid}/etc-hosts`) ?? "";
    assert.ok(content.startsWith("127.0.0.1 localhost\n192.0.2.7 node\n"), content);
    assert.ok(content.includes(`192.0.2.7\t${names}`), content);
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });

  test("looks up the host of an ExternalName, and reports one that has no address", async () => {
    const external =
      serviceText("db", "type: ExternalName, externalName: db.example.com") +
      serviceText("no", "type: ExternalName, externalName: no.example.com") +
      podText("client", "app: client");
    const lookUp = (host: string): Promise<readonly string[]> =>
      host.startsWith("db") ? Promise.resolve(["192.0.2.9"]) : Promise.reject(new Error("ENOTFOUND"));
    const { open, apply, hosts, plan, reports } = await makePlay(external, { lookUp });
    const { services, kubelet } = open();
    using _ = services.attach(kubelet);
    await turns(5);
    await apply(kubelet, plan.pods[0]!);
    assert.equal(hosts(plan.pods[0]!), `192.0.2.9\t${names.replaceAll("web", "db")}`);
    assert.deepEqual(reports, ["service default/no: its name is not in /etc/hosts: ENOTFOUND"]);
    await kubelet[Symbol.asyncDispose]();
    await services[Symbol.asyncDispose]();
  });
});
