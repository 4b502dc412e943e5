/** `dockershim migrate check` over pods of dockershim, cri-dockerd and this program, on a real engine. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { CheckReport } from "../../src/migrate/judge/check-report.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import {
  createContainer,
  docker,
  dockerEndpoint,
  startContainer,
  tlsEnvironment,
} from "../support/docker.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";

interface Golden {
  readonly name: string;
  readonly body: { readonly Labels: Record<string, string>; readonly HostConfig: Record<string, unknown> };
}
type Bodies = Record<"dockershim" | "cri-dockerd", Record<string, Golden>>;
interface Vectors {
  readonly vectors: readonly Record<"dockershim" | "criDockerd", { readonly file: string }>[];
}

const main = fileURLToPath(new URL("../../src/main/main.ts", import.meta.url));

async function golden<T>(name: string): Promise<T> {
  return JSON.parse(await readFile(new URL(`../golden/${name}`, import.meta.url), "utf8")) as T;
}

describe("dockershim migrate check", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let bodies: Bodies;
  let vector: Vectors["vectors"][number];
  before(async () => {
    bodies = await golden<Bodies>("create-bodies.json");
    const [first] = (await golden<Vectors>("checkpoint-vectors.json")).vectors;
    assert.ok(first);
    vector = first;
    // So that the image is there.
    await (await bed.runPod(bed.shim.cri))[Symbol.asyncDispose]();
  });

  /** A sandbox and a container from recorded bodies; answers the sandbox's id. */
  async function makePod(maker: keyof Bodies, name: string): Promise<string> {
    const recorded = bodies[maker]["sandbox: without linux and dns"];
    const inner = bodies[maker]["container: without linux"];
    assert.ok(recorded && inner);
    const kubelet = {
      [runLabel]: bed.run,
      ...{ "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "old" },
    };
    const sandbox = await createContainer(`k8s_POD_${name}_old_uid-${name}_0`, {
      ...recorded.body,
      ...{ Image: builtinPauseReference, Labels: { ...recorded.body.Labels, ...kubelet } },
      HostConfig: { ...recorded.body.HostConfig, OomScoreAdj: 0 },
    });
    await startContainer(sandbox);
    const container = await createContainer(`k8s_web_${name}_old_uid-${name}_0`, {
      ...inner.body,
      ...{ Image: bed.image, Entrypoint: ["sleep", "1000"] },
      Labels: {
        ...inner.body.Labels,
        ...kubelet,
        "io.kubernetes.container.name": "web",
        "io.kubernetes.sandbox.id": sandbox,
      },
      HostConfig: { ...inner.body.HostConfig, NetworkMode: `container:${sandbox}` },
    });
    await startContainer(container);
    return sandbox;
  }

  /** A root directory with the checkpoints and units of a node half migrated. */
  async function makeRoot(checkpoints: Record<string, string>): Promise<string> {
    const root = await bed.newDirectory();
    const files: Record<string, string> = {
      ...checkpoints,
      "etc/systemd/system/kubelet.service":
        "[Service]\nExecStart=/usr/bin/kubelet --container-runtime-endpoint=unix:///run/cri-dockerd.sock\n",
      "etc/systemd/system/cri-docker.service": "[Service]\nExecStart=/usr/bin/cri-dockerd\n",
    };
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(root, path, ".."), { recursive: true });
      await writeFile(join(root, path), text);
    }
    return root;
  }

  async function check(root: string, target: string): Promise<{ code: number; report: CheckReport }> {
    const flags = ["--root", root, "--docker-endpoint", dockerEndpoint, "--kubelet-version", "1.30.1"];
    const argv = ["--import", "tsx", main, "migrate", "check", "-o", "json", "--to", target, ...flags];
    return new Promise((resolve, reject) => {
      const env = { ...process.env, ...tlsEnvironment };
      execFile(process.execPath, argv, { maxBuffer: 64 * 1024 * 1024, env }, (error, stdout, stderr) => {
        if (stdout === "") reject(error ?? new Error(stderr));
        else
          resolve({
            code: error === null ? 0 : Number(error.code),
            report: JSON.parse(stdout) as CheckReport,
          });
      });
    });
  }

  /** Paths, sizes and times of everything below a directory. */
  async function snapshot(directory: string): Promise<readonly string[]> {
    const names = await readdir(directory, { recursive: true });
    const lines = await Promise.all(
      names.map(async (name) => {
        const { size, mtimeMs, mode } = await stat(join(directory, name));
        return `${name} ${size} ${mtimeMs} ${mode}`;
      }),
    );
    return lines.sort();
  }

  test("tells the makers apart, judges each target, and changes neither files nor engine", async () => {
    const names = { dockershim: bed.newName("ds"), criDockerd: bed.newName("cd") };
    const dockershim = await makePod("dockershim", names.dockershim);
    const criDockerd = await makePod("cri-dockerd", names.criDockerd);
    await using own = await bed.runPod(bed.shim.cri);
    const root = await makeRoot({
      [`var/lib/dockershim/sandbox/${dockershim}`]: vector.dockershim.file,
      [`var/lib/cri-dockerd/sandbox/${criDockerd}`]: vector.criDockerd.file,
    });
    const watched = [root, bed.shim.stateDirectory];
    const before = await Promise.all(watched.map(snapshot));
    const seconds = (): string => (Date.now() / 1000).toFixed(3);
    const since = seconds();

    const here = await check(root, "dockershim");
    const makers = new Map(here.report.pods.map((pod) => [pod.sandboxId, pod.maker]));
    assert.equal(makers.get(dockershim), "dockershim");
    assert.equal(makers.get(criDockerd), "cri-dockerd");
    assert.equal(makers.get(own.id), "this program");
    const verdicts = new Map(here.report.pods.map((pod) => [pod.sandboxId, pod.verdict]));
    assert.equal(verdicts.get(criDockerd), "adopted as it is");
    assert.equal(verdicts.get(own.id), "stays as it is");
    assert.equal(here.report.kubelet.runtime, "cri-dockerd");

    const away = await check(root, "containerd");
    assert.equal(away.code, 2);
    assert.equal(new Map(away.report.pods.map((pod) => [pod.sandboxId, pod.level])).get(own.id), "restart");
    // The containerd image store does not tell until Docker Engine 29, and the finding says so.
    assert.ok(
      away.report.findings.some(
        ({ id, subject, level }) =>
          id === "image-local" && (subject.includes(bed.image) || (subject === "node" && level === "note")),
      ),
    );

    const back = await check(root, "cri-dockerd");
    const ownBack = back.report.pods.find(({ sandboxId }) => sandboxId === own.id);
    assert.ok(ownBack?.findings.includes("way-back-label-keys"));

    assert.deepEqual(await Promise.all(watched.map(snapshot)), before);
    const filters = encodeURIComponent(JSON.stringify({ label: [`${runLabel}=${bed.run}`] }));
    const events = await docker("GET", `/events?since=${since}&until=${seconds()}&filters=${filters}`);
    assert.equal(events.body.toString(), "");
  });

  test("an engine that does not answer is a finding that names the socket", async () => {
    const root = await makeRoot({});
    const argv = ["--import", "tsx", main, "migrate", "check", "--root", root, "--kubelet-version", "1.30"];
    const { code, out } = await new Promise<{ code: unknown; out: string }>((resolve) => {
      execFile(process.execPath, argv, (error, stdout) => resolve({ code: error?.code, out: stdout }));
    });
    assert.equal(code, 2);
    assert.match(out.replaceAll(/\s+/g, ""), /engine-unreachable.*var\/run\/docker\.sock/);
  });
});
