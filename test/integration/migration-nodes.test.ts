/**
 * Every migration command on nodes of every kind: who made their pods, and which network those have. The pods
 * are the recorded ones of dockershim and cri-dockerd, and those that this program makes of the same requests.
 */
import assert from "node:assert/strict";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import type { DiffReport } from "../../src/compare/diff/diff-report.js";
import { targets } from "../../src/migrate/kubelet/target.js";
import { startLegacyServer } from "../support/legacy-server.js";
import { shadowed } from "../support/ask-about-node.js";
import { assertChecked } from "../support/assert-checked.js";
import { rejectsWith } from "../support/cri-client.js";
import { dockerEndpoint } from "../support/docker.js";
import { intendedOf, unknownToReadOnly } from "../support/expected-of-nodes.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import {
  lastingOf,
  MigrationNode,
  type NodeKind,
  nodeKinds,
  type NodeNetwork,
  nodeNetworks,
  type NodeState,
} from "../support/migration-node.js";
import { requestsOf } from "../support/recorded-pods.js";
import { recordingText } from "../support/recording-text.js";
import { runProgram } from "../support/shim-process.js";
import { long, TestBed } from "../support/test-bed.js";

/** Without `--long` each maker of pods and each network; with it each kind of node with each network. */
const usualNetwork: Readonly<Partial<Record<NodeKind, NodeNetwork>>> = {
  dockershim: "kubenet",
  "cri-dockerd": "cni",
  mixed: "no-op",
};

await withOwnEngine(import.meta.url, [], () => {
  for (const kind of nodeKinds) {
    for (const network of nodeNetworks) {
      if (leftOut(kind, network) || (!long && network !== usualNetwork[kind])) continue;
      describe(`a node with pods of ${kind} and the network ${network}`, () => {
        const bed = TestBed.ofSuite();
        let made: MigrationNode | undefined;
        let node: MigrationNode;
        let state: NodeState;
        let stays: "all" | "all but records" | "nothing";

        beforeEach(async () => {
          node = made ??= await MigrationNode.make(bed, kind, network);
          stays = "all";
          state = await node.state();
        });
        afterEach(async () => {
          const now = await node.state();
          if (stays === "all") assert.deepEqual(now, state);
          if (stays === "all but records") assert.deepEqual(lastingOf(now), lastingOf(state));
        });

        test("check tells makers, networks and what each target does to each pod", async () => {
          await Promise.all(targets.map((target) => assertChecked(node, target)));
        });

        test("checkpoint lists, verifies, converts there and back, and repairs what was lost", async () => {
          const directories = [node.checkpoints("dockershim"), node.checkpoints("cri-dockerd")];
          const flags = directories.flatMap((directory) => ["--directory", directory]);
          const run = (subject: string, ...more: readonly string[]) =>
            runProgram(["checkpoint", subject, "--output=json", ...more]);
          const listed = await run("ls", ...flags);
          const { checkpoints } = JSON.parse(listed.stdout) as { checkpoints: Listed[] };
          const flavours = new Map(checkpoints.map(({ id, flavour }) => [id, flavour]));
          const flavourOf = { dockershim: "dockershim", "cri-dockerd": "criDockerd", ours: "dockershim" };
          assert.deepEqual(flavours, new Map(checkpoints.map(({ id }) => [id, flavourOf[makerOf(id)]])));
          assert.equal(checkpoints.length, node.pods.length);
          assert.equal((await run("verify", ...flags)).code, 0);

          const work = await bed.newDirectory();
          const there = join(work, "there");
          const again = join(work, "again");
          for (const [to, from, output] of [
            ["cri-dockerd", flags, there],
            ["dockershim", ["--directory", there], again],
          ] as const) {
            const { code, stderr } = await run("convert", "--to", to, ...from, "--output-directory", output);
            assert.equal(code, 0, stderr);
          }
          for (const { id, maker } of node.pods) {
            const found = await readFile(join(maker === "cri-dockerd" ? there : again, id), "utf8");
            assert.equal(found, await readFile(join(node.checkpoints(maker), id), "utf8"));
          }

          const copies = ["dockershim", "cri-dockerd"].map((name) => join(work, name, "sandbox"));
          for (const [index, copy] of copies.entries())
            await cp(directories[index] ?? "", copy, { recursive: true });
          for (const [number, { id, maker }] of node.pods.entries()) {
            const copy = join(copies[maker === "cri-dockerd" ? 1 : 0] ?? "", id);
            // Those of cri-dockerd are also in its usual place, so none is missing.
            if (number === 0 && maker !== "cri-dockerd") await rm(copy);
            else await writeFile(copy, "{");
          }
          const inCopies = copies.flatMap((directory) => ["--directory", directory]);
          assert.equal((await run("verify", ...inCopies)).code, 2);
          const repaired = await run("repair", ...inCopies, "--docker-endpoint", dockerEndpoint);
          assert.equal(repaired.code, 0, repaired.stderr);
          const after = await run("ls", ...inCopies);
          const { checkpoints: whole } = JSON.parse(after.stdout) as { checkpoints: Listed[] };
          const inOrder = (all: readonly Listed[]): readonly Listed[] =>
            all.map(({ id, flavour, hostNetwork }) => ({ id, flavour, hostNetwork })).sort(byId);
          assert.deepEqual(inOrder(whole), inOrder(checkpoints));
        });

        function makerOf(id: string): (typeof node.pods)[number]["maker"] {
          const pod = node.pods.find((one) => one.id === id);
          assert.ok(pod, `no pod ${id}`);
          return pod.maker;
        }

        test("a read-only server beside the runtime refuses changes, and differs from it as intended alone", async () => {
          await using readOnly = await node.serve("--read-only");
          const { cri } = readOnly;
          for (const { id, address, containers } of node.pods) {
            const { status } = await cri.PodSandboxStatus({ pod_sandbox_id: id });
            assert.deepEqual([status?.state, status?.network?.ip ?? ""], [0, address]);
            await rejectsWith(
              cri.StopPodSandbox({ pod_sandbox_id: id }),
              "FAILED_PRECONDITION",
              /only reads/,
            );
            for (const container_id of containers)
              await rejectsWith(cri.StopContainer({ container_id }), "FAILED_PRECONDITION", /only reads/);
          }
          const directory = await bed.newDirectory();
          await using primary = await startPrimary(directory);
          const { code, stdout, stderr } = await runProgram([
            ...["diff", primary.socket, readOnly.socket, "--output=json"],
          ]);
          assert.equal(stderr, "");
          const { differences, intended, asked, left } = JSON.parse(stdout) as DiffReport;
          assert.equal(asked.pods, node.pods.length);
          assert.equal(asked.containers, node.pods.flatMap(({ containers }) => containers).length);
          const isOwn = kind === "ours" || kind === "mixed";
          assert.deepEqual(
            differences.filter(({ field }) => !isOwn || !unknownToReadOnly.test(field)),
            [],
          );
          assert.equal(code, isOwn ? 2 : 0);
          assert.equal(left.kind, isOwn ? "dockershim" : kind === "dockershim" ? "kubelet-dockershim" : kind);
          // The build of a distribution is not in every version.
          const keys = intended.map(({ key }) => key).filter((key) => key !== "engine-build");
          assert.deepEqual(keys.sort(), isOwn ? [] : intendedOf(kind));

          const report = await shadowed(node, primary.socket, readOnly.socket, directory);
          for (const rpc of ["ListPodSandbox", "PodSandboxStatus", "ListContainers", "ContainerStatus"])
            assert.ok((report.rpcs[rpc]?.compared ?? 0) >= 1, rpc);
          assert.deepEqual(
            report.differences.filter(
              (one) => one.intended === undefined && (!isOwn || !unknownToReadOnly.test(one.field)),
            ),
            [],
          );
        });

        /** The recorded answers of dockershim or cri-dockerd, or a server of this program. */
        async function startPrimary(directory: string): Promise<AsyncDisposable & { socket: string }> {
          if (kind === "ours" || kind === "mixed") {
            stays = "all but records";
            return node.serve();
          }
          const socket = join(directory, "legacy.sock");
          return Object.assign(await startLegacyServer(socket, kind, node.pods), { socket });
        }

        // Rehearsed pods have the network of the rehearsal, whatever their node has.
        const rehearses = { skip: network !== "no-op" };
        test("the node's pods are rehearsed without a finding", rehearses, async () => {
          const file = join(await bed.newDirectory(), "recording");
          // Beside the pods that have the recorded host ports.
          const others = node.pods.map((pod) => ({ ...pod, number: pod.number + node.pods.length }));
          const logs = join(bed.directory, "rehearsed");
          await mkdir(logs, { recursive: true });
          await writeFile(file, recordingText(others.map((pod) => requestsOf(pod, { bed, logs }))));
          const as = kind === "cri-dockerd" ? kind : "dockershim";
          const flags = ["--docker-endpoint", dockerEndpoint, "--as", as, "--anyway", "-o", "json"];
          const { code, stdout, stderr } = await runProgram(["migrate", "rehearse", ...flags, file]);
          assert.equal(stderr, "");
          const verdict = JSON.parse(stdout) as Record<"findings" | "pods" | "containers" | "as", unknown>;
          assert.deepEqual(verdict.findings, []);
          assert.deepEqual(
            [verdict.pods, verdict.containers, verdict.as],
            [others.length, others.length, as],
          );
          assert.equal(code, 0);
        });

        test("all pods end by this program, which leaves nothing of them", async () => {
          stays = "nothing";
          await using shim = await node.serve();
          for (const { id } of node.pods) {
            await shim.cri.StopPodSandbox({ pod_sandbox_id: id });
            await shim.cri.RemovePodSandbox({ pod_sandbox_id: id });
          }
          const { containers, checkpoints, networks, rules } = lastingOf(await node.state());
          assert.deepEqual([containers, checkpoints], [[], []]);
          const left = [...networks, ...rules].filter((line) =>
            /[0-9a-f]{64}|\/10\.18[34]\.|KUBE-HP-|CNI-DN-/.test(line),
          );
          assert.deepEqual(left, []);
        });
      });
    }
  }
});

/**
 * Host ports never worked with the kubenet of cri-dockerd: iptables-restore refuses what it writes. The mixed node
 * has such a pod.
 */
function leftOut(kind: NodeKind, network: NodeNetwork): boolean {
  return kind === "cri-dockerd" && network === "kubenet";
}

interface Listed {
  readonly id: string;
  readonly flavour: string;
  readonly hostNetwork: boolean;
}

function byId(one: Listed, other: Listed): number {
  return one.id < other.id ? -1 : 1;
}
