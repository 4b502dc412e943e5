/** `dockershim play` with an engine of which only the socket is shared. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { repositoryRoot } from "../../scripts/setup/paths.mjs";
import { builtinPauseImage } from "../../src/shim/pause/pause-image.js";
import { ElsewhereEngine } from "../support/elsewhere-engine.js";
import { inNamespaces } from "../support/isolated-engine.js";
import { CommandProcess, type Exit, ShimProcess, runProgram } from "../support/shim-process.js";
import { long } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

const image = "registry.k8s.io/e2e-test-images/busybox:1.29-2";
const golden = join(repositoryRoot, "test/golden/kubelet-sequences/manifests");
/** Ready until it has ended. */
const endsAtOnce = "never-fails";
/** Manifests that can never be ready: why. All others are ready after a moment. */
const neverReady: Readonly<Record<string, RegExp>> = {
  "command-missing": /\/no\/such\/program/,
  "http-readiness": /not ready: default\/http-readiness/,
  "never-init-fails": /never-init-fails/,
  "post-start-fails": /post-start-fails/,
  "pull-always": /pull-always/,
  "pull-missing": /pull-missing/,
  "pull-never": /pull-never/,
  "tcp-startup-kill": /not ready: default\/tcp-startup-kill/,
};

interface Mount {
  readonly Source: string;
  readonly Destination: string;
}

const everything = `
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {text: one}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: all}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: all, labels: {app: all}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 3000}
  volumes:
  - {name: conf, configMap: {name: conf}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
  - {name: disk, emptyDir: {}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, "echo here > /part/x; echo again >> /data/f; mkdir /w; exec httpd -f -p 8080 -h /w"]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    volumeMounts:
    - {name: conf, mountPath: /conf}
    - {name: memory, mountPath: /memory}
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /conf/nested/disk}
    - {name: disk, mountPath: /part, subPath: a/b}
    - {name: data, mountPath: /data}
`;

await inNamespaces(import.meta.url, ["dockerd"], () => {
  let engine: ElsewhereEngine;
  let shim: ShimProcess;
  let directory = "";

  const play = (...argv: readonly string[]): Promise<Exit> =>
    runProgram(["play", `--endpoint=${shim.endpoint}`, "--fast", ...argv], { DOCKER_HOST: engine.endpoint });

  before(async () => {
    engine = new ElsewhereEngine();
    await engine.start();
    directory = await mkdtemp(join(tmpdir(), "dockershim-elsewhere-"));
    const { Architecture } = (await engine.json("GET", "/info")) as { readonly Architecture: string };
    for (const archive of [
      (await builtinPauseImage(Architecture)).archive,
      await testImageArchive({ reference: image, marker: "elsewhere" }),
    ])
      await engine.json("POST", "/images/load", archive);
    shim = await ShimProcess.start({ directory, dockerEndpoint: engine.endpoint });
  });
  after(async () => {
    await shim.kill();
    await engine.kill();
    await rm(directory, { recursive: true, force: true });
    await rm("/var/lib/dockershim", { recursive: true, force: true });
  });

  async function manifest(name: string, text: string): Promise<string> {
    const path = join(directory, `${name}.yaml`);
    await writeFile(path, text.replaceAll("IMAGE", image));
    return path;
  }

  async function up(path: string): Promise<Exit> {
    const exit = await play("--wait=60s", path);
    assert.equal(exit.code, 0, exit.stderr);
    return exit;
  }

  async function down(path: string): Promise<void> {
    const { code, stderr } = await play("--down", path);
    assert.equal(code, 0, stderr);
  }

  async function containers(): Promise<readonly string[]> {
    const list = (await engine.json("GET", "/containers/json?all=1")) as readonly {
      readonly Names: readonly string[];
    }[];
    return list.map(({ Names }) => Names[0] ?? "").sort();
  }

  /** The container of a pod, by name. */
  async function containerOf(pod: string, name = "main"): Promise<string> {
    const found = (await containers()).filter((one) => one.startsWith(`/k8s_${name}_${pod}_`));
    return (found.at(-1) ?? assert.fail(`no container ${name} of ${pod}`)).slice(1);
  }

  /** Output of a command in a container. */
  async function output(container: string, ...command: readonly string[]): Promise<string> {
    const { containers: listed } = await shim.cri.ListContainers({});
    const { Id } = (await engine.json("GET", `/containers/${container}/json`)) as { readonly Id: string };
    assert.ok(listed.some(({ id }) => id === Id));
    const answer = await shim.cri.ExecSync({ container_id: Id, cmd: command, timeout: "10" });
    return Buffer.from(answer.stdout).toString();
  }

  describe("on an engine elsewhere", () => {
    test("the engine sees no file of this host", async () => {
      const { info } = await shim.cri.Status({ verbose: true });
      const { jobs } = JSON.parse(info["reach"] ?? "{}") as {
        readonly jobs: Readonly<Record<string, { readonly reached: boolean }>>;
      };
      assert.equal(jobs["hostPaths"]?.reached, false);
    });

    describe("the manifests of the recorded kubelets", { concurrency: true }, () => {
      test("are ready, all together", async () => {
        const paths = readdirSync(golden)
          .filter((file) => !(basename(file, ".yaml") in neverReady) && file !== `${endsAtOnce}.yaml`)
          .filter((_, index) => long || index % 3 === 0)
          .map((file) => join(golden, file));
        const exit = await play("--wait=60s", ...paths);
        assert.equal((await play("--down", ...paths)).code, 0);
        assert.equal(exit.code, 0, exit.stderr);
      });

      for (const name of long ? [...Object.keys(neverReady), endsAtOnce] : ["command-missing"]) {
        const why = neverReady[name];
        test(`${name} ${why === undefined ? "ends" : "is not ready, for the reason of its own"}`, async () => {
          const path = join(golden, `${name}.yaml`);
          const exit = await play(why === undefined ? "--wait=60s" : "--wait=15s", path);
          await down(path);
          if (why === undefined) return;
          assert.equal(exit.code, 1);
          assert.match(exit.stderr, why);
        });
      }
    });

    test("nothing is left of them", async () => {
      assert.deepEqual(await containers(), []);
    });

    test("volumes, sub paths, names of Services and changed ConfigMaps", async () => {
      const path = await manifest("all", everything);
      await up(path);
      const main = await containerOf("all");
      const inspected = (await engine.json("GET", `/containers/${main}/json`)) as {
        readonly Mounts: readonly Mount[];
      };
      const hosts = inspected.Mounts.find(({ Destination }) => Destination === "/etc/hosts")?.Source ?? "";
      await assert.rejects(readFile(hosts), { code: "ENOENT" }); // It is no file of this host.
      assert.equal(await output(main, "cat", "/conf/text", "/disk/a/b/x"), "onehere\n");
      assert.match(await output(main, "cat", "/proc/mounts"), /^tmpfs \/memory tmpfs .*size=4096k/m);
      assert.match(await output(main, "stat", "-c", "%g %a", "/disk", "/data"), /^3000 2777\n3000 2777\n$/);
      await until("the name of the Service", async () =>
        /\tweb\t/.test(await output(main, "cat", "/etc/hosts")),
      );
      await writeFile(path, (await readFile(path, "utf8")).replace("text: one", "text: two"));
      await up(path);
      assert.equal(await containerOf("all"), main);
      assert.equal(await output(main, "cat", "/conf/text"), "two");
      await down(path);
      assert.deepEqual(await containers(), []);
    });

    test("a claim outlives its pod", async () => {
      const path = await manifest("all", everything);
      await up(path);
      assert.equal(await output(await containerOf("all"), "cat", "/data/f"), "again\nagain\n");
      await down(path);
      const { Volumes } = (await engine.json("GET", "/volumes")) as {
        readonly Volumes: readonly { readonly Name: string; readonly Labels: object | null }[];
      };
      const claim = Volumes.find(({ Name }) => Name === "dockershim-play-claim-default.data");
      assert.deepEqual(claim?.Labels, {
        "dockershim.play": "claim",
        "dockershim.play.claim": "default/data",
      });
    });

    test("an engine that vanishes is named, and the next application brings all right, also with private mounts", async () => {
      const path = await manifest("all", everything);
      const attached = CommandProcess.start(["play", `--endpoint=${shim.endpoint}`, "--fast", path], {
        DOCKER_HOST: engine.endpoint,
      });
      try {
        await attached.untilPrinted(/Created pod sandbox/);
        await engine.kill();
        const { code, stderr } = await play("--down", path);
        assert.equal(code, 1);
        assert.match(stderr, /docker\.sock/);
      } finally {
        await attached.end("SIGKILL");
      }
      // Docker shares the mount of its own data.
      await engine.start({ mounts: "private" });
      await up(path);
      const main = await containerOf("all");
      assert.match(await output(main, "cat", "/proc/mounts"), /^tmpfs \/memory tmpfs/m);
      assert.equal(await output(main, "cat", "/disk/a/b/x"), "here\n");
      await down(path);
      assert.deepEqual(await containers(), []);
      const volume = join(dirname(engine.socket), "data/volumes/dockershim-play/_data");
      assert.deepEqual(await readdir(volume), []);
      const records = await readdir("/var/lib/dockershim/play/engines.d", { recursive: true });
      assert.deepEqual(
        records.filter((path) => basename(path).length === 36),
        [],
      );
    });
  });
});
