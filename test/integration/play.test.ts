/** `dockershim play`, the program, against a shim with a real engine. */
import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  containersWithLabel,
  docker,
  dockerJson,
  inspectImage,
  loadImage,
  removeContainer,
  removeImage,
} from "../support/docker.js";
import {
  fetchOnEngineHost,
  isEngineElsewhere,
  needsEngineHost,
  onEngineHost,
} from "../support/engine-host.js";
import { CommandProcess, runProgram, type Exit, type ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

const demoImage = "dockershim.local/busybox:1";
const hello = fileURLToPath(new URL("../../examples/hello.yaml", import.meta.url));

describe("play", { skip: await reasonToSkip() }, () => {
  let bed: TestBed;
  let shim: ShimProcess;
  before(async () => {
    bed = await TestBed.open();
    shim = await bed.startShim();
    if ((await inspectImage(demoImage)) !== undefined) return;
    await loadImage(await testImageArchive({ reference: demoImage, marker: "demo" }));
    bed.onClose(() => removeImage(demoImage));
  });
  after(async () => {
    try {
      for (const path of open) await play("--down", path);
      // Containers of play's pods carry no label of the run, but its name.
      for (const name of ["hello", "order", "job", "good", "bad", "fine", "broken", "model", "volumes"]) {
        const left = await containersWithLabel(`io.kubernetes.pod.name=${name}-${bed.run}`);
        for (const id of left) await removeContainer(id);
      }
    } finally {
      await bed.close();
    }
  });

  /** Manifests whose pods, or files of pods, may be there. */
  const open = new Set<string>();
  async function play(...argv: readonly string[]): Promise<Exit> {
    const path = argv.at(-1) ?? "";
    open.add(path);
    const exit = await runProgram(["play", `--endpoint=${shim.endpoint}`, ...argv]);
    if (argv.includes("--down") && exit.code === 0) open.delete(path);
    return exit;
  }

  /** Where this process finds the files of play on the engine's host. */
  async function playVolume(): Promise<string> {
    const { Mountpoint } = (await dockerJson("GET", "/volumes/dockershim-play")) as {
      readonly Mountpoint: string;
    };
    return onEngineHost(Mountpoint);
  }

  /** The example with names and labels of this run, so that a user's `hello` is not touched. */
  async function manifest(text: string): Promise<string> {
    const path = join(await bed.newDirectory(), "pods.yaml");
    await writeFile(path, text.replaceAll("RUN", bed.run).replaceAll("IMAGE", bed.image));
    return path;
  }

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
    const { items } = await shim.cri.ListPodSandbox({});
    return items.filter(({ metadata }) => metadata?.name === name).length;
  }

  test("volumes: memory, fields, claims that outlive the pod, and subPaths beside a running container", async () => {
    const wait = "trap exit TERM; while :; do sleep 0.1; done";
    const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: volumes-RUN, labels: {app: a}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  securityContext: {fsGroup: 1234}
  volumes:
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: shared, emptyDir: {}}
  - {name: fields, downwardAPI: {items: [{path: a/labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: claim, persistentVolumeClaim: {claimName: data-RUN}}
  containers:
  - name: writer
    image: IMAGE
    command: [sh, -c, "${wait}"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: reader
    image: IMAGE
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    command:
    - sh
    - -c
    - |
      echo "$POD" > /sub/name
      cat /fields/a/labels && echo
      grep -c " /memory tmpfs " /proc/mounts
      stat -c %g /memory /claim
      touch /fields/x 2>/dev/null || echo read-only
      echo again >> /claim/count
      grep -c again /claim/count
      ${wait}
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: shared, mountPath: /sub, subPathExpr: "$(POD)/logs"}
    - {name: fields, mountPath: /fields}
    - {name: claim, mountPath: /claim}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-RUN}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`);
    const name = `volumes-${bed.run}`;
    const state = "/var/lib/dockershim/play";
    bed.onClose(() =>
      isEngineElsewhere
        ? docker("DELETE", `/volumes/dockershim-play-claim-default.data-${bed.run}?force=1`)
        : rm(join(state, "claims.d", "default", `data-${bed.run}`), { recursive: true }),
    );
    for (const count of ["1", "2"]) {
      const up = await play("--wait", path);
      assert.equal(up.code, 0, up.stderr);
      const { items } = await shim.cri.ListPodSandbox({});
      const uid = items.find(({ metadata }) => metadata?.name === name)?.metadata?.uid ?? "";
      const log = await until("the output", async () => {
        const text = await readFile(`/var/log/pods/default_${name}_${uid}/reader/0.log`, "utf8").catch(
          () => "",
        );
        return text.split("\n").length > 6 ? text : undefined;
      });
      const lines = log
        .trim()
        .split("\n")
        .map((line) => line.split(" ").slice(3).join(" "));
      assert.deepEqual(lines, ['app="a"', "1", "1234", "1234", "read-only", count]);
      const root = isEngineElsewhere ? await playVolume() : state;
      const shared = join(root, uid, "volumes", "empty-dir", "shared", name, "logs", "name");
      assert.equal(await readFile(shared, "utf8"), `${name}\n`);
      const down = await play("--down", path);
      assert.equal(down.code, 0, down.stderr);
      assert.equal((await readFile("/proc/self/mountinfo", "utf8")).includes(uid), false);
      await assert.rejects(readFile(shared), { code: "ENOENT" });
    }
  });

  test("examples/hello.yaml: a table, a web page on the pod's IP, no change when repeated, nothing after --down", async () => {
    const text = (await readFile(hello, "utf8"))
      .replace("name: hello\n", "name: hello-RUN\n")
      .replace("app: hello", `app: hello\n    ${runLabel}: "RUN"`);
    const path = await manifest(text);
    const name = `hello-${bed.run}`;
    const up = await play("--wait", path);
    assert.equal(up.code, 0, up.stderr);
    const [, state, ready, , ip, ports] = rows(up).get(`default/${name}`) ?? [];
    assert.deepEqual([state, ports, ready], ["Running", "8080/TCP", "1/1"]);
    const page = await until("the page", () =>
      fetchOnEngineHost(`http://${String(ip)}:8080/`, 10_000).catch(() => undefined),
    );
    assert.equal(page, "<h1>Hello from pod hello on the Docker Engine</h1>\n");
    assert.equal((await containersWithLabel(`${runLabel}=${bed.run}`)).length, 1); // The pod's labels are the sandbox's.

    const again = await play("--wait", path);
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr, new RegExp(`default/${name}: already running`));
    assert.deepEqual(
      rows(again).get(`default/${name}`)?.slice(0, 6),
      rows(up).get(`default/${name}`)?.slice(0, 6),
    );
    assert.equal(await sandboxes(name), 1);

    const down = await play("--down", path);
    assert.equal(down.code, 0, down.stderr);
    assert.equal(await sandboxes(name), 0);
    assert.deepEqual(await containersWithLabel(`io.kubernetes.pod.name=${name}`), []);
    const twice = await play("--down", path);
    assert.equal(twice.code, 0, twice.stderr);
  });

  test("several documents: init containers in order, one pod that runs on and one that succeeds, in one table", async () => {
    const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: order-RUN}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: IMAGE, command: [sh, -c, "echo 1 >> /data/log"], volumeMounts: [{name: data, mountPath: /data}]}
  - {name: second, image: IMAGE, command: [sh, -c, "echo 2 >> /data/log"], volumeMounts: [{name: data, mountPath: /data}]}
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, 'test "$(tr -d "\\n" < /data/log)" = 12 && exec sleep 1000']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: job-RUN, namespace: batch}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: IMAGE, command: [sh, -c, 'echo "done by $WHO"'], env: [{name: WHO, value: me}]}
`);
    const follow = play("--follow", path);
    // A play that takes over a pod in the middle of its start would start containers beside the first play.
    await until("the job to end, and the other pod to run", async () => {
      const { containers } = await shim.cri.ListContainers({});
      const hasState = (pod: string, state: number): boolean =>
        containers.some(
          ({ labels, metadata, ...container }) =>
            labels["io.kubernetes.pod.name"] === `${pod}-${bed.run}` &&
            metadata?.name === "main" &&
            container.state === state,
        );
      return hasState("job", 2) && hasState("order", 1);
    });
    const up = await play("--wait", path);
    const table = rows(up);
    assert.deepEqual(table.get(`default/order-${bed.run}`)?.[1], "Running", up.stderr);
    assert.deepEqual(table.get(`batch/job-${bed.run}`)?.[1], "Completed", up.stderr);
    const down = await play("--down", path);
    assert.equal(down.code, 0, down.stderr);
    // With its pods gone there is nothing left to follow.
    const { stdout } = await follow;
    assert.match(stdout, /done by me/);
    for (const name of [`order-${bed.run}`, `job-${bed.run}`]) {
      assert.deepEqual(await containersWithLabel(`io.kubernetes.pod.name=${name}`), []);
    }
  });

  test("an image volume: read-only, whole and by a sub path", async () => {
    const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: model-RUN}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, 'test -x /model/bin/sh && test -x /tools/sh && ! touch /model/x && exec sleep 1000']
    volumeMounts: [{name: model, mountPath: /model}, {name: model, mountPath: /tools, subPath: bin}]
  volumes: [{name: model, image: {reference: IMAGE, pullPolicy: Never}}]
`);
    const up = await play("--wait", path);
    assert.equal(up.code, 0, up.stderr);
    const { containers } = await shim.cri.ListContainers({
      filter: { label_selector: { "io.kubernetes.pod.name": `model-${bed.run}` } },
    });
    const id = containers[0]?.id ?? "";
    const { status } = await shim.cri.ContainerStatus({ container_id: id });
    const mounts = status?.mounts.filter(({ image }) => image !== null && image.image !== "");
    assert.deepEqual(
      mounts?.map((mount) => [mount.container_path, mount.image_sub_path, mount.readonly]),
      [
        ["/model", "", true],
        ["/tools", "bin", true],
      ],
    );
    await until("its checks to have passed", async () => {
      const ran = await shim.cri.ExecSync({
        container_id: id,
        cmd: ["sh", "-c", "grep -q ^sleep /proc/1/cmdline"],
      });
      return ran.exit_code === 0;
    });
    const down = await play("--down", path);
    assert.equal(down.code, 0, down.stderr);
  });

  test("fields that are not honoured are all listed, and nothing is started", async () => {
    const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: good-RUN}
spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad-RUN}
spec:
  restartPolicy: Never
  hostUsers: false
  containers:
  - name: main
    image: IMAGE
    volumeDevices: [{name: disk, devicePath: /dev/x}]
    imagePullPolici: Always
`);
    const exit = await play("--wait", path);
    assert.equal(exit.code, 1);
    for (const field of ["hostUsers", "volumeDevices", "imagePullPolici"]) {
      assert.match(exit.stderr, new RegExp(field));
    }
    assert.equal(await sandboxes(`good-${bed.run}`), 0);
    assert.equal(await sandboxes(`bad-${bed.run}`), 0);
  });

  test("a pod that cannot start is taken back, with those of the same run", async () => {
    const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: fine-RUN}
spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: main, image: IMAGE, command: [sleep, "1000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: broken-RUN}
spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE, command: [/no/such/program]}]}
`);
    const exit = await play("--wait", path);
    assert.equal(exit.code, 1, exit.stdout);
    assert.match(exit.stderr, /start container "main": .*no such file or directory/);
    for (const name of [`fine-${bed.run}`, `broken-${bed.run}`]) {
      assert.deepEqual(await containersWithLabel(`io.kubernetes.pod.name=${name}`), []);
    }
  });

  const ofNetworks = { skip: needsEngineHost("networkNamespaces") };

  test(
    "a hostPort on which a program of this host listens is refused before anything starts",
    ofNetworks,
    async () => {
      const server = createServer().listen(0);
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const path = await manifest(`
apiVersion: v1
kind: Pod
metadata: {name: bad-RUN}
spec: {containers: [{name: c, image: "IMAGE", ports: [{containerPort: 80, hostPort: ${port}}]}]}
`);
      try {
        const exit = await play("--wait=30s", path);
        assert.equal(exit.code, 1);
        assert.match(exit.stderr, new RegExp(`port ${port}/TCP of this host: a program listens on it`));
        assert.doesNotMatch(exit.stderr, /Created pod sandbox/);
      } finally {
        server.close();
      }
    },
  );

  test("an interrupt while --wait waits says that the pods stay, and how to go on", async () => {
    const path = await manifest(`
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
    open.add(path);
    const waiting = CommandProcess.start(["play", `--endpoint=${shim.endpoint}`, "--wait", path]);
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
    assert.equal((await play("--down", path)).code, 0);
  });

  test("without a server: one line that says so", async () => {
    const path = await manifest(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: x-RUN}\nspec: {containers: [{name: a, image: IMAGE}]}\n",
    );
    const exit = await runProgram(["play", `--endpoint=unix://${bed.directory}/absent.sock`, path]);
    assert.equal(exit.code, 1);
    assert.match(exit.stderr, /^dockershim play: [^\n]*absent\.sock[^\n]*\n$/);
  });
});
