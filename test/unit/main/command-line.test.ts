import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { fileError } from "../../../src/lib/files/file-errors.js";
import { optionList } from "../../../src/shim/config/options.js";
import { ignoredFlags } from "../../../src/shim/config/other-flags.js";
import { actionCode, run } from "./command-line.js";

/** Every flag of cri-dockerd 0.4.3 with a value that it accepts. */
const criDockerdFlags = `
  --runtime-cgroups=/system.slice/docker.service --cri-dockerd-root-directory=/var/lib/cri-dockerd
  --pod-infra-container-image=registry.k8s.io/pause:3.10 --docker-endpoint=unix:///var/run/docker.sock
  --image-pull-progress-deadline=1m0s --runtime-request-timeout=0s --streaming-bind-addr=0.0.0.0:10010
  --pod-cidr=10.244.0.0/24,fd00:10:244::/80 --ipv6-dual-stack --network-plugin=cni
  --cni-conf-dir=/etc/cni/net.d --cni-bin-dir=/opt/cni/bin,/usr/libexec/cni
  --cni-cache-dir=/var/lib/cni/cache --network-plugin-mtu=0 --hairpin-mode=promiscuous-bridge
  --container-runtime-endpoint=fd:// --log-level=warning --version=false --buildinfo=false
`;

/** Every flag of the kubelet 1.20 that concerns dockershim, and those of klog. */
const kubeletFlags = `
  --container-runtime=docker --container-runtime-endpoint=unix:///var/run/dockershim.sock
  --image-service-endpoint=unix:///var/run/dockershim.sock --docker-endpoint=unix:///var/run/docker.sock
  --pod-infra-container-image=k8s.gcr.io/pause:3.2 --experimental-dockershim=false --address=127.0.0.1 --port=11250
  --docker-disable-shared-pid --docker-exec-handler=native --seccomp-profile-root=/var/lib/kubelet/seccomp
  --experimental-dockershim-root-directory=/var/lib/dockershim --image-pull-progress-deadline=2m
  --runtime-request-timeout=15m0s --streaming-connection-idle-timeout=4h0m0s
  --redirect-container-streaming=false --runtime-cgroups=/systemd/system.slice --cgroup-driver=systemd
  --network-plugin=kubenet --cni-conf-dir=/etc/cni/net.d --cni-bin-dir=/opt/cni/bin
  --cni-cache-dir=/var/lib/cni/cache --network-plugin-mtu=1460 --hairpin-mode=hairpin-veth
  --non-masquerade-cidr=0.0.0.0/0 --pod-cidr=10.1.0.0/24 --v=2 --logtostderr=true --alsologtostderr
  --stderrthreshold=2 --log-dir=/var/log --log-file=/var/log/kubelet.log --log-file-max-size=1800
  --log-flush-frequency=5s --log-backtrace-at=:0 --logging-format=text --vmodule=a=1 --one-output
  --skip-headers --skip-log-headers --add-dir-header
`;

describe("runCommandLine() unit files", () => {
  test("accepts all flags of cri-dockerd at once, without a warning", async () => {
    const { exitCode, err, acted } = await run(criDockerdFlags);
    const { runServe: served } = acted;
    assert.deepEqual([exitCode, err], [actionCode, ""]);
    assert.deepEqual(served?.warnings, []);
    assert.equal(served.config.stateDir, "/var/lib/cri-dockerd");
    assert.deepEqual(served.config.containerRuntimeEndpoint, { kind: "systemd" });
    assert.equal(served.config.runtimeRequestTimeoutMs, 119_000);
    assert.equal(served.config.logLevel, "warn");
  });

  test("accepts all flags of the kubelet at once, with a warning for each ignored one", async () => {
    const { exitCode, err, acted } = await run(kubeletFlags);
    const { runServe: served } = acted;
    assert.deepEqual([exitCode, err], [actionCode, ""]);
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
  for (const [name, line, key, expected] of [
    ["a value after a space", "--state-dir /a", "stateDir", "/a"],
    ["a value after =", "--state-dir=/a", "stateDir", "/a"],
    ["a value with =", "--state-dir=/a=b", "stateDir", "/a=b"],
    ["underscores, as the kubelet", "--state_dir=/a", "stateDir", "/a"],
    ["flags after the command", "serve --state-dir /a", "stateDir", "/a"],
    ["flags before the command", "--state-dir /a serve", "stateDir", "/a"],
    ["the last of a repeated flag", "--state-dir /a serve --state-dir=/b", "stateDir", "/b"],
    ...["-v=4", "-v4", "-v 4", "--v=4", "--v 4"].map((line) => [line, line, "logLevel", "debug"] as const),
    ["a switch alone", "--ipv6-dual-stack", "ipv6DualStack", true],
    ["a switch that is true", "--ipv6-dual-stack=true", "ipv6DualStack", true],
    ["a switch that is false", "--ipv6-dual-stack=false", "ipv6DualStack", false],
    ["a switch that is f", "--ipv6-dual-stack=f", "ipv6DualStack", false],
    ["a switch before a flag", "--ipv6-dual-stack --state-dir=/a", "ipv6DualStack", true],
    ["an empty value after =", "--network-plugin=", "networkPlugin", "no-op"],
    ["an empty word as a value", ["--network-plugin", ""], "networkPlugin", "no-op"],
  ] as const) {
    test(`reads ${name}`, async () => {
      assert.equal((await run(line)).acted.runServe?.config[key], expected);
    });
  }

  test("reads a configuration once, as it may come from a pipe", async () => {
    const { exitCode, err, acted } = await run("--config /dev/stdin", {
      files: { "/dev/stdin": "bogus: 1\n" },
    });
    assert.match(err, /unknown option "bogus"/);
    assert.deepEqual([exitCode, acted], [1, {}]);
  });

  test("accepts --no-setup without a warning", async () => {
    assert.deepEqual((await run("--no-setup")).acted.runServe?.warnings, []);
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
    // As Go: the next argument is no value of a switch, but one of a flag, even with dashes.
    ["--ipv6-dual-stack false", 'unexpected argument "false"'],
    ["--state-dir -a=b", 'flag "--state-dir": "-a=b": must be an absolute path'],
    ["-- --state-dir=/a", 'unexpected argument "--state-dir=/a"'],
    ["config --output=xml", 'flag "--output": "xml": must be "table", "yaml", "json" or "commented"'],
    ["config --outptu=json", 'unknown flag "--outptu" of the command "config": did you mean "--output"?'],
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
      const { exitCode, out, err, acted } = await run(line);
      assert.deepEqual({ exitCode, out, err }, { exitCode: 1, out: "", err: `dockershim: ${message}\n` });
      assert.deepEqual(acted, {});
    });
  }
});

describe("runCommandLine() commands", () => {
  test("--version prints the version, also when the configuration is bad", async () => {
    const { exitCode, out, acted } = await run("--version --state-dir=bad");
    assert.deepEqual([exitCode, out, acted], [0, "dockershim 1.2.3 (abc)\n", {}]);
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
      const { exitCode, out, err, acted } = await run(line);
      assert.deepEqual([exitCode, err, acted], [0, "", {}]);
      for (const [, { name }] of optionList) assert.match(out, new RegExp(`--${name} [<[]`));
      for (const command of ["serve", "config", "play", "version"])
        assert.match(out, new RegExp(`^ {2}${command} `, "m"));
      assert.doesNotMatch(out, /logtostderr/);
    });
  }

  test("answers the exit code of the action", async () => {
    assert.equal((await run("", { act: () => Promise.resolve(5) })).exitCode, 5);
  });

  test("prints a failure of the action on one line", async () => {
    const act = (): Promise<number> => Promise.reject(new ShimError("unavailable", "listen:\n  in use"));
    const { exitCode, err } = await run("", { act });
    assert.deepEqual([exitCode, err], [1, "dockershim: listen: in use\n"]);
  });

  test("prints what the system says of a file without a stack", async () => {
    const error = Object.assign(new Error("EACCES: permission denied, open 'x'"), { code: "EACCES" });
    const act = (): Promise<number> => Promise.reject(fileError("read", "/x", error));
    const { exitCode, err } = await run("", { act });
    assert.deepEqual([exitCode, err], [1, 'dockershim: read "/x": permission denied\n']);
  });

  test("prints a bug with its stack", async () => {
    const { exitCode, err } = await run("", { act: () => Promise.reject(new TypeError("x is undefined")) });
    assert.equal(exitCode, 1);
    assert.match(err, /^dockershim: TypeError: x is undefined\n {4}at /);
  });
});
