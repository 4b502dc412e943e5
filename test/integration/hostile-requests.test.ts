/**
 * Thousands of requests that are wrong somewhere, over every RPC of both versions, to the whole program with a real engine:
 * each is answered, none as a bug, and nothing is left of them. One seed determines all of them.
 */
import assert from "node:assert/strict";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { rejectsWith } from "../support/cri-client.js";
import { createContainer, dockerJson, inspectContainer, startContainer } from "../support/docker.js";
import { invent, mutate, type Words } from "../support/hostile/mutate.js";
import { rpcs, type Rpc } from "../support/hostile/protocol.js";
import { Random } from "../support/hostile/random.js";
import { RawClient, type RawAnswer } from "../support/hostile/raw-client.js";
import { seedOf, type Node } from "../support/hostile/seeds.js";
import { encode } from "../support/hostile/wire.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { ShimProcess } from "../support/shim-process.js";
import { long, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const requestCount = long ? 10_000 : 1_500;
const seed = Number(process.env["DOCKERSHIM_TEST_SEED"] ?? "20261121");
const ok: number = status.OK;
/** Requests under way at a time. */
const width = 8;
const timeoutMs = 30_000;
const streamPatienceMs = 50;
/** PullImage's own form of some errors, which kubelets compare by their beginning. */
const namedByTheCri = /^(RegistryUnavailable|SignatureValidationFailed): /;

await withOwnEngine(import.meta.url, [], () => {
  describe("hostile requests", () => {
    const bed = TestBed.ofSuite();
    let shim: ShimProcess;
    let directory: string;
    let node: Promise<Node> | undefined;
    const foreign = { container: "", name: "foreign", volume: "foreign-volume", network: "foreign-network" };

    before(async () => {
      foreign.container = await createContainer(foreign.name, {
        Image: bed.image,
        Cmd: ["sleep", "1000000"],
        HostConfig: { Binds: [`${foreign.volume}:/data`] },
      });
      await startContainer(foreign.container);
      await dockerJson("POST", "/networks/create", { Name: foreign.network });
      directory = await bed.newDirectory();
      await mkdir(join(directory, "logs"));
      shim = await bed.startShim();
    });

    test(`${String(requestCount)} requests of seed ${String(seed)}: all answered, none as a bug, nothing left`, async () => {
      // What a first round makes for good: connections to the engine, its pool of threads.
      await send(requestCount, requestCount + 100);
      await removeMade();
      const clean = await holdings();
      // Short calls keep up to 32 connections to the engine for the next ones.
      const filesAllowed = (await openFiles()) + 32;

      const violations = await send(0, requestCount);
      assert.equal(
        violations.length,
        0,
        `${String(violations.length)}:\n${violations.slice(0, 50).join("\n")}`,
      );
      await shim.cri.Version();

      await removeMade();
      await until("everything to be gone", async () => same(await holdings(), clean)).catch(() => undefined);
      assert.deepEqual(await holdings(), clean);
      await until("files to be closed", async () => (await openFiles()) <= filesAllowed);
      assert.doesNotMatch(shim.log, /failed by a bug|unhandled/i);
    });

    test("empty requests, bytes that are none, and none at all: INVALID_ARGUMENT where something must be there", async () => {
      using client = new RawClient(shim.socket);
      const send = (rpc: Rpc, bytes: Buffer, patienceMs: number): Promise<RawAnswer> =>
        rpc.isStream ? client.stream(rpc.path, bytes, patienceMs) : client.unary(rpc.path, bytes, timeoutMs);
      const unimplemented = /^(CheckpointPod|RestorePod)$/;
      // What needs nothing.
      const may =
        /^(Version|Status|RuntimeConfig|UpdateRuntimeConfig|List\w+|Stream\w+|GetContainerEvents|ImageFsInfo)$/;
      for (const rpc of rpcs) {
        const { code, details } = await send(rpc, Buffer.alloc(0), streamPatienceMs);
        const expected = unimplemented.test(rpc.name)
          ? status.UNIMPLEMENTED
          : may.test(rpc.name)
            ? status.OK
            : status.INVALID_ARGUMENT;
        assert.equal(code, expected, `${rpc.path}: ${details}`);
        if (code === status.INVALID_ARGUMENT)
          assert.match(details, /^[a-z_.]+: (is missing|must )/, rpc.path);
        for (const garbage of [Buffer.from([0x0a]), Buffer.alloc(64, 0xff), Buffer.from([0x0c, 0x0c])]) {
          const answer = await send(rpc, garbage, timeoutMs);
          assert.equal(answer.code, status.INVALID_ARGUMENT, `${rpc.path}: ${answer.details}`);
        }
        const fields = rpc.request.field.filter(({ type }) => type === "TYPE_STRING");
        for (const { name, number } of fields) {
          const answer = await send(
            rpc,
            encode([{ number, wire: 2, value: Buffer.from([0xc3, 0x28]) }]),
            timeoutMs,
          );
          assert.equal(answer.code, status.INVALID_ARGUMENT, rpc.path);
          assert.match(answer.details, new RegExp(`\\b${name}\\b.*: is not valid UTF-8$`), rpc.path);
        }
      }
    });

    test("a container of docker run is in no list, and no call reaches it", async () => {
      const { cri } = shim;
      const { containers } = await cri.ListContainers({});
      const { items } = await cri.ListPodSandbox({});
      assert.deepEqual(
        [...containers, ...items].filter(({ id }) => id === foreign.container),
        [],
      );
      for (const id of [
        foreign.container,
        foreign.container.slice(0, 12),
        foreign.name,
        `/${foreign.name}`,
      ]) {
        await cri.StopContainer({ container_id: id, timeout: "0" });
        await cri.RemoveContainer({ container_id: id });
        await cri.StopPodSandbox({ pod_sandbox_id: id });
        await cri.RemovePodSandbox({ pod_sandbox_id: id });
        await rejectsWith(cri.StartContainer({ container_id: id }), "NOT_FOUND");
        await rejectsWith(cri.ContainerStatus({ container_id: id }), "NOT_FOUND");
        await rejectsWith(cri.ContainerStats({ container_id: id }), "NOT_FOUND");
        await rejectsWith(cri.PodSandboxStatus({ pod_sandbox_id: id }), "NOT_FOUND");
        await rejectsWith(cri.ExecSync({ container_id: id, cmd: ["true"] }), "NOT_FOUND");
        await rejectsWith(cri.Exec({ container_id: id, cmd: ["true"], stdout: true }), "NOT_FOUND");
        await rejectsWith(cri.Attach({ container_id: id, stdout: true }), "NOT_FOUND");
        await rejectsWith(cri.PortForward({ pod_sandbox_id: id }), "NOT_FOUND");
        await rejectsWith(cri.ReopenContainerLog({ container_id: id }), "NOT_FOUND");
      }
      assert.equal((await inspectContainer(foreign.container))?.State.Running, true);
    });

    /** Requests `from` to `to`; answers what was wrong with which. */
    async function send(from: number, to: number): Promise<readonly string[]> {
      using client = new RawClient(shim.socket);
      const violations: string[] = [];
      let next = from;
      const worker = async (): Promise<void> => {
        while (next < to) {
          const index = next;
          next += 1;
          const whole = await wholeNode();
          const { rpc, bytes } = requestOf(index, whole);
          const answer = await (rpc.isStream
            ? client.stream(rpc.path, bytes, streamPatienceMs)
            : client.unary(rpc.path, bytes, timeoutMs));
          if (answer.code === ok && /^(Stop|Remove)/.test(rpc.name)) await checkNode(whole);
          const problem = problemOf(answer);
          if (problem === undefined) continue;
          const shown = bytes.toString("hex").slice(0, 2000);
          violations.push(`request ${String(index)}, ${rpc.version} ${rpc.name}: ${problem}\n  ${shown}`);
        }
      };
      await Promise.all(Array.from({ length: width }, worker));
      return violations;
    }

    /** A pod that is ready with a container that runs: requests may stop and remove them. */
    function wholeNode(): Promise<Node> {
      return (node ??= makeNode());
    }

    /** Forgets a node whose pod or container was stopped or removed. */
    async function checkNode({ sandboxId, containerId }: Node): Promise<void> {
      for (const id of [sandboxId, containerId]) {
        if ((await inspectContainer(id))?.State.Running === true) continue;
        if ((await node)?.containerId === containerId) node = undefined;
      }
    }

    async function makeNode(): Promise<Node> {
      // Not disposed of here: it is removed with what the requests make.
      const pod = await bed.runPod(shim.cri);
      const containerId = await pod.start();
      return {
        podConfig: () => bed.podConfig({ log_directory: join(directory, "logs") }),
        containerConfig: () => ({
          ...bed.containerConfig(),
          metadata: { name: bed.newName("c"), attempt: 0 },
          command: ["sleep"],
        }),
        ...{ sandboxId: pod.id, sandboxConfig: pod.config, containerId, image: bed.image, directory },
      };
    }

    function requestOf(index: number, whole: Node): { readonly rpc: Rpc; readonly bytes: Buffer } {
      const random = new Random(seed * 1_000_003 + index);
      // Those with the most fields have the most to be wrong.
      const rpc = random.chance(12)
        ? random.pick(rpcs.filter(({ name }) => /^(RunPodSandbox|CreateContainer)$/.test(name)))
        : random.pick(rpcs);
      const { sandboxId, containerId } = whole;
      const words: Words = {
        directory,
        names: [
          ...[sandboxId, containerId, containerId.slice(0, 12), sandboxId.slice(0, 6), "f".repeat(64)],
          ...[foreign.container, foreign.container.slice(0, 12), foreign.name, `/${foreign.name}`, bed.image],
        ],
      };
      const valid = seedOf(rpc.name, whole);
      const bytes =
        valid === undefined || random.chance(10)
          ? invent(rpc, words, random)
          : mutate(rpc, valid, words, random);
      return { rpc, bytes };
    }

    /** What the requests have made that were right after all goes as a kubelet would remove it. */
    async function removeMade(): Promise<void> {
      node = undefined;
      const { containers } = await shim.cri.ListContainers({});
      await inParallel(containers, ({ id }) => shim.cri.RemoveContainer({ container_id: id }));
      const { items } = await shim.cri.ListPodSandbox({});
      await inParallel(items, async ({ id }) => {
        await shim.cri.StopPodSandbox({ pod_sandbox_id: id });
        await shim.cri.RemovePodSandbox({ pod_sandbox_id: id });
      });
    }

    /**
     * Everything of the engine, of the state directory but the history, and of the test's own. Logs stay: they are the
     * kubelet's.
     */
    async function holdings(): Promise<readonly string[]> {
      const containers = (await dockerJson("GET", "/containers/json?all=1")) as {
        Id: string;
        State: string;
      }[];
      const { Volumes } = (await dockerJson("GET", "/volumes")) as { Volumes: { Name: string }[] | null };
      const networks = (await dockerJson("GET", "/networks")) as { Name: string }[];
      const images = (await dockerJson("GET", "/images/json")) as { Id: string; RepoTags: string[] }[];
      const state = await readdir(shim.stateDirectory, { recursive: true });
      const mountinfo = (await readFile("/proc/self/mountinfo", "utf8")).trim().split("\n");
      // The engine unmounts namespaces of containers of earlier files at its own time.
      const mounts = mountinfo.filter((line) => !line.includes("/docker/netns/"));
      return [
        ...containers.map(({ Id, State }) => `container ${Id} ${State}`),
        ...(Volumes ?? []).map(({ Name }) => `volume ${Name}`),
        ...networks.map(({ Name }) => `network ${Name}`),
        ...images.map(({ Id, RepoTags }) => `image ${Id} ${RepoTags.join()}`),
        ...state.filter((name) => !/^history(\/|$)/.test(name)).map((name) => `state ${name}`),
        ...mounts.map((line) => `mount ${line.split(" ")[4] ?? ""}`),
      ].sort();
    }

    async function openFiles(): Promise<number> {
      return (await readdir(`/proc/${String(shim.pid)}/fd`)).length;
    }
  });
});

/** `width` at a time. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const rest = [...items];
  const worker = async (): Promise<void> => {
    for (let item = rest.pop(); item !== undefined; item = rest.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** Codes that say that this program, or the engine, did not know what to do with the request; and none in time. */
const never: readonly number[] = [
  status.UNKNOWN,
  status.INTERNAL,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.UNAVAILABLE,
];
const unknown: number = status.UNKNOWN;
/**
 * An engine without all capabilities, as in a nested host, cannot run privileged containers; a host without CRIU makes no
 * checkpoints, which callers know by UNKNOWN and these words.
 */
const limitOfThisHost = /unable to apply caps: operation not permitted|CRIU binary not found/;

function problemOf({ code, details }: RawAnswer): string | undefined {
  if (Buffer.byteLength(details) > 4096) return `an error text of ${String(details.length)} characters`;
  if (!never.includes(code)) return undefined;
  if (code === unknown && (namedByTheCri.test(details) || limitOfThisHost.test(details))) return undefined;
  return `${status[code] ?? "an unknown code"} ${details.slice(0, 300)}`;
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
