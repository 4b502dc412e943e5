/** Invocations of cri-dockerd by installers, guides and tests of others, with this program in its place. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { calledName } from "../../../src/main/own-process.js";
import type { Config } from "../../../src/shim/config/resolve.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { actionCode, run } from "./command-line.js";

interface Expected {
  /** Of the configuration that is served. */
  readonly config?: Partial<Config>;
  /** Of the warnings, in order; none unless given. */
  readonly warnings?: readonly RegExp[];
  readonly exitCode?: number;
  readonly out?: string;
  readonly err?: string;
}

const criDockerdSocket = { kind: "unix", path: "/var/run/cri-dockerd.sock" } as const;
const inPlace = {
  containerRuntimeEndpoint: criDockerdSocket,
  stateDir: "/var/lib/cri-dockerd",
  networkPlugin: "cni",
  programName: "cri-dockerd",
} as const;
const own = {
  containerRuntimeEndpoint: { kind: "unix", path: "/var/run/dockershim.sock" },
  stateDir: "/var/lib/dockershim",
  networkPlugin: "auto",
  programName: "dockershim",
} as const;
const version = "cri-dockerd 0.4.3 (dockershim 1.2.3, abc)";
const ignored = (name: string): RegExp => new RegExp(`^flag "--${name}" is ignored: `);

const invocations: readonly (readonly [
  who: string,
  line: string,
  expected: Expected,
  environment?: Record<string, string>,
])[] = [
  ["its name alone, with its usual socket", "/usr/bin/cri-dockerd", { config: inPlace }],
  ["a name in another directory", "/usr/local/bin/cri-dockerd --log-level=info", { config: inPlace }],
  ["the own name", "/usr/bin/dockershim", { config: own }],
  [
    "cri-docker.service",
    "/usr/bin/cri-dockerd --container-runtime-endpoint fd://",
    { config: { ...inPlace, containerRuntimeEndpoint: { kind: "systemd" } } },
  ],
  [
    "kubespray's unit",
    "/usr/local/bin/cri-dockerd --container-runtime-endpoint unix:///var/run/cri-dockerd.sock --cni-conf-dir=/etc/cni/net.d --cni-bin-dir=/opt/cni/bin --network-plugin=cni --pod-infra-container-image=registry.k8s.io/pause:3.10 --log-level info",
    { config: inPlace },
  ],
  [
    "minikube's drop-in",
    "/usr/bin/cri-dockerd --container-runtime-endpoint fd:// --pod-infra-container-image=registry.k8s.io/pause:3.10.1 --network-plugin= --hairpin-mode=hairpin-veth",
    { config: { stateDir: "/var/lib/cri-dockerd", networkPlugin: "no-op" } },
  ],
  [
    "a variable beside the name",
    "cri-dockerd",
    { config: { ...inPlace, stateDir: "/srv/cri" } },
    { DOCKERSHIM_STATE_DIR: "/srv/cri" },
  ],
  ["kubekey: its version", "cri-dockerd --version", { exitCode: 0, out: `${version}\n` }],
  [
    "minikube: its version",
    "cri-dockerd --buildinfo",
    {
      exitCode: 0,
      out: `Program: cri-dockerd\nVersion: ${version.slice("cri-dockerd ".length)}\nGitCommit: abc\nGo version: none, Node.js ${process.version}\n`,
    },
  ],
  ["the own version", "dockershim --version", { exitCode: 0, out: "dockershim 1.2.3 (abc)\n" }],
  [
    "criproxy: a kubelet of 1.10 as dockershim alone",
    "dockershim --experimental-dockershim --address=127.0.0.1 --port 11250 --docker-disable-shared-pid=false --docker-exec-handler=native --seccomp-profile-root=/var/lib/kubelet/seccomp --docker=unix:///run/docker.sock --network-plugin-dir=/etc/cni/other",
    {
      config: { dockerEndpoint: { kind: "unix", path: "/run/docker.sock" }, cniConfDir: "/etc/cni/other" },
      warnings: [
        "experimental-dockershim",
        "address",
        "port",
        "docker-disable-shared-pid",
        "docker-exec-handler",
        "seccomp-profile-root",
      ].map(ignored),
    },
  ],
  [
    "guides that name Docker's directory",
    "cri-dockerd --network-plugin=cni --cri-dockerd-root-directory=/var/lib/docker",
    {
      config: { ...inPlace, stateDir: "/var/lib/docker/dockershim" },
      warnings: [/^"state-dir": "\/var\/lib\/docker" is Docker's own directory/],
    },
  ],
  [
    "no time for a pull",
    "cri-dockerd --image-pull-progress-deadline=0",
    {
      config: { imagePullProgressDeadlineMs: 60_000 },
      warnings: [/^"image-pull-progress-deadline": 0 is no time to pull in, 1m0s is used$/],
    },
  ],
  [
    "two slashes",
    "cri-dockerd --container-runtime-endpoint=unix://var/run/cri-dockerd.sock",
    {
      exitCode: 1,
      err: 'dockershim: flag "--container-runtime-endpoint": "unix://var/run/cri-dockerd.sock": the path of the socket must be absolute: did you mean "unix:///var/run/cri-dockerd.sock"?\n',
    },
  ],
];

describe("invocations of cri-dockerd", () => {
  for (const [who, line, expected, environment = {}] of invocations) {
    test(`${who}: ${line.slice(0, 80)}`, async () => {
      const [argv0 = "", ...argv] = line.split(" ");
      const given = [...calledName(argv0), ...argv];
      const { exitCode, out, err, acted } = await run(given, { environment });
      assert.deepEqual(
        { exitCode, out, err },
        { exitCode: expected.exitCode ?? actionCode, out: expected.out ?? "", err: expected.err ?? "" },
      );
      const { config = {}, warnings = [] } = acted.runServe ?? {};
      for (const [name, value] of Object.entries(expected.config ?? {}))
        assert.deepEqual((config as Record<string, unknown>)[name], value, name);
      const found = warnings.map((text) => expected.warnings?.findIndex((each) => each.test(text)));
      assert.deepEqual(found, [...(expected.warnings ?? []).keys()], warnings.join("\n"));
    });
  }

  test("the help shows the defaults of the name", async () => {
    assert.match(
      (await run("cri-dockerd --help")).out,
      /\(default:\s+unix:\/\/\/var\/run\/cri-dockerd\.sock\)/,
    );
    assert.match((await run("--help")).out, /\(default:\s+unix:\/\/\/var\/run\/dockershim\.sock\)/);
  });
});

describe("bin/dockershim", () => {
  /** Prints its arguments. */
  const program = "console.log(process.argv.slice(2).join())\n";

  test("says the name that a link to it has, and what to do where it was copied alone", async () => {
    await using at = await temporaryDirectory();
    const launcher = join(at.path, "opt", "bin", "dockershim");
    const copy = join(at.path, "usr", "bin", "cri-dockerd");
    for (const path of [launcher, copy]) {
      await mkdir(dirname(path), { recursive: true });
      await copyFile(join(repositoryRoot, "bin", "dockershim"), path);
    }
    await mkdir(join(at.path, "opt", "dist"));
    await writeFile(join(at.path, "opt", "dist", "launch.cjs"), program);
    for (const [name, expected] of [
      ["cri-dockerd", "cri-dockerd,--version\n"],
      ["docker-pod", "docker-cli-plugin,--version\n"],
      ["shim", "--version\n"],
    ] as const) {
      const link = join(at.path, name);
      await symlink(launcher, link);
      assert.equal((await promisify(execFile)(link, ["--version"])).stdout, expected, name);
    }
    const line = `dockershim: "${copy}" is a copy of bin/dockershim alone: make it a link to that file, or copy the executable of a release\n`;
    await assert.rejects(promisify(execFile)(copy, ["--version"]), { code: 1, stdout: "", stderr: line });
  });
});
