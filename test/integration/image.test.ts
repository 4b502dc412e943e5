/** The program's image on a real engine: pods of `play` in its container, which is replaced. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { dockerJson } from "../support/docker.js";
import { reasonToSkipContainer, ServerContainer } from "../support/server-container.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

describe("the image", { skip: await reasonToSkipContainer() }, () => {
  let bed: TestBed;
  let server: ServerContainer;
  let directory = "";
  before(async () => {
    bed = await TestBed.open();
    server = await ServerContainer.prepare(bed.run);
    directory = server.directory;
  });
  after(async () => {
    try {
      await run("play", "--down", `${directory}/pod.yaml`).catch(() => undefined);
    } finally {
      await server.remove();
      await bed.close();
    }
  });

  const run = (...words: readonly string[]): ReturnType<ServerContainer["run"]> => server.run(...words);

  async function uid(): Promise<string> {
    const [id = ""] = Object.keys(await podContainers());
    const { Config: config } = (await dockerJson("GET", `/containers/${id}/json`)) as {
      Config: { Labels: Readonly<Record<string, string>> };
    };
    return config.Labels["io.kubernetes.pod.uid"] ?? "";
  }

  interface Listed {
    readonly Id: string;
    readonly Labels: Readonly<Record<string, string>>;
  }

  /** Containers of the pod, with when they were started. */
  async function podContainers(): Promise<Readonly<Record<string, string>>> {
    const filters = encodeURIComponent(
      JSON.stringify({ label: [`io.kubernetes.pod.name=image-${bed.run}`] }),
    );
    const listed = (await dockerJson("GET", `/containers/json?filters=${filters}`)) as Listed[];
    const started = listed.map(async ({ Id: id, Labels: labels }) => {
      const { State: state } = (await dockerJson("GET", `/containers/${id}/json`)) as {
        State: { StartedAt: string };
      };
      assert.equal(labels["com.docker.compose.project"], `default_image-${bed.run}`);
      return [id, state.StartedAt] as const;
    });
    return Object.fromEntries((await Promise.all(started)).sort());
  }

  const manifest = (): string => `
apiVersion: v1
kind: Pod
metadata: {name: image-${bed.run}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: disk, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
  containers:
    - name: web
      image: "${bed.image}"
      command: [sh, -c, "mount | grep -q 'tmpfs on /memory' && echo page > /disk/index.html && exec httpd -f -p 8080 -h /disk"]
      volumeMounts:
        - {name: disk, mountPath: /disk}
        - {name: disk, mountPath: /below, subPath: a/b}
        - {name: memory, mountPath: /memory}
      livenessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}
      readinessProbe: {exec: {command: [test, -d, /below]}, periodSeconds: 1}
`;

  test("its pods run on when it is replaced", async () => {
    await writeFile(`${directory}/pod.yaml`, manifest());
    await server.start();
    const played = await run("play", "--detach", "--wait=60s", `${directory}/pod.yaml`);
    assert.equal(played.code, 0, played.said);
    const before = await podContainers();
    assert.equal(Object.keys(before).length, 2);

    await server.kill();
    await server.start();
    assert.deepEqual(await podContainers(), before);
    // The supervisor is back: it restarts what ends.
    await dockerJson("POST", `/containers/k8s_web_image-${bed.run}_default_${await uid()}_0/kill`);
    await until("the container was restarted", async () => {
      const { said } = await run("pod", "ps");
      return said.includes(`image-${bed.run}`) && /1\/1\s+Running\s+1 /.test(said);
    });
    const down = await run("play", "--down", `${directory}/pod.yaml`);
    assert.equal(down.code, 0, down.said);
    assert.deepEqual(await podContainers(), {});
  });

  test("its own container is none of the CRI's", async () => {
    const { said } = await run("pod", "ps");
    assert.doesNotMatch(said, new RegExp(server.name));
  });
});
