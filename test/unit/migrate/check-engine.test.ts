import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { listenerOf } from "../../../src/migrate/node/listeners.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { ShimError } from "../../../src/lib/errors.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { judge } from "../../../src/migrate/judge/check-report.js";
import { factsOf } from "./plan-bed.js";
import { check, engineWith, idsOf, pod, web } from "./check-bed.js";
import { kubeadm130, makeNode, type NodeTree, ours } from "./nodes.js";

/** /proc of a node on which these processes hold a socket that listens at `path`. */
function listening(path: string, ...processes: readonly string[]): NodeTree {
  const tree: Record<string, NodeTree[string]> = {
    "/proc/net/unix": `Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000003 00000000 00000000 0001 03 8 ${path}\n0000000000000000: 00000002 00000000 00010000 0001 01 77 ${path}\n`,
    "/proc/1/ns/net": { linkTo: "net:[1]" },
    "/proc/self/ns/net": { linkTo: "net:[1]" },
  };
  for (const [index, name] of processes.entries()) {
    tree[`/proc/${index + 1}/comm`] = `${name}\n`;
    tree[`/proc/${index + 1}/fd/9`] = { linkTo: "socket:[77]" };
  }
  return tree;
}

describe("migrate check of engine and sockets", () => {
  test("an engine that only root may ask gets the advice to run the command as root", async (t) => {
    const error = new ShimError("unavailable", "connect EACCES /run/docker.sock");
    const engine = { ...engineWith([]), connect: () => Promise.reject(error) };
    assert.equal((await check(t, { engine })).findings[0]?.next, "run it as root");
  });

  test("another user than root learns that the node was not read whole", async (t) => {
    const root = makeNode(t, kubeadm130);
    const facts = await factsOf(root, "1.30.1");
    const asked = { program: "1.2.3", at: "2026-11-23T14:00:00Z" };
    for (const isRoot of [true, false])
      assert.equal(
        idsOf(judge({ ...facts, isRoot }, "dockershim", asked), "change").includes("not-root"),
        !isRoot,
      );
  });

  test("an engine that systemd would start is not asked", async (t) => {
    const asked: string[] = [];
    const connect = (): Promise<never> => {
      asked.push("connect");
      return Promise.reject(new ShimError("unavailable", "cannot connect"));
    };
    const engine = { ...engineWith([]), connect };
    const sleeping = { ...kubeadm130, ...listening("/run/docker.sock", "systemd") };
    const { findings } = await check(t, { tree: sleeping, engine });
    assert.deepEqual(asked, []);
    assert.match(findings[0]?.text ?? "", /asking it would make systemd start it/);
    assert.match(findings[0]?.next ?? "", /start it/);
    const running = { ...kubeadm130, ...listening("/run/docker.sock", "systemd", "dockerd") };
    await check(t, { tree: running, engine });
    await check(t, { tree: kubeadm130, engine });
    assert.equal(asked.length, 2);
  });

  test("a container whose inspect hangs is one finding, and the others are judged", async (t) => {
    const containers = [
      ...web,
      ...pod({ name: "stuck", id: "a2" }),
      snapshotOf({ id: idOf("b1"), name: "cache" }),
    ];
    const all = engineWith(containers);
    const engine: typeof all = {
      ...all,
      // Docker lists the names under which links know a container before its own.
      listContainers: async (filter, signal) => {
        const listed = await all.listContainers(filter, signal);
        return listed.map((one) => ({ ...one, names: ["k8s_main_other/stuck", ...one.names] }));
      },
      inspectContainer: (id, signal) =>
        id === idOf("a2")
          ? new Promise((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason as Error));
            })
          : all.inspectContainer(id, signal),
    };
    const report = await check(t, { engine, inspectMs: 20 });
    const found = report.findings.filter(({ id }) => id === "container-not-inspected");
    const rows = found.map(({ level, subject }) => [level, subject]);
    assert.deepEqual(rows, [["change", "container k8s_POD_stuck_ns_uid-stuck_0"]]);
    assert.match(found[0]?.text ?? "", /not finished after/);
    assert.match(found[0]?.next ?? "", /^docker inspect a2/);
    const seen = report.pods.map(({ name, state }) => [name, state]);
    assert.deepEqual(seen, [
      ["stuck", "running"],
      ["web", "running"],
    ]);
    assert.ok(!idsOf(report).includes("pod-without-sandbox"));
  });

  test("an engine of which no container answers does not answer", async (t) => {
    const containers = ["a1", "a2", "a3", "a4"].flatMap((id) => pod({ name: id, id }));
    const inspectContainer = (): Promise<never> => Promise.reject(new ShimError("timeout", "inspect hangs"));
    const report = await check(t, { engine: { ...engineWith(containers), inspectContainer } });
    assert.match(report.findings[0]?.text ?? "", /does not answer: inspect hangs/);
  });

  test("a kubelet's socket that is no socket is found", async (t) => {
    const tree = {
      ...ours,
      "/var/lib/kubelet/kubeadm-flags.env":
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/dockershim.sock"\n',
      "/run/dockershim.sock": "",
    };
    assert.ok(idsOf(await check(t, { tree }), "change").includes("socket-not-served"));
    assert.ok(!idsOf(await check(t, { tree: ours })).includes("socket-not-served"));
  });

  test("listenerOf() tells who holds a socket, and never connects to it", async (t) => {
    const path = "/run/cri.sock";
    const tree = listening(path, "systemd");
    const cases: readonly (readonly [NodeTree, string])[] = [
      [tree, "systemd"],
      [listening(path, "systemd", "cri-dockerd"), "program"],
      // systemd --user.
      [listening(path, "init", "systemd"), "program"],
      [listening("/run/other.sock", "containerd"), "none"],
      // /var/run is a link: the program was given the other name.
      [{ ...listening("/var/run/cri.sock", "containerd"), "/var/run": { linkTo: "/run" } }, "program"],
      // A network namespace of its own: its list does not have the host's sockets.
      [{ ...listening("/x", "a"), "/proc/self/ns/net": { linkTo: "net:[2]" } }, "unknown"],
      [{}, "unknown"],
    ];
    for (const [files, expected] of cases)
      assert.equal(await listenerOf(new NodeFiles(makeNode(t, files)), path), expected);
  });

  test("listenerOf() reads /proc of this machine", { skip: process.platform !== "linux" }, async (t) => {
    const path = join(await mkdtemp(join(tmpdir(), "dockershim-listener-")), "s");
    const connected: unknown[] = [];
    const server = createServer((socket) => connected.push(socket));
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const whileListening = await listenerOf(new NodeFiles("/"), path);
    await new Promise((resolve) => server.close(resolve));
    await rm(dirname(path), { recursive: true });
    assert.deepEqual([whileListening, connected.length], ["program", 0]);
    assert.notEqual(await listenerOf(new NodeFiles("/"), path), "program");
    t.diagnostic(whileListening);
  });
});
