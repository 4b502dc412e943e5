import {
  bindAddressKind,
  dockerEndpointKind,
  listenEndpointKind,
  localEndpointKind,
} from "../../../src/shim/config/endpoints.js";
import { testKind } from "./kinds.js";

testKind("listenEndpointKind", listenEndpointKind, {
  good: [
    ["unix:///var/run/dockershim.sock", { kind: "unix", path: "/var/run/dockershim.sock" }],
    ["UNIX:////run//x.sock", { kind: "unix", path: "/run/x.sock" }, "unix:///run/x.sock"],
    ["/run/x.sock", { kind: "unix", path: "/run/x.sock" }, "unix:///run/x.sock"],
    ["fd://", { kind: "systemd" }],
    [`unix:///${"x".repeat(106)}`, { kind: "unix", path: `/${"x".repeat(106)}` }],
  ],
  bad: [
    ["", /must be "unix:\/\/\/path" or "fd:\/\/"/],
    ["run/x.sock", /must be/],
    ["unix://run/x.sock", /absolute/],
    ["unix://", /names no socket/],
    ["unix:///", /not the path of a socket/],
    ["unix:///run/", /not the path of a socket/],
    ["tcp://127.0.0.1:1", /must be/],
    ["npipe:////./pipe/x", /must be/],
    ["fd://docker", /without a name/],
    [`unix:///${"x".repeat(107)}`, /at most 107 bytes/],
    [`unix:///${"ä".repeat(54)}`, /at most 107 bytes/],
  ],
});

testKind("dockerEndpointKind", dockerEndpointKind, {
  good: [
    ["unix:///var/run/docker.sock", { kind: "unix", path: "/var/run/docker.sock" }],
    ["tcp://127.0.0.1:2375", { kind: "tcp", host: "127.0.0.1", port: 2375 }],
    ["tcp://dind", { kind: "tcp", host: "dind", port: 2375 }, "tcp://dind:2375"],
    ["http://dind:80/", { kind: "tcp", host: "dind", port: 80 }, "tcp://dind:80"],
    ["tcp://[::1]:2375", { kind: "tcp", host: "::1", port: 2375 }],
    ["ssh://host", { kind: "ssh", host: "host" }],
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
    ["", /must be "unix:\/\/\/path", "tcp:\/\/host:port" or "ssh:\/\/user@host"/],
    ["/var/run/docker.sock", /must be/],
    ["unix://var/run/docker.sock", /absolute/],
    ["fd://docker_engine", /must be/],
    ["ssh://", /must be "ssh:/],
    ["npipe:////./pipe/", /a named pipe must be/],
    ["npipe:///run/docker.sock", /a named pipe must be/],
    ["ssh://-oProxyCommand=x", /must be "ssh:/],
    ["ssh://-l@host", /names no user/],
    ["ssh://root:secret@host", /password cannot be given/],
    ["ssh://host:0", /from 1 to 65535/],
    ["ssh://host/run/docker.sock", /must be "ssh:|port/],
    ["https://host:2376", /must be/],
    ["tcp://", /names no host/],
    ["tcp://:2375", /names no host/],
    ["tcp://host:0", /from 1 to 65535/],
    ["tcp://host:65536", /port/],
    ["tcp://host:x", /port/],
    ["tcp://host/path", /names no host/],
    ["tcp://user@host", /names no host/],
    ["tcp://[host]:1", /brackets/],
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
    ["localhost", /must be an IP address/],
    ["localhost:80", /must be an IP address/],
    [":80", /must be an IP address/],
    ["127.0.0.1:", /port/],
    ["127.0.0.1:70000", /port/],
    ["127.0.0.1:-1", /port/],
    ["300.0.0.1", /must be an IP address/],
    ["http://127.0.0.1", /port|address/],
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
    ["0.0.0.0:9090", /only loopback addresses/],
    ["[::]:9090", /only loopback addresses/],
    ["10.0.0.5:9090", /only loopback addresses/],
    ["[::ffff:10.0.0.5]:9090", /only loopback addresses/],
    ["localhost:9090", /must be an IP address with a port/],
    [":9090", /must be an IP address with a port/],
    ["127.0.0.1", /names no port/],
    ["127.0.0.1:65536", /from 0 to 65535/],
    ["/run/metrics.sock", /begins with "unix:\/\/"/],
    ["unix://run/metrics.sock", /absolute/],
    ["http://127.0.0.1:9090", /must be/],
  ],
});
