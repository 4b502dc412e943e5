import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";
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
async function makePlay(t: TestContext, manifests = text, changes: Partial<ServicesDeps> = {}) {
  const fixture = makeFixture();
  const { cri, deps, clock, files } = fixture;
  const read = await workloads(manifests);
  const plan = { ...read, ...Services.plan(read) };
  const redirects: string[] = [];
  const status = cri.podSandboxStatus.bind(cri);
  cri.podSandboxStatus = async (id) => {
    const number = / (\d+)$/.exec(id)?.[1] ?? "";
    return { ...(await status(id)), network: { ip: `10.0.0.${number}`, additional_ips: [] } };
  };
  const open = async (adopted: readonly Manifest[] = []) => {
    const services = new Services(plan.services, {
      ...deps,
      redirect: ({ id }, rules) => {
        const texts = rules.redirects.map(
          ({ port, target, own }) => `${port}->${own === undefined ? "" : `${own.pod}:`}${target}`,
        );
        redirects.push(`${id}: ${texts.join(" ")}`);
        return Promise.resolve();
      },
      ...changes,
    });
    const kubelet = new Kubelet({ ...deps, services });
    if (adopted.length > 0) await services.adopt(adopted, signal);
    const attached = services.attach(kubelet);
    const close = async (): Promise<void> => {
      attached[Symbol.dispose]();
    };
    t.after(close);
    const apply = async (...pods: readonly Manifest[]): Promise<void> => {
      for (const pod of pods) {
        await kubelet.apply(pod, { failFast: true }).applied;
        await clock.advance(0);
      }
    };
    return { kubelet, apply, close };
  };
  const hosts = (manifest: Manifest): string =>
    (files.texts.get(`/state/${manifest.key.uid}/etc-hosts`) ?? "").split("# Services\n")[1] ?? "";
  const [server, client] = plan.pods as readonly [Manifest, Manifest];
  return { ...fixture, ...(await open()), plan, server, client, open, hosts, redirects };
}

const names = "web\tweb.default\tweb.default.svc\tweb.default.svc.cluster.local\n";

describe("Services", () => {
  test("gives a pod the names of pods that came before it, and of those that come after it", async (t) => {
    const { apply, hosts, server, client } = await makePlay(t);
    await apply(client);
    assert.equal(hosts(client), "");
    await apply(server);
    const address = /10\.0\.0\.\d+/.exec(hosts(client))?.[0] ?? "";
    assert.equal(hosts(client), `${address}\t${names}`);
    assert.equal(hosts(server), hosts(client));
  });

  for (const how of ["another play takes", "the kubelet forgets"] as const)
    test(`leaves the file of a pod alone that ${how}`, async (t) => {
      const { apply, hosts, server, client, kubelet, cri, clock, files } = await makePlay(t);
      await apply(client);
      if (how === "another play takes") {
        await files.replaceFile(`/state/${client.key.uid}/owner`, "other");
        cri.notify("client");
        await clock.advance(60_000);
      } else await kubelet.forget(client.key);
      files.texts.set(`/state/${client.key.uid}/etc-hosts`, "# Services\nof another play");
      await apply(server);
      assert.equal(hosts(client), "of another play");
      assert.ok(hosts(server).endsWith(names));
    });

  test("keeps the names when a container is started again, and changes them with the address", async (t) => {
    const { apply, hosts, server, client, cri, clock } = await makePlay(t);
    await apply(server, client);
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
  });

  test("forgets the address of a pod that was removed", async (t) => {
    const { apply, hosts, server, client, kubelet, clock } = await makePlay(t);
    await apply(server, client);
    await kubelet.remove(server.key, signal);
    await clock.advance(0);
    assert.equal(hosts(client), "");
  });

  test("a pod whose containers are being ended is not ready, so that its name leads to the others", async (t) => {
    const both = text + podText("server-2", "app: web");
    const { apply, plan, hosts, client, kubelet, cri } = await makePlay(t, both);
    await apply(...plan.pods);
    const addressesOf = (lines: string): readonly string[] => lines.match(/^10\.\S+/gm) ?? [];
    const before = addressesOf(hosts(client));
    assert.equal(before.length, 2);
    let meanwhile: readonly string[] = [];
    const stop = cri.stopContainer.bind(cri);
    cri.stopContainer = async (...args) => {
      await turns(5);
      meanwhile = addressesOf(hosts(client));
      return stop(...args);
    };
    await kubelet.remove({ namespace: "default", name: "server" }, signal);
    assert.deepEqual(meanwhile, before.slice(1));
  });

  test("redirects ports before the first container is created", async (t) => {
    const { apply, server, cri, redirects } = await makePlay(t);
    const create = cri.createContainer.bind(cri);
    const seen: number[] = [];
    cri.createContainer = (...args) => {
      seen.push(redirects.length);
      return create(...args);
    };
    await apply(server);
    assert.deepEqual(seen, [1]);
    assert.deepEqual(redirects, ["sandbox server 1: 80->8080"]);
  });

  test("says once which port works when a redirect fails, and tries it again", async (t) => {
    let attempts = 0;
    const redirect = (): Promise<void> => {
      attempts += 1;
      return Promise.reject(new Error("run iptables: not installed"));
    };
    const { apply, server, clock, reports } = await makePlay(t, text, { redirect });
    await apply(server);
    await clock.advance(120_000);
    assert.ok(attempts > 2);
    assert.deepEqual(reports, [
      "service default/web: port 80 does not lead to port 8080 of its pods; use web:8080 instead: run iptables: not installed",
    ]);
  });

  describe("with a Service that has an address of its own", () => {
    const own =
      serviceText("web", "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]") +
      podText("server", "app: web", "", "{containerPort: 80}") +
      podText("client", "app: client");

    test("redirects it in the pods that connect, before their names lead to it, and follows the pods", async (t) => {
      const { apply, hosts, server, client, redirects, cri, clock } = await makePlay(t, own);
      await apply(client);
      assert.deepEqual([hosts(client), redirects], ["", ["sandbox client 1: "]]);
      await apply(server);
      assert.match(hosts(client), /^198\.18\.\d+\.\d+\tweb\t/);
      assert.equal(hosts(server), hosts(client));
      assert.ok(redirects.includes("sandbox client 1: 80->10.0.0.3:8080"), redirects.join());
      const before = hosts(client);
      await cri.stopPodSandbox(cri.sandboxes.find(({ id }) => id.includes("server"))!.id);
      cri.notify("server");
      await clock.advance(0);
      assert.equal(hosts(client), before);
      const address = /server (\d+)/.exec(cri.sandboxes.at(-1)!.id)?.[1] ?? "";
      assert.notEqual(address, "3");
      assert.ok(redirects.includes(`sandbox client 1: 80->10.0.0.${address}:8080`), redirects.join());
    });

    test("names the addresses of the pods where it cannot be redirected, and says which port works", async (t) => {
      const failure = new Error("run iptables: not installed");
      let isBroken = true;
      const redirect = (): Promise<void> => (isBroken ? Promise.reject(failure) : Promise.resolve());
      const { apply, hosts, server, client, reports, clock } = await makePlay(t, own, { redirect });
      await apply(client, server);
      assert.equal(hosts(client), `10.0.0.3\t${names}`);
      assert.deepEqual(reports, [
        "service default/web: port 80 does not lead to port 8080 of its pods; use web:8080 instead: run iptables: not installed",
      ]);
      isBroken = false;
      await clock.advance(120_000);
      assert.match(hosts(client), /^198\.18\./);
    });
  });

  test("a second play loses no name before it has observed all pods", async (t) => {
    const { open, close, apply, hosts, plan, server, client, files } = await makePlay(t);
    await apply(server, client);
    await close();
    const before = hosts(client);
    const write = files.rewriteFile.bind(files);
    const written: string[] = [];
    files.rewriteFile = (path, content) => {
      written.push(content);
      return write(path, content);
    };
    const second = await open(plan.pods);
    await second.apply(client, server);
    assert.ok(written.length > 0);
    for (const content of written) assert.ok(content.endsWith(before), content);
  });

  test("gives the variables of services to containers", async (t) => {
    const { apply, server, client, cri } = await makePlay(t);
    await apply(server, client);
    const { envs = [] } = cri.containers[1]!.config;
    const host = envs.find(({ key }) => key === "WEB_SERVICE_HOST");
    assert.equal(Buffer.from(host?.value ?? "").toString(), "10.0.0.1");
  });

  test("gives pods on the host network the node's address, and keeps the node's file before the names", async (t) => {
    const onHost =
      serviceText("web", "selector: {app: web}, ports: [{port: 8080}]") +
      podText("server", "app: web", "hostNetwork: true, ");
    const { apply, server, files } = await makePlay(t, onHost);
    await apply(server);
    const content = files.texts.get(`/state/${server.key.uid}/etc-hosts`) ?? "";
    assert.ok(content.startsWith("127.0.0.1 localhost\n192.0.2.7 node\n"), content);
    assert.ok(content.includes(`192.0.2.7\t${names}`), content);
  });

  test("looks up the host of an ExternalName, and reports one that has no address", async (t) => {
    const external =
      serviceText("db", "type: ExternalName, externalName: db.example.com") +
      serviceText("none", "type: ExternalName, externalName: no.example.com") +
      podText("client", "app: client");
    const lookUp = (host: string): Promise<readonly string[]> =>
      host.startsWith("db") ? Promise.resolve(["192.0.2.9"]) : Promise.reject(new Error("ENOTFOUND"));
    const { apply, hosts, server, reports } = await makePlay(t, external, { lookUp });
    await turns(5);
    await apply(server);
    assert.equal(hosts(server), `192.0.2.9\t${names.replaceAll("web", "db")}`);
    assert.deepEqual(reports, ["service default/none: its name is not in /etc/hosts: ENOTFOUND"]);
  });
});
