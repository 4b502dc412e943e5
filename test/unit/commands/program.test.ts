import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { optionList } from "../../../src/shim/config/options.js";
import { ignoredFlags } from "../../../src/shim/config/other-flags.js";
import { run } from "./command-line.js";

/** Every flag of cri-dockerd 0.4.3 with a value that it accepts. */
const criDockerdFlags = [
  "--runtime-cgroups=/system.slice/docker.service",
  "--cri-dockerd-root-directory=/var/lib/cri-dockerd",
  "--pod-infra-container-image=registry.k8s.io/pause:3.10",
  "--docker-endpoint=unix:///var/run/docker.sock",
  "--image-pull-progress-deadline=1m0s",
  "--runtime-request-timeout=0s",
  "--streaming-bind-addr=0.0.0.0:10010",
  "--pod-cidr=10.244.0.0/24,fd00:10:244::/80",
  "--ipv6-dual-stack",
  "--network-plugin=cni",
  "--cni-conf-dir=/etc/cni/net.d",
  "--cni-bin-dir=/opt/cni/bin,/usr/libexec/cni",
  "--cni-cache-dir=/var/lib/cni/cache",
  "--network-plugin-mtu=0",
  "--hairpin-mode=promiscuous-bridge",
  "--container-runtime-endpoint=fd://",
  "--log-level=warning",
  "--version=false",
  "--buildinfo=false",
];

/** Every flag of the kubelet 1.20 that concerns dockershim, and those of klog. */
const kubeletFlags = [
  "--container-runtime=docker",
  "--container-runtime-endpoint=unix:///var/run/dockershim.sock",
  "--image-service-endpoint=unix:///var/run/dockershim.sock",
  "--docker-endpoint=unix:///var/run/docker.sock",
  "--pod-infra-container-image=k8s.gcr.io/pause:3.2",
  "--experimental-dockershim=false",
  "--experimental-dockershim-root-directory=/var/lib/dockershim",
  "--image-pull-progress-deadline=2m",
  "--runtime-request-timeout=15m0s",
  "--streaming-connection-idle-timeout=4h0m0s",
  "--redirect-container-streaming=false",
  "--runtime-cgroups=/systemd/system.slice",
  "--cgroup-driver=systemd",
  "--network-plugin=kubenet",
  "--cni-conf-dir=/etc/cni/net.d",
  "--cni-bin-dir=/opt/cni/bin",
  "--cni-cache-dir=/var/lib/cni/cache",
  "--network-plugin-mtu=1460",
  "--hairpin-mode=hairpin-veth",
  "--non-masquerade-cidr=0.0.0.0/0",
  "--pod-cidr=10.1.0.0/24",
  "--v=2",
  "--logtostderr=true",
  "--alsologtostderr",
  "--stderrthreshold=2",
  "--log-dir=/var/log",
  "--log-file=/var/log/kubelet.log",
  "--log-file-max-size=1800",
  "--log-flush-frequency=5s",
  "--log-backtrace-at=:0",
  "--logging-format=text",
  "--vmodule=a=1",
  "--one-output",
  "--skip-headers",
  "--skip-log-headers",
  "--add-dir-header",
];

describe("runCommandLine() unit files", () => {
  test("accepts all flags of cri-dockerd at once, without a warning", async () => {
    const { exitCode, err, served } = await run(criDockerdFlags);
    assert.deepEqual([exitCode, err], [0, ""]);
    assert.deepEqual(served?.warnings, []);
    assert.equal(served.config.stateDir, "/var/lib/cri-dockerd");
    assert.deepEqual(served.config.containerRuntimeEndpoint, { kind: "systemd" });
    assert.equal(served.config.runtimeRequestTimeoutMs, 119_000);
    assert.equal(served.config.logLevel, "warn");
  });

  test("accepts all flags of the kubelet at once, with a warning for each ignored one", async () => {
    const { exitCode, err, served } = await run(kubeletFlags);
    assert.deepEqual([exitCode, err], [0, ""]);
    assert.equal(served?.warnings.length, ignoredFlags.length);
    assert.equal(served.config.cgroupDriver, "systemd");
    assert.equal(served.config.networkPlugin, "kubenet");
    assert.equal(served.config.runtimeRequestTimeoutMs, 900_000);
  });

  test("accepts the defaults of cri-dockerd and dockershim in the table as values", () => {
    for (const [, { criDockerdDefault, kubeletDefault, kind, name }] of optionList) {
      for (const text of [criDockerdDefault, kubeletDefault]) {
        // "0s (1m59s)" and "(all addresses)" explain rather than quote.
        if (text !== undefined && !text.includes("(")) assert.doesNotThrow(() => kind.parse(text), name);
      }
    }
  });
});

describe("runCommandLine() spellings", () => {
  const cases: [string, string, unknown][] = [
    ["a value after a space", "--state-dir /a", "/a"],
    ["a value after =", "--state-dir=/a", "/a"],
    ["a value with =", "--state-dir=/a=b", "/a=b"],
    ["underscores, as the kubelet", "--state_dir=/a", "/a"],
    ["flags after the command", "serve --state-dir /a", "/a"],
    ["flags before the command", "--state-dir /a serve", "/a"],
    ["the last of a repeated flag", "--state-dir /a serve --state-dir=/b", "/b"],
  ];
  for (const [name, line, expected] of cases) {
    test(`reads ${name}`, async () => {
      assert.equal((await run(line)).served?.config.stateDir, expected);
    });
  }

  for (const line of ["-v=4", "-v4", "-v 4", "--v=4", "--v 4"]) {
    test(`reads ${line}`, async () => {
      assert.equal((await run(line)).served?.config.logLevel, "debug");
    });
  }

  const switches: [string, boolean][] = [
    ["--ipv6-dual-stack", true],
    ["--ipv6-dual-stack=true", true],
    ["--ipv6-dual-stack=false", false],
    ["--ipv6-dual-stack=f", false],
    ["--ipv6-dual-stack --state-dir=/a", true],
  ];
  for (const [line, expected] of switches) {
    test(`reads ${line} as ${expected}`, async () => {
      assert.equal((await run(line)).served?.config.ipv6DualStack, expected);
    });
  }

  test("does not take the next argument as the value of a switch, as Go does not", async () => {
    const { exitCode, err } = await run("--ipv6-dual-stack false");
    assert.deepEqual([exitCode, err], [1, 'dockershim: unexpected argument "false"\n']);
  });

  test("takes the next argument as the value of a flag, even with dashes", async () => {
    const { err } = await run("--state-dir --ipv6-dual-stack");
    assert.match(err, /flag "--state-dir": "--ipv6-dual-stack": must be an absolute path/);
  });

  test("passes an empty value on", async () => {
    assert.equal((await run("--network-plugin=")).served?.config.networkPlugin, "no-op");
    assert.equal((await run(["--network-plugin", ""])).served?.config.networkPlugin, "no-op");
  });

  test("accepts --no-setup without a warning", async () => {
    assert.deepEqual((await run("--no-setup")).served?.warnings, []);
  });
});

describe("runCommandLine() refusals, one line and exit code 1", () => {
  const cases: [string, string][] = [
    ["--hepl", 'unknown flag "--hepl": did you mean "--help"?'],
    ["--network-plug=cni", 'unknown flag "--network-plug": did you mean "--network-plugin"?'],
    ["--netwrok_plugin cni", 'unknown flag "--netwrok_plugin": did you mean "--network-plugin"?'],
    ["-network-plugin=cni", 'unknown flag "-network-plugin": did you mean "--network-plugin"?'],
    ["--zzzzzzzzzzzzzzz", 'unknown flag "--zzzzzzzzzzzzzzz"'],
    ["-x", 'unknown flag "-x"'],
    ["--state-dir", 'flag "--state-dir": needs a value'],
    ["-v", 'flag "--v": needs a value'],
    ["--v=high", 'flag "--v": "high": is not a whole number'],
    ["--version=maybe", 'flag "--version": "maybe": must be true or false'],
    ["--ipv6-dual-stack=2", 'flag "--ipv6-dual-stack": "2": must be true or false'],
    ["confg", 'unexpected argument "confg": did you mean the command "config"?'],
    ["serve now", 'unexpected argument "now"'],
    ["config /etc/x.yaml", 'unexpected argument "/etc/x.yaml"'],
    ["-- --state-dir=/a", 'unexpected argument "--state-dir=/a"'],
    ["config --output=xml", 'flag "--output": "xml": must be "table", "yaml" or "json"'],
    ["config --outptu=json", 'unknown flag "--outptu" of the command "config": did you mean "--output"?'],
    ["play", 'command "play": needs at least one file'],
    ["play --folow x", 'unknown flag "--folow" of the command "play": did you mean "--follow"?'],
    [
      "play -f x",
      'unknown flag "-f" of the command "play": files are arguments: "dockershim play FILE"; logs: --follow',
    ],
    [
      "play --wait 20s x",
      'flag "--wait": "20s" is no file: did you mean --wait=20s? (a file of this name is "./20s")',
    ],
    [
      "play x --wait 1m30s",
      'flag "--wait": "1m30s" is no file: did you mean --wait=1m30s? (a file of this name is "./1m30s")',
    ],
    ["play --endpoint=fd:// x", 'flag "--endpoint": "fd://": names no socket to connect to'],
    [
      "play --docker-endpoint=ftp://h x",
      'flag "--docker-endpoint": "ftp://h": must be "unix:///path", "tcp://host:port" or "ssh://user@host"',
    ],
    ["play --endpoint=tcp://h x", 'flag "--endpoint": "tcp://h": must be "unix:///path" or "fd://"'],
    ["--state-dir=/x play y", 'flag "--state-dir": has no meaning for the command "play"'],
    ["version 2", 'unexpected argument "2"'],
    ["help", 'unexpected argument "help"'],
    [
      "--docker-endpoint=fd://x",
      'flag "--docker-endpoint": "fd://x": must be "unix:///path", "tcp://host:port" or "ssh://user@host"',
    ],
    [
      "--container-runtime-endpoint=run/x.sock",
      'flag "--container-runtime-endpoint": "run/x.sock": must be "unix:///path" or "fd://"',
    ],
    ["--config=/nowhere", 'config file "/nowhere": cannot be read: no file /nowhere'],
  ];
  for (const [line, message] of cases) {
    test(line, async () => {
      const { exitCode, out, err, served, played } = await run(line);
      assert.deepEqual({ exitCode, out, err }, { exitCode: 1, out: "", err: `dockershim: ${message}\n` });
      assert.deepEqual([served, played], [undefined, undefined]);
    });
  }
});

describe("runCommandLine() commands", () => {
  test("--version prints the version, also when the configuration is bad", async () => {
    const { exitCode, out, served } = await run("--version --state-dir=bad");
    assert.deepEqual([exitCode, out, served], [0, "dockershim 1.2.3 (abc)\n", undefined]);
  });

  test("version prints the same as --version", async () => {
    assert.equal((await run("version")).out, (await run("--version")).out);
  });

  test("--buildinfo prints version, commit and Node.js version", async () => {
    const { out } = await run("--buildinfo");
    assert.match(
      out,
      /^Program: dockershim\nVersion: 1\.2\.3\nGitCommit: abc\nNode\.js version: v\d+\..*\n$/,
    );
  });

  for (const line of ["--help", "-h", "--state-dir=bad --help"]) {
    test(`${line} lists flags and commands and ends with 0`, async () => {
      const { exitCode, out, err, served } = await run(line);
      assert.deepEqual([exitCode, err, served], [0, "", undefined]);
      for (const [, { name }] of optionList) assert.match(out, new RegExp(`--${name} [<[]`));
      for (const command of ["serve", "config", "play", "version"])
        assert.match(out, new RegExp(`^ {2}${command} `, "m"));
      assert.doesNotMatch(out, /logtostderr/);
    });
  }

  test("play gets files, switches and the default socket", async () => {
    const { exitCode, played } = await run("play a.yaml --follow b.yaml");
    assert.equal(exitCode, 7);
    assert.deepEqual(played, {
      files: ["a.yaml", "b.yaml"],
      follow: true,
      down: false,
      keep: false,
      waitMs: undefined,
      fast: false,
      output: "table",
      timeline: undefined,
      recursive: false,
      replicas: [],
      schedule: false,
      strict: false,
      localVolumes: false,
      detach: false,
      watch: false,
      supervise: false,
      endpoint: { kind: "unix", path: "/var/run/dockershim.sock" },
      dockerEndpoint: undefined,
    });
  });

  test("play gets the endpoint of an engine elsewhere", async () => {
    const { played } = await run("play --docker-endpoint=tcp://h:2376 a.yaml");
    assert.equal(played?.dockerEndpoint, "tcp://h:2376");
  });

  test("play waits five minutes, or as long as --wait says", async () => {
    assert.equal((await run("play --wait a.yaml")).played?.waitMs, 300_000);
    assert.deepEqual((await run("play --wait a.yaml")).played?.files, ["a.yaml"]);
    assert.equal((await run("play --wait=90s a.yaml")).played?.waitMs, 90_000);
    const { exitCode, err } = await run("play --wait=soon a.yaml");
    assert.equal(exitCode, 1);
    assert.match(err, /flag "--wait": "soon"/);
  });

  for (const [words, reason] of [
    ["--detach --watch a.yaml", "--detach and --watch exclude each other"],
    ["--down --detach a.yaml", "--down and --detach exclude each other"],
    ["--watch --wait a.yaml", "--watch and --wait exclude each other"],
    ["--detach --follow a.yaml", "--detach and --follow exclude each other"],
    ["--supervise a.yaml", "--supervise takes no files"],
    ["--watch", "needs at least one file"],
  ] as const)
    test(`play refuses "${words}"`, async () => {
      const { exitCode, err } = await run(`play ${words}`);
      assert.equal(exitCode, 1);
      assert.match(err, new RegExp(`command "play": ${reason}`));
    });

  test("play takes the socket from the flag before the environment", async () => {
    const environment = { DOCKERSHIM_CONTAINER_RUNTIME_ENDPOINT: "unix:///env.sock" };
    const fromEnvironment = await run("play --down --keep a.yaml", { environment });
    assert.equal(fromEnvironment.played?.endpoint.path, "/env.sock");
    assert.deepEqual([fromEnvironment.played.down, fromEnvironment.played.keep], [true, true]);
    const fromFlag = await run("play --endpoint unix:///flag.sock a.yaml", { environment });
    assert.equal(fromFlag.played?.endpoint.path, "/flag.sock");
  });

  test("answers the exit code of the action", async () => {
    assert.equal((await run("", { serve: () => Promise.resolve(5) })).exitCode, 5);
  });

  test("prints a failure of the action on one line", async () => {
    const serve = (): Promise<number> => Promise.reject(new ShimError("unavailable", "listen:\n  in use"));
    const { exitCode, err } = await run("", { serve });
    assert.deepEqual([exitCode, err], [1, "dockershim: listen: in use\n"]);
  });

  test("prints a bug with its stack", async () => {
    const { exitCode, err } = await run("", { serve: () => Promise.reject(new TypeError("x is undefined")) });
    assert.equal(exitCode, 1);
    assert.match(err, /^dockershim: TypeError: x is undefined\n {4}at /);
  });
});
