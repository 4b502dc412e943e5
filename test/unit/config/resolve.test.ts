import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import { environmentName } from "../../../src/shim/config/option.js";
import { optionList } from "../../../src/shim/config/options.js";
import { resolveConfig, type GivenFlag, type ResolvedConfig } from "../../../src/shim/config/resolve.js";

interface Given {
  readonly flags?: Readonly<Record<string, string>> | readonly GivenFlag[];
  readonly environment?: Record<string, string>;
  /** Content of the file /etc/dockershim.yaml, which is then configured. */
  readonly file?: string;
}

async function resolve({ flags = {}, environment = {}, file }: Given): Promise<ResolvedConfig> {
  const list = Array.isArray(flags)
    ? (flags as readonly GivenFlag[])
    : Object.entries(flags).map(([name, text]) => ({ name, text: String(text) }));
  const withFile = file === undefined ? list : [...list, { name: "config", text: "/etc/dockershim.yaml" }];
  return resolveConfig(withFile, environment, (path) => {
    assert.equal(path, "/etc/dockershim.yaml");
    return Promise.resolve(file ?? "");
  });
}

async function assertRefused(given: Given, message: string | RegExp): Promise<void> {
  await assert.rejects(resolve(given), (error) => {
    assert.ok(isKind(error, "invalid"), String(error));
    assert.doesNotMatch(error.message, /\n/);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  });
}

test("resolveConfig() takes the documented defaults without anything given, and says so", async () => {
  const { config, warnings, sources } = await resolve({});
  assert.deepEqual(warnings, []);
  assert.deepEqual(config.containerRuntimeEndpoint, { kind: "unix", path: "/var/run/dockershim.sock" });
  assert.deepEqual([config.runtimeRequestTimeoutMs, config.dockerContext], [120_000, undefined]);
  assert.deepEqual(
    Object.keys(sources),
    optionList.map(([, { name }]) => name),
  );
  for (const { source, detail } of Object.values(sources))
    assert.deepEqual([source, detail], ["default", ""]);
});

describe("resolveConfig() precedence", () => {
  const flags = { "cni-cache-dir": "/from/flag" };
  const environment = { DOCKERSHIM_CNI_CACHE_DIR: "/from/environment" };
  const file = "# comment\ncni-cache-dir: /from/file\n";
  const cases: [string, Given, string, string, string][] = [
    ["flag", { flags, environment, file }, "/from/flag", "flag", "--cni-cache-dir"],
    ["environment", { environment, file }, "/from/environment", "environment", "DOCKERSHIM_CNI_CACHE_DIR"],
    ["file", { file }, "/from/file", "file", "/etc/dockershim.yaml:2"],
    ["default", {}, "/var/lib/cni/cache", "default", ""],
  ];
  for (const [name, given, value, source, detail] of cases) {
    test(`takes the ${name} when nothing stronger is given`, async () => {
      const { config, sources } = await resolve(given);
      assert.equal(config.cniCacheDir, value);
      assert.deepEqual(sources["cni-cache-dir"], { value, source, detail });
    });
  }

  test("refuses a bad value also where a stronger source overrides it", async () => {
    await assertRefused(
      { flags: { "state-dir": "/a" }, environment: { DOCKERSHIM_STATE_DIR: "b" } },
      /DOCKERSHIM_STATE_DIR/,
    );
  });

  test("takes the configuration file of the flag rather than that of DOCKERSHIM_CONFIG", async () => {
    const { config } = await resolve({
      file: "log-level: debug",
      environment: { DOCKERSHIM_CONFIG: "/other" },
    });
    assert.equal(config.logLevel, "debug");
  });

  test("takes the configuration file of DOCKERSHIM_CONFIG", async () => {
    const { config } = await resolveConfig([], { DOCKERSHIM_CONFIG: "/x" }, (path) => {
      assert.equal(path, "/x");
      return Promise.resolve("log-level: debug");
    });
    assert.equal(config.logLevel, "debug");
  });
});

describe("resolveConfig() names", () => {
  test("reads the names of dockershim and cri-dockerd for --state-dir", async () => {
    for (const alias of ["cri-dockerd-root-directory", "experimental-dockershim-root-directory"]) {
      const { config, sources } = await resolve({ flags: { [alias]: "/x" } });
      assert.equal(config.stateDir, "/x");
      assert.equal(sources["state-dir"]?.detail, `--${alias}`);
    }
  });

  test("refuses two names of one option with different values", async () => {
    await assertRefused(
      { flags: { "state-dir": "/a", "cri-dockerd-root-directory": "/b" } },
      'flags "--state-dir" and "--cri-dockerd-root-directory": mean the same but have different values',
    );
  });

  test("refuses an unknown variable with the nearest one", async () => {
    await assertRefused(
      { environment: { DOCKERSHIM_STATE_DIRECTORY: "/a" } },
      'unknown environment variable "DOCKERSHIM_STATE_DIRECTORY": did you mean "DOCKERSHIM_STATE_DIR"?',
    );
  });

  test("ignores variables of npm start, of tests and of other programs", async () => {
    const names = ["DOCKERSHIM_NO_SETUP", "DOCKERSHIM_SETUP_REPORT", "DOCKERSHIM_TEST_X", "OTHER"];
    await resolve({ environment: Object.fromEntries(names.map((name) => [name, "x"])) });
  });

  test("reads every option from its variable", async () => {
    for (const [, { name, kind, default: text }] of optionList) {
      const environment = { [environmentName(name)]: text };
      const { sources } = await resolve({ environment });
      if (name === "docker-endpoint") continue; // Empty means DOCKER_HOST or the default.
      assert.deepEqual(sources[name], {
        value: kind.format(kind.parse(text)),
        source: "environment",
        detail: environmentName(name),
      });
    }
  });
});

describe("resolveConfig() errors", () => {
  test("name flag, value and reason", async () => {
    await assertRefused(
      { flags: { "network-plugin": "calico" } },
      'flag "--network-plugin": "calico": must be "auto", "no-op", "cni" or "kubenet" (the flag does not take the name of a CNI network)',
    );
  });

  test("name the variable", async () => {
    await assertRefused(
      { environment: { DOCKERSHIM_RUNTIME_REQUEST_TIMEOUT: "5" } },
      'environment variable "DOCKERSHIM_RUNTIME_REQUEST_TIMEOUT": "5": needs a unit, as in "5s"',
    );
  });

  test("keep a value with line breaks on one line and shorten a long one", async () => {
    await assertRefused(
      { flags: { "log-level": `a\nb${"c".repeat(1000)}` } },
      /^flag "--log-level": "a\\nbc+…": must/,
    );
  });

  test("do not show the password of an endpoint", async () => {
    await assertRefused({ flags: { "docker-endpoint": "tcp://me:secret@host:1" } }, /^(?!.*secret).*$/);
  });

  test("refuse values that no option takes, and name the flag", async () => {
    for (const [name, text] of Object.entries({
      "pod-infra-container-image": "Not An Image",
      "runtime-cgroups": "/a/../b",
      "cgroup-driver": "cgroupfs2",
      v: "11",
      "network-plugin-mtu": "10",
      "state-dir": "relative",
      "image-pull-progress-deadline": "-1s",
      "hairpin-mode": "veth",
      // kubenet would masquerade nothing.
      "non-masquerade-cidr": "",
    }))
      await assertRefused({ flags: { [name]: text } }, new RegExp(`^flag "--${name}": `));
  });
});

describe("resolveConfig() options that depend on others", () => {
  const cri = "container-runtime-endpoint";
  const needsOther = '"streaming-tls-cert-file" and "streaming-tls-private-key-file": each needs the other';
  for (const [flags, message] of [
    [{ "streaming-tls-cert-file": "/etc/tls.pem" }, needsOther],
    [{ "streaming-tls-private-key-file": "/etc/tls.pem" }, needsOther],
    [{ "metrics-containers": "true" }, '"metrics-containers": needs "metrics-bind-address"'],
    [{ "metrics-page": "true" }, '"metrics-page": needs "metrics-bind-address"'],
    [
      { [cri]: "unix:///run/x.sock", "metrics-bind-address": "unix:///run//x.sock" },
      `"${cri}" and "metrics-bind-address": both are the socket "/run/x.sock"`,
    ],
    [
      { [cri]: "/run/x.sock", "cadvisor-socket": "/run/x.sock" },
      `"${cri}" and "cadvisor-socket": both are the socket "/run/x.sock"`,
    ],
  ] as const) {
    test(`refuses ${Object.keys(flags).join(" and ")}`, () => assertRefused({ flags }, message));
  }

  for (const { given, path, required } of [
    { given: {}, path: "/run/dockershim/cadvisor.sock", required: false },
    { given: { "read-only": "true" }, path: undefined, required: false },
    { given: { "read-only": "true", "cadvisor-socket": "/run/x.sock" }, path: "/run/x.sock", required: true },
    { given: { "cadvisor-socket": "" }, path: undefined, required: true },
    { given: { "cadvisor-socket": "/run/x.sock" }, path: "/run/x.sock", required: true },
    {
      given: { "cadvisor-socket": "/run/dockershim/cadvisor.sock" },
      path: "/run/dockershim/cadvisor.sock",
      required: false,
    },
  ]) {
    test(`has the socket ${path ?? "of none"} for cAdvisor given ${JSON.stringify(given)}`, async () => {
      const { config, sources } = await resolve({ flags: given });
      assert.deepEqual(config.cadvisorSocket, path === undefined ? undefined : { kind: "unix", path });
      assert.equal(config.cadvisorSocketRequired, required);
      assert.equal(sources["cadvisor-socket"]?.value, path === undefined ? "" : `unix://${path}`);
    });
  }

  const levels: [Given, string][] = [
    [{ flags: { v: "0" } }, "info"],
    [{ flags: { v: "3" } }, "info"],
    [{ flags: { v: "4" } }, "debug"],
    [{ flags: { v: "6" } }, "trace"],
    [{ flags: { v: "10" } }, "trace"],
    [{ flags: { v: "4", "log-level": "error" } }, "error"],
    [{ flags: { v: "4" }, file: "log-level: error" }, "debug"],
    [{ flags: { "log-level": "error" }, environment: { DOCKERSHIM_V: "9" } }, "error"],
  ];
  for (const [given, level] of levels) {
    test(`logs at ${level} given ${JSON.stringify(given)}`, async () => {
      const { config, sources } = await resolve(given);
      assert.equal(config.logLevel, level);
      assert.equal(sources["log-level"]?.value, level);
    });
  }

  test("takes DOCKER_HOST when the endpoint is not given", async () => {
    const { config, sources } = await resolve({ environment: { DOCKER_HOST: "tcp://h:1" } });
    assert.deepEqual(config.dockerEndpoint, { kind: "tcp", host: "h", port: 1 });
    assert.deepEqual(sources["docker-endpoint"], {
      value: "tcp://h:1",
      source: "environment",
      detail: "DOCKER_HOST",
    });
  });

  test("does not read DOCKER_HOST when the endpoint is given", async () => {
    const given = { flags: { "docker-endpoint": "unix:///a" }, environment: { DOCKER_HOST: "ssh://h" } };
    assert.deepEqual((await resolve(given)).config.dockerEndpoint, { kind: "unix", path: "/a" });
  });

  test("refuses a DOCKER_HOST that it cannot use", async () => {
    await assertRefused(
      { environment: { DOCKER_HOST: "fd://root@h" } },
      'environment variable "DOCKER_HOST": "fd://…@h": must be "unix:///path", "tcp://host:port" or "ssh://user@host"',
    );
  });

  test("reads an empty --pod-infra-container-image as the default, and completes the slash of --runtime-cgroups", async () => {
    const flags = { "pod-infra-container-image": "", "runtime-cgroups": "system.slice/docker.service" };
    const { config } = await resolve({ flags });
    assert.equal(config.pauseImage, "registry.k8s.io/pause:3.10");
    assert.equal(config.runtimeCgroups, "/system.slice/docker.service");
  });

  test("warns of ignored flags, each once", async () => {
    const flags = ["logtostderr", "vmodule", "logtostderr"].map((name) => ({ name, text: "x" }));
    assert.deepEqual((await resolve({ flags })).warnings, [
      'flag "--logtostderr" is ignored: the log always goes to standard error',
      'flag "--vmodule" is ignored: there is one log level for all modules',
    ]);
  });
});

describe("resolveConfig() configuration file", () => {
  test("reads every type of value", async () => {
    const file = [
      "cni-bin-dir:",
      "  - /a",
      "  - /b",
      "pod-cidr: 10.1.0.0/16",
      "network-plugin-mtu: 1400",
      "ipv6-dual-stack: false",
      "runtime-request-timeout: 3m",
      'v: "4"',
      'runtime-cgroups: ""',
    ].join("\n");
    const { config } = await resolve({ file });
    assert.deepEqual(config.cniBinDirs, ["/a", "/b"]);
    assert.deepEqual(config.podCidrs, ["10.1.0.0/16"]);
    assert.equal(config.networkPluginMtuBytes, 1400);
    assert.equal(config.ipv6DualStack, false);
    assert.equal(config.runtimeRequestTimeoutMs, 180_000);
    assert.equal(config.logLevel, "debug");
    assert.equal(config.runtimeCgroups, undefined);
  });

  test("cleans paths, of a text and of a list", async () => {
    for (const paths of ["/etc/hostname/,/a/./b", "[/etc/x/../hostname, /a/b]"]) {
      const { config } = await resolve({ file: `absent-mount-sources-to-reject: ${paths}` });
      assert.deepEqual(config.absentMountSourcesToReject, ["/etc/hostname", "/a/b"]);
    }
  });

  test("accepts a file without options, and JSON", async () => {
    for (const file of ["", "# nothing\n", "---\n", '{"log-level": "info"}']) await resolve({ file });
  });

  const bad: [string, string, RegExp][] = [
    ["an unknown key", "a: 1", /line 1 column 1: unknown option "a"$/],
    [
      "a misspelt key",
      "log-level: info\nstate-dri: /x",
      /line 2 column 1: unknown option "state-dri": did you mean "state-dir"\?/,
    ],
    ["an alias", "cri-dockerd-root-directory: /x", /did you mean "state-dir"\?/],
    ["camel case", "stateDir: /x", /unknown option "stateDir": did you mean "state-dir"\?/],
    ["the key config", "config: /x", /unknown option "config"/],
    [
      "a bad value",
      "v: 4\nnetwork-plugin-mtu: 1e3",
      /line 2 column 1: option "network-plugin-mtu": "1e3": is not a whole/,
    ],
    ["no value", "state-dir:", /option "state-dir": needs a plain value/],
    ["a mapping as value", "state-dir: {a: b}", /needs a plain value/],
    ["a list for a single value", "state-dir: [/a, /b]", /takes one value and not a list/],
    ["a mapping in a list", "cni-bin-dir: [{a: b}]", /items must be plain values/],
    ["a half-written file", 'state-dir: "/var/lib', /line 1 column \d+: Missing closing "quote/],
    ["a half-written list", "log-level: info\ncni-bin-dir: [/a", /line 2 column \d+: Flow sequence/],
    ["a tab as indentation", "cni-bin-dir:\n\t- /a", /line 2 column/],
    ["a doubled key", "v: 1\nv: 2", /line 2 column 1: Map keys must be unique/],
    ["two documents", "v: 1\n---\nv: 2", /line \d column \d+: .*multiple documents/i],
    ["a list", "- a", /line 1 column 1: is not a mapping/],
    ["plain text", "hello", /is not a mapping/],
    ["an alias bomb", "cni-bin-dir: *x", /Unresolved alias|needs a plain value/],
    [
      "the kubelet's configuration",
      "kind: KubeletConfiguration\ncgroupDriver: systemd",
      /of the kubelet and not of dockershim/,
    ],
    ["a huge file", `# ${"x".repeat(1024 * 1024)}`, /larger than 1 MiB/],
  ];
  for (const [name, file, message] of bad) {
    test(`refuses ${name}`, async () => {
      await assertRefused(
        { file },
        new RegExp(`^config file "/etc/dockershim.yaml".*${message.source}`, message.flags),
      );
    });
  }

  test("says why the file cannot be read", async () => {
    const missing = resolveConfig([{ name: "config", text: "/no" }], {}, () =>
      Promise.reject(new Error("ENOENT")),
    );
    await assert.rejects(missing, { message: 'config file "/no": cannot be read: ENOENT' });
  });
});

test("--default-ulimits and --allowed-annotations may be given repeatedly", async () => {
  const { config, sources } = await resolve({
    flags: [
      { name: "default-ulimits", text: "nofile=1024:524288" },
      { name: "allowed-annotations", text: "a." },
      { name: "default-ulimits", text: "nproc=5,core=0" },
      { name: "allowed-annotations", text: "b." },
    ],
  });
  assert.deepEqual(
    config.defaultUlimits.map(({ Name }) => Name),
    ["nofile", "nproc", "core"],
  );
  assert.deepEqual(config.allowedAnnotations, ["a.", "b."]);
  assert.deepEqual(sources["default-ulimits"]?.value, ["nofile=1024:524288", "nproc=5:5", "core=0:0"]);
});

test("the error of a wrong ulimit names the values of all repeated flags", async () => {
  const flags = ["nofile=1:2", "nofile=3:4"].map((text) => ({ name: "default-ulimits", text }));
  await assertRefused(
    { flags },
    /flag "--default-ulimits": "nofile=1:2,nofile=3:4": names the ulimit "nofile" twice/,
  );
});
