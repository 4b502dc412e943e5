/** What a kubelet's cAdvisor is told of containers, in the order of its calls. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { status, type ServiceError } from "@grpc/grpc-js";
import { ContainerState } from "../../src/domain/cri.js";
import { normalizeReference } from "../../src/domain/image-reference.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { CadvisorClient, idOfCgroup } from "../support/cadvisor.js";
import { pidOfContainer, removeContainer } from "../support/docker.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import { makeLegacyPod } from "../support/legacy-pod.js";
import { residentBytes } from "../support/processes.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

interface Vector {
  readonly name: string;
  readonly dockershim: { readonly file: string };
  readonly criDockerd: { readonly file: string };
}

/** The name of the container's own cgroup, as the engine's driver made it; where /proc is that of this host. */
async function cgroupOf(id: string): Promise<string> {
  if (isEngineElsewhere) return `/kubepods/${id}`;
  const text = await readFile(`/proc/${await pidOfContainer(id)}/cgroup`, "utf8");
  const path = text
    .split("\n")
    .find((line) => line.includes(id))
    ?.split(":")
    .slice(2)
    .join(":");
  assert.ok(path !== undefined, `no cgroup of ${id} in ${text}`);
  return path;
}

describe("cAdvisor's calls", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  test("name sandboxes and containers of this program, of dockershim and of cri-dockerd, without an engine request", async () => {
    const directory = await bed.newDirectory();
    const proxy = await bed.startProxy();
    await using shim = await bed.startShim({ directory, dockerEndpoint: proxy.endpoint });
    await using own = await bed.runPod(shim.cri, {
      labels: { "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop" },
    });
    const image = (await inspectImageId()) ?? "";
    const ownContainer = await own.start({
      image: { image, user_specified_image: bed.image },
      labels: {
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.container.name": "main",
      },
      envs: [{ key: "PASSWORD", value: Buffer.from("secret") }],
    });
    const golden = new URL("../golden/checkpoint-vectors.json", import.meta.url);
    const { vectors } = JSON.parse(await readFile(fileURLToPath(golden), "utf8")) as { vectors: Vector[] };
    const vector = vectors.find(({ name }) => name === "one tcp mapping");
    assert.ok(vector);
    const legacy = await Promise.all(
      (["dockershim", "criDockerd"] as const).map(async (maker) => {
        const pod = await makeLegacyPod(bed);
        await writeFile(join(shim.stateDirectory, "sandbox", pod.sandbox), vector[maker].file, {
          mode: 0o600,
        });
        return pod;
      }),
    );
    const pods = [
      { sandbox: own.id, container: ownContainer, pod: "web", namespace: "shop", name: "main" },
      ...legacy.map((one) => ({ ...one, pod: one.name, namespace: "old-ns", name: "web" })),
    ];
    using client = new CadvisorClient(shim.cadvisorSocket);
    assert.match(await client.version(), /^\d+\.\d+\.\d+/);
    // Each event of containers that other programs made has an inspect; that of the start is the last.
    const state = { state: ContainerState.CONTAINER_RUNNING };
    for (const { container } of legacy)
      await until("the container to run in the list", async () => {
        const { containers } = await shim.cri.ListContainers({ filter: { id: container, state } });
        return containers.length === 1;
      });
    proxy.forget();
    for (const { sandbox, container, pod, namespace, name } of pods) {
      for (const [id, kind] of [
        [sandbox, "sandbox"],
        [container, "container"],
      ] as const) {
        const cgroup = await cgroupOf(id);
        assert.equal(idOfCgroup(cgroup), id);
        // As the systemd driver names them.
        for (const path of [cgroup, `/kubepods.slice/kubepods-pod1.slice/docker-${id}.scope`]) {
          const handled = await client.handle(path);
          assert.ok(handled, path);
          const { labels, image: imageName } = handled.container;
          assert.equal(handled.pid, await pidOfContainer(id));
          assert.equal(labels["io.kubernetes.pod.name"], pod);
          assert.equal(labels["io.kubernetes.pod.namespace"], namespace);
          assert.equal(labels["io.kubernetes.container.name"], kind === "sandbox" ? undefined : name);
          assert.equal(labels["io.cri-containerd.kind"], kind);
          assert.equal(imageName, normalizeReference(kind === "sandbox" ? builtinPauseReference : bed.image));
          assert.doesNotMatch(JSON.stringify(handled.container), /secret|PASSWORD/);
        }
      }
    }
    assert.deepEqual(proxy.calls, []);

    async function inspectImageId(): Promise<string | undefined> {
      return (await shim.cri.ImageStatus({ image: { image: bed.image } })).image?.id;
    }
  });

  test("find each new container in time, while it starts", async () => {
    const { shim } = bed;
    await using pod = await bed.runPod(shim.cri);
    using client = new CadvisorClient(shim.cadvisorSocket);
    for (let count = 0; count < 3; count += 1) {
      const id = await pod.create({ metadata: { name: `c${count}` } });
      // Before it has a process, cAdvisor sees nothing of it, but its calls may come at any moment from then on.
      const [handled] = await Promise.all([
        client.handle(`/kubepods/${id}`),
        shim.cri.StartContainer({ container_id: id }),
      ]);
      assert.equal(handled?.pid, await pidOfContainer(id));
    }
  });

  test("--read-only tells the names of another runtime's containers, to the same client also after a kill", async () => {
    const options = { directory: await bed.newDirectory(), flags: ["--read-only"] };
    const shim = await bed.startShim(options);
    const pod = await makeLegacyPod(bed);
    using client = new CadvisorClient(shim.cadvisorSocket);
    for (const id of [pod.sandbox, pod.container]) {
      const handled = await until("the container's name", () =>
        client.handle(`/kubepods/docker-${id}.scope`),
      );
      assert.equal(handled.container.labels["io.kubernetes.pod.name"], pod.name);
    }
    await shim.kill();
    await using _next = await bed.startShim(options);
    const { image } = await until("the next process", () =>
      client.container(pod.container).catch(() => undefined),
    );
    assert.equal(image, normalizeReference(bed.image));
    await removeContainer(pod.container);
    await until("the container to be gone", async () =>
      client.container(pod.container).then(
        () => false,
        (error: unknown) => (error as ServiceError).code === status.NOT_FOUND,
      ),
    );
  });

  test("thousands of unknown ids, garbage and another user change nothing for cAdvisor", async (t) => {
    const { shim } = bed;
    await using pod = await bed.runPod(shim.cri);
    const id = await pod.start();
    using client = new CadvisorClient(shim.cadvisorSocket);
    assert.ok(await client.handle(`/kubepods/${id}`));
    const before = await residentBytes(shim.pid);
    for (let round = 0; round < (long ? 100 : 20); round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          client.container(`${round}f${index}`.padStart(64, "0")).then(
            () => "found",
            (error: unknown) => (error as ServiceError).code,
          ),
        ),
      );
      assert.deepEqual([...new Set(answers)], [status.NOT_FOUND]);
    }
    for (const bytes of [
      Buffer.alloc(1 << 20, "GET / "),
      Buffer.alloc(4096, 0xff),
      Buffer.from("PRI * HTTP/2.0"),
    ]) {
      const socket = connect(shim.cadvisorSocket);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      // The server may hang up before all is written.
      socket.on("error", () => undefined);
      socket.resume().end(bytes);
      await closed;
    }
    const asNobody = spawn(
      process.execPath,
      [
        "-e",
        "require('net').connect(process.argv[1]).on('error', ({ code }) => console.log(code))",
        shim.cadvisorSocket,
      ],
      { uid: 65534, gid: 65534, stdio: ["ignore", "pipe", "inherit"] },
    );
    const [code] = (await once(asNobody.stdout, "data")) as [Buffer];
    assert.equal(code.toString().trim(), "EACCES");
    assert.ok(await client.handle(`/kubepods/${id}`));
    const grown = (await residentBytes(shim.pid)) - before;
    t.diagnostic(`resident memory grew by ${Math.round(grown / 1024)} KiB`);
    assert.ok(grown < 64 * 1024 * 1024, `resident memory grew by ${grown} bytes`);
    assert.doesNotMatch(shim.log, /"level":[56]0/);
  });
});
