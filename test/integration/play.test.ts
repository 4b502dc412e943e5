/** `dockershim play`, the program, against a shim with a real engine. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { containersWithLabel, inspectImage, loadImage, removeImage } from "../support/docker.js";
import { fetchOnEngineHost, needsEngineHost } from "../support/engine-host.js";
import { PlayFiles } from "../support/play-files.js";
import { runProgram, type Exit } from "../support/shim-process.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

const demoImage = "dockershim.local/busybox:1";
const hello = fileURLToPath(new URL("../../examples/hello.yaml", import.meta.url));

describe("play", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  const files = PlayFiles.ofSuite(bed);
  before(async () => {
    if ((await inspectImage(demoImage)) !== undefined) return;
    await loadImage(await testImageArchive({ reference: demoImage, marker: "demo" }));
    bed.onClose(() => removeImage(demoImage));
  });

  /** The columns of the table that was printed, by pod. */
  function rows({ stdout, stderr }: Exit): ReadonlyMap<string, readonly string[]> {
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => line.trim().split(/\s{2,}/));
    const header = ["POD", "STATUS", "READY", "RESTARTS", "IP", "PORTS", "AGE", "LAST EVENT"];
    assert.deepEqual(lines[0], header, `no table; standard error: ${stderr}`);
    return new Map(lines.slice(1).map((cells) => [cells[0] ?? "", cells]));
  }

  async function sandboxes(name: string): Promise<number> {
    const { items } = await bed.shim.cri.ListPodSandbox({});
    return items.filter(({ metadata }) => metadata?.name === name).length;
  }

  test("examples/hello.yaml: a table, a web page on the pod's IP, no change when repeated, nothing after --down", async () => {
    const text = (await readFile(hello, "utf8"))
      .replace("name: hello\n", "name: hello-RUN\n")
      .replace("app: hello", `app: hello\n    ${runLabel}: "RUN"`);
    const path = await files.manifest(text);
    const name = `hello-${bed.run}`;
    const up = await files.play("--wait", path);
    assert.equal(up.code, 0, up.stderr);
    const [, state, ready, , ip, ports] = rows(up).get(`default/${name}`) ?? [];
    assert.deepEqual([state, ports, ready], ["Running", "8080/TCP", "1/1"]);
    const page = await until("the page", () =>
      fetchOnEngineHost(`http://${String(ip)}:8080/`, 10_000).catch(() => undefined),
    );
    assert.equal(page, "<h1>Hello from pod hello on the Docker Engine</h1>\n");
    assert.equal((await containersWithLabel(`${runLabel}=${bed.run}`)).length, 1); // The pod's labels are the sandbox's.

    const again = await files.play("--wait", path);
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr, new RegExp(`default/${name}: already running`));
    assert.deepEqual(
      rows(again).get(`default/${name}`)?.slice(0, 6),
      rows(up).get(`default/${name}`)?.slice(0, 6),
    );
    assert.equal(await sandboxes(name), 1);

    const down = await files.play("--down", path);
    assert.equal(down.code, 0, down.stderr);
    assert.equal(await sandboxes(name), 0);
    assert.deepEqual(await containersWithLabel(`io.kubernetes.pod.name=${name}`), []);
    const twice = await files.play("--down", path);
    assert.equal(twice.code, 0, twice.stderr);
  });

  const ofNetworks = { skip: needsEngineHost("networkNamespaces") };

  test(
    "a hostPort on which a program of this host listens is refused before anything starts",
    ofNetworks,
    async () => {
      const server = createServer().listen(0);
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const path = await files.manifest(`
apiVersion: v1
kind: Pod
metadata: {name: bad-RUN}
spec: {containers: [{name: c, image: "IMAGE", ports: [{containerPort: 80, hostPort: ${port}}]}]}
`);
      try {
        const exit = await files.play("--wait=30s", path);
        assert.equal(exit.code, 1);
        assert.match(exit.stderr, new RegExp(`port ${port}/TCP of this host: a program listens on it`));
        assert.doesNotMatch(exit.stderr, /Created pod sandbox/);
      } finally {
        server.close();
      }
    },
  );

  test("an interrupt while --wait waits says that the pods stay, and how to go on", async () => {
    const path = await files.manifest(`
apiVersion: v1
kind: Pod
metadata: {name: fine-RUN}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: c
      image: "IMAGE"
      command: [sleep, "1000"]
      readinessProbe: {initialDelaySeconds: 2, exec: {command: ["false"]}}
`);
    const waiting = files.start("--wait", path);
    await waiting.untilPrinted(/Readiness probe/);
    const { code, stderr } = await waiting.end("SIGINT");
    assert.equal(code, 1);
    assert.match(stderr, /interrupted; not ready: default\/fine-.*; the pods stay/);
    assert.match(
      stderr,
      new RegExp(
        `go on with "dockershim play ${path} --endpoint=\\S+", remove them with .*--down ${path} --endpoint=`,
      ),
    );
    assert.equal((await containersWithLabel(`io.kubernetes.pod.name=fine-${bed.run}`)).length, 2);
    assert.equal((await files.play("--down", path)).code, 0);
  });

  test("pod down refuses a workload that is not there, and a pod of another client", async () => {
    const absent = await runProgram(["pod", "down", `--endpoint=${bed.shim.endpoint}`, "deploy/absent"]);
    assert.equal(absent.code, 1);
    assert.match(absent.stderr, /default\/absent: no pod of the Deployment is there/);
    await using other = await bed.runPod(bed.shim.cri);
    const { namespace = "", name = "" } = other.config.metadata ?? {};
    const down = await runProgram(["pod", "down", `--endpoint=${bed.shim.endpoint}`, `${namespace}/${name}`]);
    assert.equal(down.code, 1);
    assert.match(down.stderr, /play did not make it/);
  });
});
