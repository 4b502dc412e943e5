/** scripts/cluster with a kubelet that has no API server: static pods of an image that no registry has. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { after, before, describe, test } from "node:test";
import { findProgram } from "../../scripts/setup/install.mjs";
import { docker, dockerEndpoint, dockerJson } from "../support/docker.js";
import { reasonToSkipContainer, ServerContainer } from "../support/server-container.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const script = fileURLToPath(new URL("../../scripts/cluster", import.meta.url));
const kubelet = process.env["DOCKERSHIM_TEST_KUBELET"] ?? findProgram("kubelet");

async function reasonToSkipCluster(): Promise<string | false> {
  if (kubelet === undefined) return "no kubelet in DOCKERSHIM_TEST_KUBELET or in PATH";
  if (findProgram("docker") === undefined) return "the docker command is not installed";
  return await reasonToSkipContainer();
}

describe("a kubelet beside the server", { skip: await reasonToSkipCluster() }, () => {
  let bed: TestBed;
  let server: ServerContainer;
  let name = "";
  before(async () => {
    bed = await TestBed.open();
    name = `dockershim-test-cluster-${bed.run}`;
    server = await ServerContainer.prepare(bed.run);
    for (const each of ["manifests", "host", "kubelet"]) await mkdir(`${server.directory}/${each}`);
    await server.start();
  });
  after(async () => {
    try {
      await cluster("down").catch(() => undefined);
      await docker("DELETE", `/containers/${name}?force=1&v=1`);
    } finally {
      await server.remove();
      await bed.close();
    }
  });

  async function cluster(...words: readonly string[]): Promise<string> {
    const { stderr } = await promisify(execFile)(script, words, {
      env: {
        ...process.env,
        DOCKER_HOST: dockerEndpoint,
        DOCKERSHIM_CONTAINER: server.name,
        DOCKERSHIM_CLUSTER: name,
        DOCKERSHIM_CLUSTER_HOST_PATHS: `${server.directory}/host`,
        DOCKERSHIM_CLUSTER_KUBELET_ROOT: `${server.directory}/kubelet`,
      },
    });
    return stderr;
  }

  const podName = (): string => `cluster-${bed.run}-${hostname().toLowerCase()}`;

  const manifest = (): string => `
apiVersion: v1
kind: Pod
metadata: {name: cluster-${bed.run}, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: disk, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
    - {name: host, hostPath: {path: "${server.directory}/host", type: Directory}}
  containers:
    - name: web
      image: "${bed.image}"
      imagePullPolicy: Never
      command: [sh, -c, "mount | grep -q 'tmpfs on /memory' && echo page | tee /disk/index.html /below/kept && echo serving && exec httpd -f -p 8080 -h /disk"]
      volumeMounts:
        - {name: disk, mountPath: /disk}
        - {name: memory, mountPath: /memory}
        - {name: host, mountPath: /below, subPath: a/b}
      readinessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1}
      livenessProbe: {exec: {command: [test, -s, /below/kept]}, periodSeconds: 1}
`;

  async function containers(): Promise<readonly string[]> {
    const filters = encodeURIComponent(JSON.stringify({ label: [`io.kubernetes.pod.name=${podName()}`] }));
    const listed = (await dockerJson("GET", `/containers/json?all=1&filters=${filters}`)) as { Id: string }[];
    return listed.map(({ Id: id }) => id);
  }

  /** The pod's directory of logs, and the link to the log of its container. */
  async function logs(): Promise<readonly string[]> {
    const names = [...(await readdir("/var/log/pods")), ...(await readdir("/var/log/containers"))];
    return names.filter((each) => each.includes(podName()));
  }

  test("an image of the engine runs as a static pod, and down leaves nothing", async (t) => {
    await writeFile(`${server.directory}/manifests/pod.yaml`, manifest());
    const flags = ["--cgroups-per-qos=false", "--enforce-node-allocatable=", "--fail-cgroupv1=false"];
    const manifests = `${server.directory}/manifests`;
    await cluster("up", "--kubelet", kubelet ?? "", "--manifests", manifests, ...flags);
    try {
      await until("the pod is ready", async () => {
        const { said } = await server.run("pod", "ps");
        return new RegExp(`${podName()} +1/1 +Running`).test(said);
      });
    } catch (error) {
      const logs = await docker("GET", `/containers/${name}/logs?stderr=1&stdout=1&tail=20`);
      t.diagnostic(logs.body.toString());
      throw error;
    }
    // "Running" is the CRI's word: the command may be at its beginning.
    await until("the container serves", async () =>
      (await server.run("pod", "logs", podName())).said.includes("serving"),
    );
    assert.equal((await logs()).length, 2);
    assert.match((await server.run("pod", "exec", podName(), "--", "cat", "/disk/index.html")).said, /page/);
    await assert.rejects(cluster("up", "--kubelet", kubelet ?? "", "--manifests", manifests), /exists/);

    await cluster("down");
    assert.deepEqual(await containers(), []);
    assert.deepEqual(await logs(), []);
    assert.deepEqual(await readdir(`${server.directory}/kubelet`), []);
    assert.equal(await readFile(`${server.directory}/host/a/b/kept`, "utf8"), "page\n");
    assert.doesNotMatch(
      await readFile("/proc/self/mounts", "utf8"),
      new RegExp(`${server.directory}/kubelet/`),
    );
    assert.equal((await docker("GET", `/containers/${name}/json`)).status, 404);
  });
});
