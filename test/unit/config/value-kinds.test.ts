import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  booleanKind,
  dualStackCidrsKind,
  durationKind,
  enumKind,
  imagePatternsKind,
  integerKind,
  logLevelKind,
  pathKind,
  pathListKind,
} from "../../../src/shim/config/value-kinds.js";
import {
  bindAddressKind,
  dockerEndpointKind,
  listenEndpointKind,
  localEndpointKind,
} from "../../../src/shim/config/endpoints.js";
import { formatGoDuration, parseGoDuration } from "../../../src/shim/config/go-duration.js";
import type { ValueKind } from "../../../src/shim/config/option.js";
import { annotationPrefixesKind, ulimitsKind } from "../../../src/shim/config/container-options.js";

interface KindCases<T> {
  /** Text, value, and the normal text where that differs. */
  readonly good: readonly (readonly [string, T, unknown?])[];
  /** Reason and texts. */
  readonly bad: readonly (readonly [RegExp, ...string[]])[];
}

function testKind<T>(name: string, kind: ValueKind<T>, { good, bad }: KindCases<T>): void {
  describe(name, () => {
    for (const [text, value, normal = text] of good) {
      test(`reads ${JSON.stringify(text)}`, () => {
        assert.deepEqual(kind.parse(text), value);
        assert.deepEqual(kind.format(value), normal);
      });
    }
    for (const [message, ...texts] of bad) {
      test(`refuses ${JSON.stringify(texts).slice(1, 60)}: ${message.source}`, () => {
        for (const text of texts) assert.throws(() => kind.parse(text), { kind: "invalid", message });
      });
    }
  });
}

testKind("booleanKind", booleanKind, {
  good: [
    ["true", true, true],
    ["T", true, true],
    ["1", true, true],
    ["false", false, false],
    ["False", false, false],
    ["0", false, false],
  ],
  bad: [[/true or false/, "", "yes", "tRUE"]],
});

testKind("integerKind", integerKind({ min: 68, max: 100, also: 0 }), {
  good: [
    ["0", 0, 0],
    ["68", 68, 68],
    ["+100", 100, 100],
  ],
  bad: [
    [/whole number/, "", "1e2", "70.0"],
    [/must be 0 or from 68 to 100/, "67"],
    [/from 68 to 100/, "101", "-1", "99999999999999999999"],
  ],
});

testKind("durationKind without zero", durationKind(), {
  good: [["90s", 90_000, "1m30s"]],
  bad: [
    [/more than 0/, "0", "0s"],
    [/duration/, "x"],
  ],
});

testKind("durationKind with a meaning of zero", durationKind({ zeroMeansMs: 119_000 }), {
  good: [["0s", 119_000, "1m59s"]],
  bad: [],
});

testKind("enumKind", enumKind(["a", "b", "c"], { synonyms: { "": "b" }, hint: "not d" }), {
  good: [
    ["a", "a"],
    ["", "b", "b"],
  ],
  bad: [
    [/must be "a", "b" or "c" \(not d\)/, "d"],
    [/must be/, "toString", "A"],
  ],
});

testKind("pathKind", pathKind, {
  good: [
    ["/", "/"],
    ["/a/b", "/a/b"],
    ["/a//b/./c/../d/", "/a/b/d", "/a/b/d"],
  ],
  bad: [
    [/empty/, ""],
    [/absolute/, "a/b", "./a", "~/a"],
    [/NUL/, "/a\0b"],
  ],
});

testKind("pathListKind", pathListKind, {
  good: [
    ["/a", ["/a"], ["/a"]],
    ["/a, /b/,/a", ["/a", "/b"], ["/a", "/b"]],
  ],
  bad: [
    [/empty/, "", "/a,"],
    [/absolute/, "/a,b"],
  ],
});

testKind("dualStackCidrsKind", dualStackCidrsKind, {
  good: [
    ["", [], []],
    ["10.1.0.0/16", ["10.1.0.0/16"], ["10.1.0.0/16"]],
    ["0.0.0.0/0", ["0.0.0.0/0"], ["0.0.0.0/0"]],
    ["::/0", ["::/0"], ["::/0"]],
    ["10.1.0.0/16, fd00::/64", ["10.1.0.0/16", "fd00::/64"], ["10.1.0.0/16", "fd00::/64"]],
  ],
  bad: [
    [/at most one IPv4 and one IPv6/, "10.1.0.0/16,10.2.0.0/16"],
    [/at most one/, "10.1.0.0/16,fd00::/64,fd01::/64"],
    [/CIDR/, "10.1.0.0/16,", "10.0.0.0", "10.0.0/8", "10.0.0.0/33", "fd00::/129"],
    [/CIDR/, "fe80::1%eth0/64", "10.0.0.0/8/9"],
  ],
});

testKind("imagePatternsKind", imagePatternsKind, {
  good: [
    ["", [], []],
    ["busybox", ["busybox"], ["busybox"]],
    [
      "busybox, registry.example/*,*web*,busybox",
      ["busybox", "registry.example/*", "*web*"],
      ["busybox", "registry.example/*", "*web*"],
    ],
  ],
  bad: [
    [/^pattern "" is not an image reference$/, "busybox,"],
    [/^pattern "a\*b" may have a \* at its end/, "busybox,a*b"],
  ],
});

testKind("logLevelKind", logLevelKind, {
  good: [
    ["panic", "fatal", "fatal"],
    ["fatal", "fatal"],
    ["error", "error"],
    ["warn", "warn"],
    ["warning", "warn", "warn"],
    ["info", "info"],
    ["INFO", "info", "info"],
    ["", "info", "info"],
    ["debug", "debug"],
    ["trace", "trace"],
  ],
  bad: [
    [/must be one of panic, fatal/, "verbose"],
    [/must be one of/, "silent", "constructor"],
  ],
});

testKind("listenEndpointKind", listenEndpointKind, {
  good: [
    ["unix:///var/run/dockershim.sock", { kind: "unix", path: "/var/run/dockershim.sock" }],
    ["UNIX:////run//x.sock", { kind: "unix", path: "/run/x.sock" }, "unix:///run/x.sock"],
    ["/run/x.sock", { kind: "unix", path: "/run/x.sock" }, "unix:///run/x.sock"],
    ["fd://", { kind: "systemd" }],
    [`unix:///${"x".repeat(106)}`, { kind: "unix", path: `/${"x".repeat(106)}` }],
  ],
  bad: [
    [/must be "unix:\/\/\/path" or "fd:\/\/"/, ""],
    [/must be/, "run/x.sock", "tcp://127.0.0.1:1", "npipe:////./pipe/x"],
    [/absolute/, "unix://run/x.sock"],
    [/names no socket/, "unix://"],
    [/not the path of a socket/, "unix:///", "unix:///run/"],
    [/without a name/, "fd://docker"],
    [/at most 107 bytes/, `unix:///${"x".repeat(107)}`, `unix:///${"ä".repeat(54)}`],
  ],
});

testKind("dockerEndpointKind", dockerEndpointKind, {
  good: [
    ["unix:///var/run/docker.sock", { kind: "unix", path: "/var/run/docker.sock" }],
    ["tcp://127.0.0.1:2375", { kind: "tcp", host: "127.0.0.1", port: 2375 }],
    ["tcp://dind", { kind: "tcp", host: "dind", port: 2375 }, "tcp://dind:2375"],
    ["http://dind:80/", { kind: "tcp", host: "dind", port: 80 }, "tcp://dind:80"],
    ["tcp://[::1]:2375", { kind: "tcp", host: "::1", port: 2375 }],
    ["127.0.0.1:2376", { kind: "tcp", host: "127.0.0.1", port: 2376 }, "tcp://127.0.0.1:2376"],
    ["tcp://:2376", { kind: "tcp", host: "127.0.0.1", port: 2376 }, "tcp://127.0.0.1:2376"],
    ["tcp://", { kind: "tcp", host: "127.0.0.1", port: 2375 }, "tcp://127.0.0.1:2375"],
    ["unix://", { kind: "unix", path: "/var/run/docker.sock" }, "unix:///var/run/docker.sock"],
    ["ssh://host", { kind: "ssh", host: "host" }],
    ["ssh://u+x@host/run/d.sock", { kind: "ssh", user: "u+x", host: "host", path: "/run/d.sock" }],
    ["npipe:////./pipe/docker_engine", { kind: "unix", path: "//./pipe/docker_engine" }],
    [
      "npipe://\\\\.\\pipe\\docker_engine",
      { kind: "unix", path: "//./pipe/docker_engine" },
      "npipe:////./pipe/docker_engine",
    ],
    [
      "ssh://root@host:2222/",
      { kind: "ssh", user: "root", host: "host", port: 2222 },
      "ssh://root@host:2222",
    ],
    ["ssh://a.b@[::1]", { kind: "ssh", user: "a.b", host: "::1" }],
  ],
  bad: [
    [/must be "unix:\/\/\/path", "tcp:\/\/host:port" or "ssh:\/\/user@host"/, ""],
    [/must be/, "/var/run/docker.sock", "fd://docker_engine", "https://host:2376"],
    [/absolute/, "unix://var/run/docker.sock"],
    [/must be "ssh:/, "ssh://", "ssh://-oProxyCommand=x"],
    [/a named pipe must be/, "npipe:////./pipe/", "npipe:///run/docker.sock"],
    [/names no user/, "ssh://-l@host"],
    [/password cannot be given/, "ssh://root:secret@host"],
    [/from 1 to 65535/, "ssh://host:0", "tcp://host:0"],
    [/not the path of a socket/, "ssh://host/run/$(id)", "ssh://host/a/", "ssh://host/a b"],
    [/names no host/, "tcp://user@host"],
    [/a path behind the port is not supported/, "tcp://host/path", "tcp://host:1/path"],
    [/port/, "tcp://host:65536", "tcp://host:x"],
    [/brackets/, "tcp://[host]:1"],
  ],
});

testKind("bindAddressKind", bindAddressKind, {
  good: [
    ["", { host: "127.0.0.1", port: 0 }, "127.0.0.1:0"],
    ["0.0.0.0", { host: "0.0.0.0", port: 0 }, "0.0.0.0:0"],
    ["10.0.0.1:10010", { host: "10.0.0.1", port: 10010 }],
    ["::1", { host: "::1", port: 0 }, "[::1]:0"],
    ["[::]:10010", { host: "::", port: 10010 }],
  ],
  bad: [
    [/must be an IP address/, "localhost", "localhost:80", ":80", "300.0.0.1"],
    [/port/, "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1"],
    [/port|address/, "http://127.0.0.1"],
  ],
});

testKind("localEndpointKind", localEndpointKind, {
  good: [
    ["127.0.0.1:9090", { kind: "tcp", host: "127.0.0.1", port: 9090 }],
    ["127.8.9.10:0", { kind: "tcp", host: "127.8.9.10", port: 0 }],
    ["[::1]:9090", { kind: "tcp", host: "::1", port: 9090 }],
    ["unix:///run/metrics.sock", { kind: "unix", path: "/run/metrics.sock" }],
  ],
  bad: [
    [/only loopback addresses/, "0.0.0.0:9090", "[::]:9090", "10.0.0.5:9090", "[::ffff:10.0.0.5]:9090"],
    [/must be an IP address with a port/, "localhost:9090", ":9090"],
    [/names no port/, "127.0.0.1"],
    [/from 0 to 65535/, "127.0.0.1:65536"],
    [/begins with "unix:\/\/"/, "/run/metrics.sock"],
    [/absolute/, "unix://run/metrics.sock"],
    [/must be/, "http://127.0.0.1:9090"],
  ],
});

describe("parseGoDuration()", () => {
  const good: [string, number][] = [
    ["0", 0],
    ["0s", 0],
    ["1m0s", 60_000],
    ["2m0s", 120_000],
    ["300ms", 300],
    ["1h30m", 5_400_000],
    ["4h0m0s", 14_400_000],
    ["1.5s", 1500],
    [".5s", 500],
    ["1.s", 1000],
    ["+10s", 10_000],
    ["0.1s", 100],
    ["1us", 1],
    ["1µs", 1],
    ["1500µs", 2],
    ["1s1m", 61_000],
  ];
  test("reads a sum of numbers with units to the millisecond", () => {
    for (const [text, milliseconds] of good) assert.equal(parseGoDuration(text), milliseconds, text);
  });

  const bad: readonly (readonly [RegExp, readonly string[]])[] = [
    [/duration/, ["", "1x", "s", "1m 30s", " 1s", "1s!", "1h30", "1d", "1e3s"]],
    [/needs a unit/, ["1.5"]],
    [/needs a unit, as in "5s"/, ["5"]],
    [/negative/, ["-1s"]],
    [/less than 596 hours/, ["597h", "9999999999999999h"]],
  ];
  for (const [message, texts] of bad) {
    test(`refuses ${texts.map((text) => JSON.stringify(text)).join(", ")}`, () => {
      for (const text of texts) assert.throws(() => parseGoDuration(text), { kind: "invalid", message });
    });
  }
});

describe("formatGoDuration()", () => {
  const cases: [number, string][] = [
    [0, "0s"],
    [1, "1ms"],
    [1000, "1s"],
    [1500, "1.5s"],
    [60_000, "1m0s"],
    [119_000, "1m59s"],
    [3_600_000, "1h0m0s"],
    [14_400_001, "4h0m0.001s"],
  ];
  test("writes what parseGoDuration() reads", () => {
    for (const [milliseconds, text] of cases) {
      assert.equal(formatGoDuration(milliseconds), text);
      assert.equal(parseGoDuration(text), milliseconds);
    }
  });
});

const nofile = { Name: "nofile", Soft: 1024, Hard: 524288 };

testKind("ulimitsKind", ulimitsKind, {
  good: [
    ["", [], []],
    ["nofile=1024:524288", [nofile], ["nofile=1024:524288"]],
    ["nproc=5", [{ Name: "nproc", Soft: 5, Hard: 5 }], ["nproc=5:5"]],
    [
      "nofile=1024:524288, core=0:-1",
      [nofile, { Name: "core", Soft: 0, Hard: -1 }],
      ["nofile=1024:524288", "core=0:-1"],
    ],
    ["core=-1:-1", [{ Name: "core", Soft: -1, Hard: -1 }], ["core=-1:-1"]],
  ],
  bad: [
    [/ulimit "nofile": is not of the form name=soft:hard/, "nofile"],
    [/form name=soft:hard/, "nofile=", "nofile=1:2:3", "nofile=1k:2k", "nofile=-2:5"],
    [/ulimit "": is not of the form/, "nofile=1:2,"],
    [/the name must be one of core, cpu/, "RLIMIT_NOFILE=1:2"],
    [/the name must be one of/, "nofiles=1:2"],
    [/the soft limit exceeds the hard one/, "nofile=2:1", "core=-1:5"],
    [/nofile cannot be unlimited/, "nofile=1024:-1"],
    [/is too large; use -1 for unlimited/, "nproc=9999999999999999"],
    [/names the ulimit "nofile" twice/, "nofile=1:2,nproc=1,nofile=3:4"],
  ],
});

testKind("annotationPrefixesKind", annotationPrefixesKind, {
  good: [
    ["", [], []],
    ["run.oci., io.katacontainers.", ["run.oci.", "io.katacontainers."], ["run.oci.", "io.katacontainers."]],
  ],
  bad: [[/has an empty prefix/, ",", "a.,"]],
});
