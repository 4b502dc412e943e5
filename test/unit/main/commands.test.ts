/** What each command takes, as the options of its action, and what it refuses. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { actionCode, run } from "./command-line.js";

const pod = { namespace: "default", name: "web" };
const shopWeb = { namespace: "shop", name: "web" };

/** What `dockershim play a.yaml` asks for. */
const played = {
  ...{ files: ["a.yaml"], output: "table", replicas: [], endpoint: "/var/run/dockershim.sock" },
  ...{ waitMs: undefined, timeline: undefined, dockerEndpoint: undefined },
  ...{ follow: false, down: false, keep: false, fast: false, recursive: false, schedule: false },
  ...{ strict: false, localVolumes: false, detach: false, watch: false, supervise: false },
  ...{ dryRun: undefined, namespace: undefined, graceSeconds: undefined },
};
const recorded = {
  ...{ primary: "/a", listen: "/run/dockershim-record.sock", output: "x" },
  ...{ durationMs: undefined, limitBytes: 1024 ** 3, withOutput: false },
};
const checked = {
  ...{ to: "dockershim", output: "page", root: "/", endpoint: undefined, kubeletVersion: undefined },
};
const rehearsed = {
  ...{ recording: "file", networkPlugin: "auto", cniBinDirs: ["/opt/cni/bin", "/usr/lib/cni"] },
  ...{ anyway: false, format: "page" },
};
const parsed = { output: "json", root: "/r" };
const planned = {
  ...{ to: undefined, output: "page", root: "/", kubeletVersion: undefined, back: false, write: false },
  ...{ program: "/opt/dockershim/bin/dockershim", undo: undefined },
};
const replayed = { recording: "file", endpoint: "/a", fast: false, anyway: false, format: "page" };
const checkpointed = { directories: [], format: "page" };
const everyPod = { pods: [], namespace: undefined, labels: [] };
const onePod = { ...everyPod, pods: [pod] };
const inDefault = { ...everyPod, namespace: "default" };
const logged = {
  ...{ verb: "logs", selection: onePod, isOne: true, container: undefined, all: false, previous: false },
  ...{ follow: false, tail: undefined, sinceMs: undefined, sinceTime: undefined, limitBytes: undefined },
  ...{ timestamps: false, prefix: false, ignoreErrors: false },
};
const listed = { verb: "ps", selection: everyPod, output: "table", headers: true, watch: false };
const removed = { verb: "down", selection: onePod, graceSeconds: undefined };
const waited = { verb: "wait", selection: onePod, for: { what: "ready" }, timeoutMs: 30_000 };
const streams = { pod, container: undefined, stdin: false, tty: false };
const copied = { verb: "cp", pod, container: undefined, direction: "from", local: "./b", remote: "/tmp/a" };

const taken: readonly (readonly [line: string, action: string, options: unknown])[] = [
  ["play a.yaml", "runPlay", played],
  ["play a.yaml --follow b.yaml", "runPlay", { ...played, files: ["a.yaml", "b.yaml"], follow: true }],
  ["play --down --keep a.yaml", "runPlay", { ...played, down: true, keep: true }],
  ["play --wait a.yaml", "runPlay", { ...played, waitMs: 300_000 }],
  ["play --wait=90s a.yaml", "runPlay", { ...played, waitMs: 90_000 }],
  [
    "play --detach --fast -R --schedule --strict --local-volumes a.yaml",
    "runPlay",
    {
      ...played,
      detach: true,
      fast: true,
      recursive: true,
      schedule: true,
      strict: true,
      localVolumes: true,
    },
  ],
  [
    "play --watch -o json --timeline t.svg --replicas 3 --replicas web=2 a.yaml",
    "runPlay",
    { ...played, watch: true, output: "json", timeline: "t.svg", replicas: ["3", "web=2"] },
  ],
  [
    "play -f b.yaml --filename=c.yaml a.yaml",
    "runPlay",
    { ...played, files: ["b.yaml", "c.yaml", "a.yaml"] },
  ],
  ["play -n shop --dry-run a.yaml", "runPlay", { ...played, namespace: "shop", dryRun: "client" }],
  ["play --dry-run=server -n=shop a.yaml", "runPlay", { ...played, namespace: "shop", dryRun: "server" }],
  ["play --down --grace-period 5 a.yaml", "runPlay", { ...played, down: true, graceSeconds: 5 }],
  ["play --follow=true --strict=false --fast=1 a.yaml", "runPlay", { ...played, follow: true, fast: true }],
  ["play --follow --follow=false -d=true a.yaml", "runPlay", { ...played, detach: true }],
  [
    "pod down -f a.yaml -f b.yaml --grace-period=0 --endpoint /a.sock",
    "runPlay",
    { ...played, files: ["a.yaml", "b.yaml"], down: true, graceSeconds: 0, endpoint: "/a.sock" },
  ],
  ["play ls", "runPlayList", { endpoint: "/var/run/dockershim.sock", output: "table" }],
  ["play ls --endpoint /a.sock -o json", "runPlayList", { endpoint: "/a.sock", output: "json" }],
  ["play --endpoint /a.sock ls", "runPlayList", { endpoint: "/a.sock", output: "table" }],
  ["play ./ls", "runPlay", { ...played, files: ["./ls"] }],
  ["play --follow a.yaml ls", "runPlay", { ...played, files: ["a.yaml", "ls"], follow: true }],
  ["play --supervise", "runPlay", { ...played, files: [], supervise: true }],
  [
    "play --endpoint unix:///a.sock --docker-endpoint=tcp://h:2376 a.yaml",
    "runPlay",
    { ...played, endpoint: "/a.sock", dockerEndpoint: "tcp://h:2376" },
  ],

  ["diff /a unix:///b", "runDiff", { endpoints: ["/a", "unix:///b"], all: false, format: "page" }],
  [
    "diff /a /b --pod shop/web --all -o json",
    "runDiff",
    { endpoints: ["/a", "/b"], pod: shopWeb, all: true, format: "json" },
  ],

  ["record --primary unix:///a --output x", "runRecord", recorded],
  [
    "record --primary /a --output x --for 10m --max-size 5 --with-output --listen /b",
    "runRecord",
    { ...recorded, listen: "/b", durationMs: 600_000, limitBytes: 5 * 1024 ** 2, withOutput: true },
  ],
  ["replay --endpoint unix:///a file", "runReplay", replayed],
  [
    "replay --endpoint /a --fast --anyway -o json file",
    "runReplay",
    { ...replayed, fast: true, anyway: true, format: "json" },
  ],
  [
    "shadow --primary /a --endpoint /b --report /c",
    "runShadow",
    { primary: "/a", listen: "/run/dockershim-shadow.sock", endpoint: "/b", report: "/c" },
  ],
  ["shadow report /c", "runShowReport", "/c"],
  ["keep-link {}", "runKeepLink", "{}"],
  ["observe-calls {}", "runObserveCalls", "{}"],

  ["forward --listen unix:///a", "runForward", { container: "dockershim", listen: "/a" }],
  [
    "forward --listen unix:///a --container c --docker-endpoint tcp://h:1 --streaming-port 10010",
    "runForward",
    { container: "c", listen: "/a", dockerEndpoint: "tcp://h:1", streamingPort: 10010 },
  ],
  ["dial unix:///a", "runDial", "unix:///a"],

  ["migrate check", "runMigrateCheck", checked],
  [
    "migrate check --root /r --docker-endpoint unix:///b --kubelet-version v1.21.14-eks-ba74326 -o json --to containerd",
    "runMigrateCheck",
    {
      ...parsed,
      to: "containerd",
      kubeletVersion: "v1.21.14-eks-ba74326",
      endpoint: { kind: "unix", path: "/b" },
    },
  ],
  [
    "migrate plan --to cri-dockerd --back --root /r --kubelet-version 1.23.17 -o json --write --program /p",
    "runMigratePlan",
    {
      ...{ ...planned, ...parsed, to: "cri-dockerd", kubeletVersion: "1.23.17" },
      ...{ back: true, write: true, program: "/p" },
    },
  ],
  ["migrate plan --undo /d", "runMigratePlan", { ...planned, undo: "/d" }],
  ["migrate rehearse file", "runRehearse", rehearsed],
  [
    "migrate rehearse --as cri-dockerd --docker-endpoint unix:///d --cri-dockerd /c --anyway -o json file",
    "runRehearse",
    {
      ...{ ...rehearsed, as: "cri-dockerd", dockerEndpoint: "unix:///d", criDockerd: "/c" },
      ...{ anyway: true, format: "json" },
    },
  ],
  [
    "migrate rehearse --network-plugin cni --cni-conf-dir /n --cni-bin-dir /b,/c file",
    "runRehearse",
    { ...rehearsed, networkPlugin: "cni", cniConfDir: "/n", cniBinDirs: ["/b", "/c"] },
  ],

  [
    "checkpoint ls --directory /a --directory=/b --output json",
    "runCheckpoint",
    { task: { kind: "ls" }, directories: ["/a", "/b"], format: "json" },
  ],
  ["uninstall --dry-run", "runUninstall", { dryRun: true, root: "/" }],
  [
    "wipe --force --claims --state-dir=/a",
    "runWipe",
    {
      ...{ programName: "dockershim", flags: [{ name: "state-dir", text: "/a" }] },
      ...{ dryRun: false, force: true, claims: true },
    },
  ],
  ["checkpoint verify", "runCheckpoint", { ...checkpointed, task: { kind: "verify" } }],
  [
    "checkpoint convert --to cri-dockerd --output-directory /o --anyway",
    "runCheckpoint",
    { ...checkpointed, task: { kind: "convert", to: "cri-dockerd", output: "/o", anyway: true } },
  ],
  [
    "checkpoint repair --docker-endpoint unix:///d --dry-run --to dockershim",
    "runCheckpoint",
    {
      ...checkpointed,
      task: { kind: "repair", dryRun: true, anyway: false, to: "dockershim", dockerEndpoint: "unix:///d" },
    },
  ],
];

const podVerbs: readonly (readonly [line: string, request: unknown])[] = [
  ["ps", listed],
  ["ps -n shop -o json", { ...listed, selection: { ...everyPod, namespace: "shop" }, output: "json" }],
  ["ps --no-headers=true", { ...listed, headers: false }],
  ["ps --no-headers=false", listed],
  ["ps -aqw --no-headers", { ...listed, output: "name", headers: false, watch: true }],
  ["ps -A --watch=false -a=true", listed],
  [
    "ps web shop/web pod/web deploy/web statefulset.apps/db",
    {
      ...listed,
      selection: {
        ...everyPod,
        pods: [
          ...[pod, shopWeb, pod, { ...pod, kind: "Deployment" }],
          { namespace: "default", name: "db", kind: "StatefulSet" },
        ],
      },
    },
  ],
  [
    "ps -l app=web,tier!=db,new,!old",
    {
      ...listed,
      selection: {
        ...everyPod,
        labels: [
          { key: "app", values: ["web"], is: "in" },
          { key: "tier", values: ["db"], is: "notIn" },
          { key: "new", values: undefined, is: "in" },
          { key: "old", values: undefined, is: "notIn" },
        ],
      },
    },
  ],
  [
    "exec -it shop/web -c main -- sh -c x",
    { verb: "exec", pod: shopWeb, container: "main", command: ["sh", "-c", "x"], stdin: true, tty: true },
  ],
  ["exec web -- ls", { ...streams, verb: "exec", command: ["ls"] }],
  ["attach web -i", { ...streams, verb: "attach", stdin: true }],
  ["attach web -t", { ...streams, verb: "attach", tty: true }],
  [
    "port-forward web 8080:80 :81 --address localhost,::1,localhost",
    {
      ...{ verb: "port-forward", pod, addresses: ["127.0.0.1", "::1"] },
      pairs: [8080, 0].map((local, index) => ({ local, remote: 80 + index })),
    },
  ],
  [
    "port-forward web 80",
    { verb: "port-forward", pod, pairs: [{ local: 80, remote: 80 }], addresses: ["127.0.0.1"] },
  ],
  ["cp web:/tmp/a ./b", copied],
  [
    "cp b shop/web:a -c main",
    { verb: "cp", pod: shopWeb, container: "main", direction: "to", local: "b", remote: "a" },
  ],
  [
    "logs web side -fp --tail=5 --since 2m --timestamps --prefix",
    {
      ...{ ...logged, container: "side", previous: true, follow: true, tail: 5, sinceMs: 120_000 },
      ...{ timestamps: true, prefix: true },
    },
  ],
  ["logs web -c main --tail -1", { ...logged, container: "main" }],
  ["logs web --all-containers=true", { ...logged, all: true }],
  [
    "logs web --since-time 2026-01-31T10:00:00+01:00 --limit-bytes=9 --ignore-errors",
    { ...logged, sinceTime: Date.UTC(2026, 0, 31, 9), limitBytes: 9, ignoreErrors: true },
  ],
  [
    "logs deploy/web --all-pods",
    {
      ...{ ...logged, isOne: false, prefix: true },
      selection: { ...everyPod, pods: [{ ...pod, kind: "Deployment" }] },
    },
  ],
  [
    "logs -l app=web -f",
    {
      ...{ ...logged, isOne: false, tail: 10, follow: true },
      selection: { ...inDefault, labels: [{ key: "app", values: ["web"], is: "in" }] },
    },
  ],
  [
    "describe -n shop web",
    { verb: "describe", selection: { ...everyPod, pods: [shopWeb], namespace: "shop" } },
  ],
  ["describe", { verb: "describe", selection: everyPod }],
  ["events", { verb: "events", selection: everyPod, follow: false }],
  ["events web -f", { verb: "events", selection: onePod, follow: true }],
  ["events --watch", { verb: "events", selection: everyPod, follow: true }],
  [
    "top -n shop --sort-by=memory",
    {
      ...{ verb: "top", containers: false, sortBy: "memory" },
      selection: { ...everyPod, namespace: "shop" },
    },
  ],
  ["top web --containers", { verb: "top", selection: onePod, containers: true, sortBy: undefined }],
  ["wait web", waited],
  [
    "wait --all -A --for=delete --timeout=2m",
    { ...waited, selection: everyPod, for: { what: "delete" }, timeoutMs: 120_000 },
  ],
  ["wait web --for=condition=Ready=true", waited],
  ["wait pod web", waited],
  [
    "wait pods -l app=web",
    { ...waited, selection: { ...inDefault, labels: [{ key: "app", values: ["web"], is: "in" }] } },
  ],
  [
    "wait web --for=jsonpath={.status.phase}=Succeeded",
    { ...waited, for: { what: "phase", phase: "Succeeded" } },
  ],
  [
    "down web shop/db --grace-period=1",
    {
      ...removed,
      selection: { ...everyPod, pods: [pod, { namespace: "shop", name: "db" }] },
      graceSeconds: 1,
    },
  ],
  ["down --all", { ...removed, selection: inDefault }],
  ["down --all -A", { ...removed, selection: everyPod }],
];

describe("the command line takes", () => {
  for (const [line, action, options] of taken) {
    test(line, async () => {
      const { exitCode, err, acted } = await run(line);
      assert.deepEqual(
        { exitCode, err, acted },
        { exitCode: actionCode, err: "", acted: { [action]: options } },
      );
    });
  }
  for (const [line, request] of podVerbs) {
    test(`pod ${line}`, async () => {
      const [verb, ...rest] = line.split(" ");
      const { err, acted } = await run(["pod", verb ?? "", "--endpoint=/run/a.sock", ...rest]);
      assert.deepEqual({ err, acted }, { err: "", acted: { runPod: { request, endpoint: "/run/a.sock" } } });
    });
  }
  for (const [line, action] of [
    ["config", "runConfig"],
    ["serve", "runServe"],
  ] as const) {
    test(`the flags of the server with ${line}`, async () => {
      const { acted } = await run(`--state-dir=/a ${line} --v=4`);
      const options = acted[action] as { resolved?: object; check?: boolean };
      const { config } = (options.resolved ?? options) as { config: { stateDir: string; logLevel: string } };
      assert.deepEqual([config.stateDir, config.logLevel], ["/a", "debug"]);
      assert.equal(options.check, line.includes("--check") ? true : undefined);
    });
  }

  test("the parts and the flags of doctor, and all parts without one", async () => {
    const flags = [{ name: "state-dir", text: "/a" }];
    const rest = { flags, programName: "dockershim" };
    for (const [line, options] of [
      ["doctor --state-dir=/a", { parts: [], check: false, json: false, ...rest }],
      [
        "--state-dir=/a doctor network node --check --json",
        { parts: ["network", "node"], check: true, json: true, ...rest },
      ],
    ] as const)
      assert.deepEqual((await run(line)).acted, { runDoctor: options });
    assert.equal((await run("doctor --version")).out, "dockershim 1.2.3 (abc)\n");
  });

  test("what why is asked for, in which form, with the flags of the server", async () => {
    const flags = [{ name: "state-dir", text: "/a" }];
    for (const [line, form] of [
      ["why default/web --state-dir=/a", "text"],
      ["--state-dir=/a why --json default/web", "json"],
      ["why --state-dir=/a --svg default/web", "svg"],
    ] as const) {
      const options = { wanted: "default/web", form, flags, programName: "dockershim" };
      assert.deepEqual((await run(line)).acted, { runWhy: options });
    }
  });

  test("the socket of play and pod from the environment, and the flag before it", async () => {
    const environment = { DOCKERSHIM_CONTAINER_RUNTIME_ENDPOINT: "unix:///env.sock" };
    for (const [line, endpoint] of [
      ["play a.yaml", "/env.sock"],
      ["play a.yaml --endpoint /flag.sock", "/flag.sock"],
      ["pod ps", "/env.sock"],
    ] as const) {
      const { acted } = await run(line, { environment });
      const { runPlay, runPod } = acted as Record<string, { endpoint: string }>;
      assert.equal((runPlay ?? runPod)?.endpoint, endpoint);
    }
  });

  test("the engine of migrate check by its flag alone: the runtime's comes before DOCKER_HOST", async () => {
    const environment = { DOCKER_HOST: "unix:///run/a.sock" };
    for (const [line, path] of [
      ["migrate check", undefined],
      ["migrate check --docker-endpoint unix:///b.sock", "/b.sock"],
      ["migrate check --root /tmp", undefined],
    ] as const) {
      const { endpoint } = (await run(line, { environment })).acted.runMigrateCheck ?? {};
      assert.deepEqual(endpoint, path === undefined ? undefined : { kind: "unix", path });
    }
  });
});

describe("the command line refuses with one line", () => {
  for (const [line, reason] of [
    [
      "doctor nodes",
      'command "doctor": unknown part "nodes": did you mean "node"?; the parts are "server", "engine"',
    ],
    ["why", 'command "why": needs one name or id of a pod or container'],
    ["why a b", 'command "why": needs one name or id of a pod or container'],
    ["why a --json --svg", 'command "why": --json and --svg: use one'],
    ["doctor ulimits --check", '--check is for "network" alone'],
    ["play", 'command "play": needs at least one file'],
    ["play --folow x", 'unknown flag "--folow" of the command "play": did you mean "--follow"?'],
    ["play ls a.yaml", 'unexpected argument "a.yaml"'],
    ["play --detach ls", 'flag "--detach": has no meaning for the command "play ls"'],
    ["logs web", 'unexpected argument "logs": did you mean "dockershim pod logs"?'],
    ["get pods", 'unexpected argument "get": did you mean "dockershim pod ps"?'],
    ["get pods -n shop", 'unexpected argument "get": did you mean "dockershim pod ps"?'],
    ["apply -f a.yaml", 'unexpected argument "apply": use "dockershim play FILE"'],
    ["delete -f a.yaml", 'unexpected argument "delete": use "dockershim play --down FILE"'],
    ["play --scale web=3 x", "did you mean --replicas?"],
    ["play -k x", 'build the directory first: "kubectl kustomize DIR | dockershim play -"'],
    ["play --replace x", "play replaces what has changed by itself"],
    ["play --dry-run --wait x", "--dry-run and --wait exclude each other"],
    ["play --dry-run=all x", 'flag "--dry-run": "all": must be'],
    ["play -n A x", 'flag "--namespace": "A": must be'],
    ["play --grace-period 1 x", "--grace-period is for --down"],
    ["play --follow=perhaps x", 'flag "--follow": "perhaps": must be true or false'],
    ["play --wait 20s x", 'did you mean --wait=20s? (a file of this name is "./20s")'],
    ["play x --wait 1m30s", 'did you mean --wait=1m30s? (a file of this name is "./1m30s")'],
    ["play --wait=soon x", 'flag "--wait": "soon"'],
    ["play --endpoint=fd:// x", 'flag "--endpoint": "fd://": must be "unix:///path"\n'],
    ["pod ps --endpoint=a.sock", 'flag "--endpoint": "a.sock": must be "unix:///path"\n'],
    ["play --docker-endpoint=ftp://h x", 'flag "--docker-endpoint": "ftp://h": must be "unix:///path", "tcp'],
    ["--state-dir=/x play y", 'flag "--state-dir": has no meaning for the command "play"'],
    ["play --detach --watch x", "--detach and --watch exclude each other"],
    ["play --down --detach x", "--down and --detach exclude each other"],
    ["play --watch --wait x", "--watch and --wait exclude each other"],
    ["play --detach --follow x", "--detach and --follow exclude each other"],
    ["play --supervise x", "--supervise takes no files"],
    ["play --watch", "needs at least one file"],
    ["diff /a", 'command "diff": needs the endpoints of two CRI servers'],
    ["diff /a /b /c", "needs the endpoints of two CRI servers"],
    ["diff /a /b --pod web", 'flag "--pod": "web": must be NAMESPACE/NAME'],
    ["diff /a /b --pod a/b/c", "must be NAMESPACE/NAME"],
    ["diff /a /b --pod /b", "must be NAMESPACE/NAME"],
    ["diff /a /b --output yaml", "page, json"],
    ["--v=4 diff /a /b", 'has no meaning for the command "diff"'],
    ["record --output x", "--primary"],
    ["record --primary /a --output x y", 'unexpected argument "y"'],
    ["record --primary a --output x", 'flag "--primary": "a": must be an absolute path'],
    ["record --primary /a --output x --for 5", 'flag "--for": "5": needs a unit'],
    ["record --primary /a --output x --max-size 0", 'flag "--max-size": "0": must be 1 to'],
    ["record --primary /a --output x --max-size 1048577", "must be 1 to 1048576 MiB"],
    ["replay --endpoint /a", 'command "replay": needs a recording'],
    ["shadow --primary /a --endpoint /b", 'command "shadow": needs flag "--report"'],
    ["shadow report", 'command "shadow report": name one report'],
    ["shadow report /a /b", "name one report"],
    ["keep-link", 'command "keep-link": needs the paths'],
    ["forward --listen unix:///a --streaming-port 0", '"--streaming-port": "0": must be from 1 to 65535'],
    ["forward --listen unix:///a --streaming-port 65536", "must be from 1 to 65535"],
    ["forward --listen fd://", 'flag "--listen": "fd://": must be "unix:///path"\n'],
    ["forward --listen unix:///a x", 'unexpected argument "x"'],
    ["dial a b", 'command "dial": needs unix:///PATH or HOST:PORT'],
    ["migrate", 'no subject given; use "check", "plan" or "rehearse"'],
    ["migrate chekc", '"chekc"; use "check", "plan" or "rehearse"'],
    ["migrate check --to podman", 'flag "--to": "podman": must be'],
    ["migrate check now", 'unexpected argument "now"'],
    ["migrate check --kubelet-version new", 'flag "--kubelet-version": "new": must be a version'],
    ["migrate check --output yaml", 'flag "--output": "yaml": must be'],
    ["migrate plan --undo /d --write", 'flag "--undo": stands alone'],
    ["migrate plan --undo /d --back", 'flag "--undo": stands alone'],
    ["migrate plan --undo /d --to dockershim", 'flag "--undo": stands alone'],
    ["--v=4 migrate check", 'flag "--v": has no meaning for the command "migrate"'],
    ["migrate rehearse", "name one recording"],
    ["migrate rehearse one two", "name one recording"],
    ["migrate rehearse --as containerd file", "Allowed choices are dockershim, cri-dockerd"],
    ["--state-dir=/a migrate rehearse file", 'has no meaning for the command "migrate"'],
    ["install now", 'unexpected argument "now"'],
    ["install --prefix usr", 'flag "--prefix": "usr": must be'],
    ["uninstall --root .", 'flag "--root": ".": must be'],
    ["--v=4 install", '"--v": has no meaning for the command "install"'],
    ["wipe --read-only", "--read-only has no meaning for it; use --dry-run"],
    ["checkpoint", 'no subject given; use "ls"'],
    ["checkpoint eat", '"eat"; use "ls"'],
    ["checkpoint ls more", 'unexpected argument "more"'],
    ["checkpoint ls --output yaml", "Allowed choices are page, json"],
    ["checkpoint convert", "needs --to"],
    ["checkpoint convert --to containerd", "Allowed choices are dockershim, cri-dockerd"],
    ["checkpoint ls --dry-run", 'unknown flag "--dry-run"'],
    ["--state-dir=/a checkpoint ls", '"--state-dir": has no meaning for the command "checkpoint"'],
    ["pod", "no subject given; use ps"],
    ["pod frob", '"frob"; use ps'],
    ["pod play a.yaml", '"play": use "dockershim play FILE"; use ps|'],
    ["pod restart web", 'use "dockershim pod down NAME", and "dockershim play FILE" again'],
    ["pod -n shop ps", 'flags stand behind the command, as in "dockershim pod ps -n"'],
    ["pod get pods -n shop", 'command "pod": "get": did you mean "dockershim pod ps"?'],
    ["pod run web", '"run": use "dockershim play FILE"'],
    ["pod wait job/j --for=condition=complete", 'for Jobs: "dockershim play --wait FILE"'],
    ["pod ls", '"ls": did you mean "dockershim pod ps"?; use ps'],
    ["pod ps -w -o json", "--watch prints a table, or names"],
    ["pod ps web -A", 'pod "web": names exclude --selector, --all and -A'],
    ["pod ps -l app:web", 'labels "app:web": write KEY=VALUE'],
    ["pod logs web --since 1m --since-time 2026-01-31T10:00:00Z", "exclude each other"],
    ["pod logs web --since-time yesterday", 'flag "--since-time": "yesterday": must be a time as'],
    ["pod logs web --limit-bytes x", '"--limit-bytes"'],
    ["pod wait", "needs the name of one pod"],
    ["pod wait web --for=condition=Initialized", 'flag "--for": "condition=Initialized": must be'],
    ["pod down web -f a.yaml", "names, --selector, --all and -A exclude --filename"],
    ["pod down -A -f a.yaml", "names, --selector, --all and -A exclude --filename"],
    ["pod down --all -A -n shop", "--namespace and -A exclude each other"],
    ["pod down svc/web", "a Service owns no pods: name their workload, or use --selector"],
    ["pod logs web app -c side", "takes one container, or --all-containers"],
    ["pod logs web -c side --all-containers", "takes one container, or --all-containers"],
    ["pod port-forward web 80 --address=", 'flag "--address": "": must be IP addresses'],
    ["pod port-forward web 80 --address ::1,", 'flag "--address": "::1,": must be IP addresses'],
    ["pod down web --force", "did you mean --grace-period=0?"],
    ["pod exec -u 0 web -- id", "the command runs as the user of the container"],
    ["pod rm web", 'did you mean "dockershim pod down"'],
    ["pod log web", 'did you mean "dockershim pod logs"'],
    ["pod exec web", 'after "--", a command'],
    ["pod port-forward web", "needs a pod and a port"],
    ["pod logs", "needs the name of one pod"],
    ["pod logs a/b/c", "write NAME, NAMESPACE/NAME or KIND/NAME"],
    ["pod logs a b c", "takes a pod and a container"],
    ["pod logs shop/web -n other", "another namespace"],
    ["pod logs web --tail x", '"--tail"'],
    ["pod logs web --since x", 'flag "--since": "x"'],
    ["pod port-forward web 80:99999", "LOCAL:REMOTE"],
    ["pod attach", "needs the name of one pod"],
    ["pod down", "needs the name of a pod, --selector or --all"],
    ["pod cp a b", "POD:PATH"],
    ["pod cp a:b c:d", "POD:PATH"],
    ["pod cp a b:c d", "POD:PATH"],
    ["pod ps -o tree", "tree"],
    ["--v=4 pod ps", 'has no meaning for the command "pod ps"'],
    ["completion", 'command "completion": needs one of bash, zsh, fish'],
    ["completion tcsh", 'command "completion": needs one of bash, zsh, fish'],
    ["completion bash zsh", 'command "completion": needs one of bash, zsh, fish'],
    ["--v=4 version", 'has no meaning for the command "version"'],
  ] as const) {
    test(line, async () => {
      const { exitCode, out, err, acted } = await run(line);
      assert.deepEqual({ exitCode, out, acted }, { exitCode: 1, out: "", acted: {} });
      assert.ok(err.startsWith("dockershim: ") && err.includes(reason), err);
      assert.equal(err.indexOf("\n"), err.length - 1);
    });
  }
});

describe("the help", () => {
  const codesOf = async (command: string): Promise<readonly string[]> => {
    const { out, exitCode } = await run(`${command} --help`);
    assert.equal(exitCode, 0);
    const lines = out.slice(out.indexOf("Exit codes:\n")).split("\n");
    return lines.flatMap((line) => /^ {2}(\d) {2}\w/.exec(line)?.[1] ?? []);
  };
  const withFindings = "migrate check|migrate plan|migrate rehearse|diff|replay|shadow|checkpoint verify";
  for (const [commands, codes] of [
    [`${withFindings}|checkpoint repair`, ["0", "1", "2"]],
    ["record|checkpoint ls|checkpoint convert", ["0", "1"]],
  ] as const)
    for (const command of commands.split("|"))
      test(`of "${command}" lists its exit codes`, async () => {
        assert.deepEqual(await codesOf(command), codes);
      });

  test("of migrate plan names no target that has no plan", async () => {
    const { out } = await run("migrate plan --help");
    assert.match(out, /"dockershim-in-tree",\s+"cri-dockerd"\)/);
    assert.doesNotMatch(out, /containerd/);
  });

  test("does not list the processes beside a relay", async () => {
    const { out } = await run("--help");
    assert.match(out, /shadow/);
    assert.doesNotMatch(out, /observe-calls|keep-link|\bdial\b/);
  });
});

test("the processes beside a relay handle signals before their modules are loaded", async () => {
  for (const line of ["keep-link {}", "observe-calls {}"])
    assert.equal((await run(line)).handlesSignals, true, line);
});
