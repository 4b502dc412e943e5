/** Services of `dockershim play`, the program, against a shim with a real engine. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { before, describe, test } from "node:test";
import { isEngineElsewhere, needsEngineHost } from "../support/engine-host.js";
import { PlayFiles } from "../support/play-files.js";
import { runProgram, type Exit } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

describe("play with services", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  const files = PlayFiles.ofSuite(bed);
  let path = "";
  let up: Exit;
  /** Not that of another run: ports of the host are shared. */
  const nodePort = 20_000 + (process.pid % 10_000);

  const server = (name: string, port = 8080): string =>
    `mkdir /www; echo ${name} > /www/index.html; httpd -f -p ${port} -h /www`;
  const metadata = (name: string, app: string): string =>
    `metadata: {name: ${name}-RUN, labels: {app: ${app}-RUN}}`;

  before(async () => {
    path = await files.manifest(`
apiVersion: v1
kind: Service
${metadata("web", "x")}
spec: {selector: {app: web-RUN}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
${metadata("public", "x")}
spec: {type: NodePort, selector: {app: web-RUN}, ports: [{port: 81, targetPort: http, nodePort: ${nodePort}}]}
---
apiVersion: v1
kind: Service
${metadata("second", "x")}
spec: {selector: {app: web-RUN}, ports: [{port: 81, targetPort: 9090}]}
---
apiVersion: v1
kind: Service
${metadata("db", "x")}
spec: {clusterIP: None, selector: {app: db-RUN}}
---
apiVersion: v1
kind: Pod
${metadata("client", "client")}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: IMAGE, command: [sh, -c, "sleep 600"]}]
---
apiVersion: v1
kind: Pod
${metadata("web", "web")}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: IMAGE, command: [sh, -c, "${server("web")}"], ports: [{name: http, containerPort: 8080}]}
  - {name: d, image: IMAGE, command: [sh, -c, "${server("second", 9090)}"], ports: [{containerPort: 9090}]}
---
apiVersion: apps/v1
kind: StatefulSet
${metadata("db", "db")}
spec:
  serviceName: db-RUN
  replicas: 2
  selector: {matchLabels: {app: db-RUN}}
  template:
    metadata: {labels: {app: db-RUN}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: IMAGE, command: [sh, -c, "${server("$HOSTNAME")}"]}]
`);
    up = await files.play("--wait", path);
  });

  /** What a pod's container gets from an address. */
  async function fetchIn(pod: string, address: string): Promise<string> {
    const argv = ["wget", "-q", "-O", "-", `http://${address}/`];
    const exit = await runIn(pod, argv);
    return exit.code === 0 ? exit.stdout.trim() : exit.stderr.trim();
  }

  const runIn = (pod: string, argv: readonly string[]): Promise<Exit> =>
    runProgram(["pod", "exec", `--endpoint=${bed.shim.endpoint}`, `${pod}-${bed.run}`, "--", ...argv]);

  /** docs/run/remote.md: a port that differs from the pod's is not redirected on an engine elsewhere. */
  const redirected = { skip: needsEngineHost("networkNamespaces") };

  test("a pod reaches another by the name of its service", async () => {
    assert.equal(up.code, 0, up.stderr);
    const { run } = bed;
    for (const name of [`web-${run}`, `web-${run}.default`, `web-${run}.default.svc.cluster.local`])
      assert.equal(await fetchIn("client", `${name}${isEngineElsewhere ? ":8080" : ""}`), "web", name);
  });

  test("a pod reaches another by a port that is not the pod's", redirected, async () => {
    const { run } = bed;
    assert.equal(await fetchIn("client", `web-${run}:8080`), "web");
    assert.equal(await fetchIn("client", `public-${run}:81`), "web");
    assert.match(await fetchIn("client", `web-${run}:82`), /refused/);
  });

  test(
    "a pod reaches itself through its services, of which each has its own ports alone",
    redirected,
    async () => {
      assert.equal(await fetchIn("web", `public-${bed.run}:81`), "web");
      for (const pod of ["client", "web"]) {
        assert.equal(await fetchIn(pod, `second-${bed.run}:81`), "second");
        assert.match(await fetchIn(pod, `second-${bed.run}`), /refused/);
      }
    },
  );

  test("a headless service has the names of its pods", async () => {
    const { run } = bed;
    for (const number of [0, 1])
      assert.equal(await fetchIn("client", `db-${run}-${number}.db-${run}:8080`), `db-${run}-${number}`);
    const hosts = (await runIn("client", ["cat", "/etc/hosts"])).stdout;
    const addresses = hosts.split("\n").filter((line) => line.split("\t")[1] === `db-${run}`);
    assert.equal(addresses.length, 2, hosts);
  });

  test("a NodePort is a port of this host, and in the table", redirected, async () => {
    assert.match(up.stdout, new RegExp(`default/public-${bed.run} +81/TCP +http://localhost:${nodePort} `));
    const page = await fetch(`http://127.0.0.1:${nodePort}/`, { signal: AbortSignal.timeout(10_000) });
    assert.equal(await page.text(), "web\n");
  });

  test(
    "names follow a pod that gets another address, and changed ports replace the old",
    redirected,
    async () => {
      const { run } = bed;
      const text = await readFile(path, "utf8");
      // The host port is part of the pod's sandbox, so that another one makes the pod again.
      const changed = text.replace(`nodePort: ${nodePort}`, `nodePort: ${nodePort + 1}`);
      await writeFile(path, changed.replace("port: 80,", "port: 90,"));
      const again = await files.play("--wait", path);
      assert.equal(again.code, 0, again.stderr);
      assert.equal(await fetchIn("client", `web-${run}:90`), "web");
      assert.equal(await fetchIn("client", `second-${run}:81`), "second");
      assert.match(await fetchIn("client", `web-${run}`), /refused/);
      await writeFile(path, changed.replace("port: 80,", "port: 91,"));
      assert.equal((await files.play("--wait", path)).code, 0);
      assert.equal(await fetchIn("client", `web-${run}:91`), "web");
      assert.match(await fetchIn("client", `web-${run}:90`), /refused/);
    },
  );
});
