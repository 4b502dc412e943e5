/** Answers with all fields that are read, in the form of API 1.51. */

export const fullContainer = {
  Id: "a".repeat(64),
  Created: "2024-05-06T07:08:09.123456789Z",
  Name: "/k8s_POD_x",
  Image: "sha256:feed",
  Path: "/bin/é",
  LogPath: "/log",
  ResolvConfPath: "/resolv.conf",
  State: {
    Status: "exited",
    Running: false,
    Pid: 0,
    ExitCode: 137,
    OOMKilled: true,
    Error: "boom",
    StartedAt: "2024-05-06T07:08:10Z",
    FinishedAt: "2024-05-06T07:08:11.5Z",
  },
  Config: {
    Image: "busybox:1",
    Labels: { a: "b" },
    User: "1:2",
    Tty: true,
    OpenStdin: true,
    StdinOnce: true,
    StopSignal: "SIGQUIT",
  },
  HostConfig: {
    NetworkMode: "container:x",
    PortBindings: {
      "80/tcp": [
        { HostIp: "::1", HostPort: "8080" },
        { HostIp: "", HostPort: "8081" },
      ],
    },
    PidMode: "host",
    IpcMode: "shareable",
    CgroupParent: "/kubepods",
    Runtime: "runc",
    GroupAdd: ["5"],
    Privileged: true,
    CpuPeriod: 1,
    CpuQuota: -1,
    CpuShares: 3,
    Memory: 4,
    MemorySwap: -1,
    CpusetCpus: "0",
    CpusetMems: "1",
    OomScoreAdj: -998,
    Mounts: [
      {
        Type: "bind",
        Source: "/s",
        Target: "/t",
        ReadOnly: true,
        BindOptions: { Propagation: "rslave", ReadOnlyForceRecursive: true },
      },
      { Type: "image", Source: "busybox", Target: "/i", ImageOptions: { Subpath: "bin" } },
    ],
    LogConfig: { Type: "local", Config: { "max-size": "10m" } },
    Binds: ["/a:/b:ro,rshared,Z", "volume:/v", "/c:/d"],
  },
  Mounts: [
    { Type: "bind", Source: "/s", Destination: "/t", RW: false, Propagation: "rslave" },
    { Type: "volume", Name: "v", Source: "/x", Destination: "/v", RW: true, Propagation: "" },
  ],
  NetworkSettings: {
    Networks: {
      b: { IPAddress: "", GlobalIPv6Address: "fd00::1" },
      a: { IPAddress: "10.0.0.2", GlobalIPv6Address: "fd00::2" },
    },
  },
  GraphDriver: { Name: "overlay2", Data: { UpperDir: "/up" } },
};

const config = { User: "5", StopSignal: "SIGINT", Labels: { a: "b" }, Volumes: { "/data": {} }, Env: null };
export const fullImage = {
  Id: "sha256:x",
  RepoTags: ["a:1"],
  RepoDigests: ["a@sha256:y"],
  Size: 7,
  Architecture: "amd64",
  Os: "linux",
  Author: "me",
  Created: "2024-01-01T00:00:00Z",
  Config: config,
  RootFS: { Type: "layers", Layers: ["sha256:l"] },
  GraphDriver: { Name: "overlay2", Data: { UpperDir: "/u" } },
};
