import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CreateBody } from "../../../src/domain/create-body.js";
import type { LinuxContainerSecurityContext } from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import type { ValidContainerConfig } from "../../../src/domain/requests.js";
import {
  containerNeeds,
  planContainer,
  type ContainerContext,
} from "../../../src/shim/plan/container-plan.js";
import { containerResources as resources } from "../../fakes/requests.js";
import {
  containerContext,
  containerLinux,
  containerSecurity,
  createRequest,
  device,
  mount,
  namespaces,
  nodeFacts,
  sandboxId,
} from "./builders.js";
import { imageSpec } from "../../fakes/requests.js";
import { refusal } from "./errors.js";

function body(config: Partial<ValidContainerConfig>, context: Partial<ContainerContext> = {}): CreateBody {
  return planContainer(createRequest(config), containerContext(context)).body;
}

function secured(
  security: Partial<LinuxContainerSecurityContext>,
  context: Partial<ContainerContext> = {},
): CreateBody {
  return body({ linux: containerLinux({ security_context: containerSecurity(security) }) }, context);
}

const joined = `container:${sandboxId}`;

describe("planContainer()", () => {
  test("leaves out fields whose empty values have a meaning", () => {
    const planned = secured({ namespace_options: namespaces({ pid: 1 }) });
    for (const field of ["Entrypoint", "Cmd", "Env", "User", "WorkingDir", "StopSignal"]) {
      assert.equal(field in planned, false, field);
    }
    for (const field of [
      "MaskedPaths",
      "ReadonlyPaths",
      "CapAdd",
      "CapDrop",
      "Mounts",
      "Binds",
      "PidMode",
      "Runtime",
    ]) {
      assert.equal(field in planned.HostConfig, false, field);
    }
  });

  test("turns off health check and restarts, and names the container after the pod", () => {
    const plan = planContainer(createRequest(), containerContext());
    assert.deepEqual(plan.body.Healthcheck, { Test: ["NONE"] });
    assert.deepEqual(plan.body.HostConfig.RestartPolicy, { Name: "no" });
    assert.equal(plan.name, "k8s_c1_web-0_default_uid-1_1");
    assert.equal(plan.alternativeName(1), "k8s_c1_web-0_default_uid-1_1_00000001");
  });

  describe("PID namespace", () => {
    for (const [mode, expected] of [
      [0, joined],
      [1, undefined],
      [2, "host"],
      [3, "container:full-abc"],
    ] as const) {
      test(`mode ${mode} is ${expected}`, () => {
        const options = namespaces({ pid: mode, target_id: mode === 3 ? "abc" : "" });
        assert.equal(secured({ namespace_options: options }).HostConfig.PidMode, expected);
      });
    }
  });

  for (const [missing, linux] of [
    ["linux", null],
    ["security_context", containerLinux()],
    ["namespace_options", containerLinux({ security_context: containerSecurity() })],
    [
      "every mode",
      containerLinux({ security_context: containerSecurity({ namespace_options: namespaces() }) }),
    ],
  ] as const) {
    test(`joins network, IPC and PID namespace of the sandbox when ${missing} is missing`, () => {
      const { NetworkMode, IpcMode, PidMode } = body({ linux }).HostConfig;
      assert.deepEqual([NetworkMode, IpcMode, PidMode], [joined, joined, joined]);
    });
  }

  test("has the host's UTS namespace on the host's network", () => {
    assert.equal(secured({}).HostConfig.UTSMode, undefined);
    assert.equal(secured({ namespace_options: namespaces({ network: 2 }) }).HostConfig.UTSMode, "host");
    const sandbox = { ...containerContext().sandbox, hostNetwork: true };
    assert.equal(body({}, { sandbox }).HostConfig.UTSMode, "host");
  });

  test("has an IPC namespace of its own when asked, and never a network of its own", () => {
    assert.equal(secured({ namespace_options: namespaces({ ipc: 1 }) }).HostConfig.IpcMode, "private");
    assert.throws(
      () => secured({ namespace_options: namespaces({ network: 1 }) }),
      refusal("unsupported", /namespace_options\.network "CONTAINER"/),
    );
  });

  test("runs with the sandbox's runtime, unnamed when it is the engine's default", () => {
    const sandbox = containerContext().sandbox;
    const runtimeOf = (runtime: string): string | undefined =>
      body({}, { sandbox: { ...sandbox, snapshot: { ...sandbox.snapshot, runtime } } }).HostConfig.Runtime;
    assert.deepEqual(["runc", "", "runsc"].map(runtimeOf), [undefined, undefined, "runsc"]);
  });

  for (const [cgroupVersion, privileged, mode] of [
    [2, false, "private"],
    [2, true, "host"],
    [1, false, "host"],
    [1, true, "host"],
  ] as const) {
    const what = `with cgroup v${cgroupVersion}${privileged ? " when privileged" : ""}`;
    test(`names the cgroup namespace, whatever the engine's default is: ${mode} ${what}`, () => {
      const facts = nodeFacts({ cgroupVersion });
      assert.equal(secured({ privileged }, { facts }).HostConfig.CgroupnsMode, mode);
    });
  }

  test("follows its sandbox out of the engine's user namespace", () => {
    const facts = nodeFacts({ security: { ...nodeFacts().security, usernsRemap: true } });
    const { sandbox } = containerContext();
    const inPrivileged = { ...sandbox, snapshot: { ...sandbox.snapshot, privileged: true } };
    assert.equal(body({}, { facts }).HostConfig.UsernsMode, undefined);
    assert.equal(body({}, { facts, sandbox: inPrivileged }).HostConfig.UsernsMode, "host");
    assert.equal(secured({ privileged: true }, { facts }).HostConfig.UsernsMode, "host");
  });

  test("leaves to the engine's configuration nothing that the request decides", () => {
    const { Init, SecurityOpt, ShmSize, IpcMode } = secured({}).HostConfig;
    assert.equal(Init, false);
    assert.ok(SecurityOpt?.includes("no-new-privileges=false"));
    assert.ok(ShmSize);
    assert.ok(IpcMode);
  });

  describe("security options", () => {
    const mayGain = "no-new-privileges=false";
    for (const [what, security, expected] of [
      ["nothing is unconfined", {}, [mayGain, "seccomp=unconfined"]],
      ["RuntimeDefault by message", { seccomp: { profile_type: 0, localhost_ref: "" } }, [mayGain]],
      ["RuntimeDefault by string", { seccomp_profile_path: "docker/default" }, [mayGain]],
      [
        "privileged sends no seccomp",
        { privileged: true, seccomp: { profile_type: 1, localhost_ref: "" } },
        [mayGain],
      ],
      [
        "AppArmor message before string",
        { apparmor: { profile_type: 1, localhost_ref: "" }, apparmor_profile: "localhost/x" },
        ["apparmor=unconfined", mayGain, "seccomp=unconfined"],
      ],
      [
        "order",
        {
          selinux_options: { user: "", role: "", type: "t", level: "l" },
          apparmor_profile: "localhost/p",
          no_new_privs: true,
        },
        ["label=type:t", "label=level:l", "apparmor=p", "no-new-privileges", "seccomp=unconfined"],
      ],
    ] as const) {
      test(what, () => {
        assert.deepEqual(secured(security).HostConfig.SecurityOpt, expected);
      });
    }

    test("a Localhost profile keeps numbers that JavaScript would round", () => {
      const profile = '{\n "value": 18446744073709551615,\t"a": "x \\" y"\n}\n';
      const options = secured(
        { seccomp: { profile_type: 2, localhost_ref: "/p" } },
        { inputs: { seccompProfile: profile } },
      ).HostConfig.SecurityOpt;
      assert.deepEqual(options?.slice(1), ['seccomp={"value":18446744073709551615,"a":"x \\" y"}']);
    });

    for (const text of ["", "not json", "[]", "null", '"text"']) {
      test(`a Localhost profile of ${JSON.stringify(text)} is refused`, () => {
        assert.throws(
          () =>
            secured(
              { seccomp: { profile_type: 2, localhost_ref: "/p" } },
              { inputs: { seccompProfile: text } },
            ),
          refusal("invalid", /seccomp\.localhost_ref: cannot load seccomp profile "\/p"/),
        );
      });
    }

    test("an AppArmor profile must be loaded, and the engine must have AppArmor", () => {
      const localhost = { apparmor: { profile_type: 2, localhost_ref: "prof" } } as const;
      assert.throws(
        () => secured(localhost, { inputs: { loadedAppArmorProfiles: new Set(["other"]) } }),
        refusal("precondition", /apparmor\.localhost_ref "prof": no such AppArmor profile/),
      );
      const without = nodeFacts({ security: { ...nodeFacts().security, apparmor: false } });
      assert.throws(
        () => secured(localhost, { facts: without }),
        refusal("unsupported", /runs without AppArmor/),
      );
      assert.deepEqual(
        secured({ apparmor_profile: "runtime/default" }, { facts: without }).HostConfig.SecurityOpt,
        [mayGain, "seccomp=unconfined"],
      );
    });
  });

  test("a privileged container has no masked paths, another has those of the request", () => {
    const paths = { masked_paths: ["/proc/kcore"], readonly_paths: ["/proc/bus"] };
    assert.deepEqual(secured(paths).HostConfig.MaskedPaths, ["/proc/kcore"]);
    const privileged = secured({ ...paths, privileged: true }).HostConfig;
    assert.deepEqual([privileged.MaskedPaths, privileged.ReadonlyPaths], [undefined, undefined]);
  });

  describe("user and groups", () => {
    const app = { uid: 1000, gid: 1001, supplementaryGroups: [50, 29, 7], name: "app", home: "/" };
    for (const [what, security, user, groups] of [
      [
        "Merge: Docker does it all",
        { run_as_user: { value: "1000" }, supplemental_groups: ["8"] },
        "1000",
        ["8"],
      ],
      ["Merge by name", { run_as_username: "app" }, "app", undefined],
      [
        "Merge with a group adds the image's memberships",
        { run_as_user: { value: "1000" }, run_as_group: { value: "7" }, supplemental_groups: ["8", "50"] },
        "1000:7",
        ["8", "50", "29"],
      ],
      [
        "Strict names the primary group",
        { run_as_user: { value: "1000" }, supplemental_groups_policy: 1 },
        "1000:1001",
        undefined,
      ],
      [
        "Strict with the image's user",
        { supplemental_groups_policy: 1, supplemental_groups: ["8"] },
        "1000:1001",
        ["8"],
      ],
      [
        "Strict with a group needs nothing",
        { run_as_user: { value: "1" }, run_as_group: { value: "2" }, supplemental_groups_policy: 1 },
        "1:2",
        undefined,
      ],
    ] as const) {
      test(what, () => {
        const request = createRequest({
          linux: containerLinux({ security_context: containerSecurity(security) }),
        });
        const needed = containerNeeds(request).imageUser !== undefined;
        const planned = planContainer(
          request,
          containerContext({ inputs: needed ? { imageUser: app } : {} }),
        ).body;
        assert.deepEqual([planned.User, planned.HostConfig.GroupAdd], [user, groups]);
      });
    }
    test("an unknown user is refused when it must be resolved", () => {
      assert.throws(
        () => secured({ run_as_username: "ghost", supplemental_groups_policy: 1 }),
        refusal("invalid", /unable to find user "ghost"/),
      );
    });
  });

  describe("log path", () => {
    for (const [directory, path, expected] of [
      ["/var/log/pods/p", "c/0.log", "/var/log/pods/p/c/0.log"],
      ["/var/log/pods/p/", "./c//0.log", "/var/log/pods/p/c/0.log"],
      ["/var/log/pods/p", "/c/0.log", "/var/log/pods/p/c/0.log"],
      ["/", "0.log", "/0.log"],
      ["/var/log/pods/p", "", ""],
      ["", "c/0.log", ""],
    ] as const) {
      test(`${JSON.stringify(directory)} + ${JSON.stringify(path)} is ${JSON.stringify(expected)}`, () => {
        const plan = planContainer(
          createRequest({ log_path: path }, { log_directory: directory }),
          containerContext(),
        );
        assert.equal(plan.logPath, expected);
        assert.equal(plan.body.Labels["io.kubernetes.container.logpath"], expected);
      });
    }
  });

  test("environment keeps order and duplicates, and refuses bytes that are not UTF-8 without showing them", () => {
    const env = (...pairs: [string, Buffer][]) => pairs.map(([key, value]) => ({ key, value }));
    assert.deepEqual(body({ envs: env(["A", Buffer.from("ü=1")], ["A", Buffer.from("2")]) }).Env, [
      "A=ü=1",
      "A=2",
    ]);
    assert.throws(
      () => body({ envs: env(["KEY", Buffer.from([0x73, 0xff])]) }),
      refusal(
        "unsupported",
        /^config\.envs\[0\]\.value: the value of KEY is not UTF-8, which Docker cannot take$/,
      ),
    );
  });

  test("stop signal", () => {
    assert.equal(body({ stop_signal: 38 }).StopSignal, "SIGRTMIN+3");
    assert.equal(body({ stop_signal: 19 }).StopSignal, "SIGSEGV");
  });

  describe("devices", () => {
    test("a directory becomes its devices, each in its place", () => {
      const devices = new Map([["/dev/snd/", ["/dev/snd/pcm0", "/dev/snd/by-path/x"]]]);
      const planned = body(
        { devices: [device({ host_path: "/dev/snd/", container_path: "/dev/audio", permissions: "rw" })] },
        { inputs: { devices } },
      );
      assert.deepEqual(planned.HostConfig.Devices, [
        { PathOnHost: "/dev/snd/pcm0", PathInContainer: "/dev/audio/pcm0", CgroupPermissions: "rw" },
        {
          PathOnHost: "/dev/snd/by-path/x",
          PathInContainer: "/dev/audio/by-path/x",
          CgroupPermissions: "rw",
        },
      ]);
    });
    test("a single device may have another name in the container", () => {
      const planned = body(
        { devices: [device({ host_path: "/dev/kvm", container_path: "/dev/k" })] },
        { inputs: { devices: new Map([["/dev/kvm", ["/dev/kvm"]]]) } },
      );
      assert.equal(planned.HostConfig.Devices?.[0]?.PathInContainer, "/dev/k");
    });
    test("a path with a problem is refused with it", () => {
      const problem = { kind: "invalid", reason: "does not exist" } as const;
      assert.throws(
        () =>
          body(
            { devices: [device({ host_path: "/dev/kvm" })] },
            { inputs: { devices: new Map([["/dev/kvm", problem]]) } },
          ),
        refusal("invalid", /^config\.devices\[0\]\.host_path "\/dev\/kvm": does not exist$/),
      );
    });
    for (const path of ["/", "/etc", "/dev/../etc", "/dev"]) {
      test(`${path} is refused when the node cannot be examined`, () => {
        assert.throws(
          () => body({ devices: [device({ host_path: path })] }),
          refusal("unsupported", /^config\.devices\[0\]\.host_path "/),
        );
      });
    }
  });

  describe("StopTimeout", () => {
    const graceOf = (annotations: Readonly<Record<string, string>>): number | undefined =>
      body({ annotations }).StopTimeout;

    for (const [text, expected] of [
      ["30", 30],
      ["0", 2],
      ["-1", 2],
      ["1800", 1800],
      ["9223372036854775807", 1800],
      ["", undefined],
      ["30s", undefined],
      ["1e3", undefined],
    ] as const) {
      test(`for the grace period ${JSON.stringify(text)} is ${expected}`, () => {
        assert.equal(graceOf({ "io.kubernetes.pod.terminationGracePeriod": text }), expected);
      });
    }

    test("is the engine's default without a grace period in the container's annotations, also with one in the pod's", () => {
      assert.equal("StopTimeout" in body({}), false);
      const pod = { annotations: { "io.kubernetes.pod.terminationGracePeriod": "99" } };
      assert.equal(planContainer(createRequest({}, pod), containerContext()).body.StopTimeout, undefined);
    });

    const property = "org.systemd.property.TimeoutStopUSec";
    const annotations = { "io.kubernetes.pod.terminationGracePeriod": "45" };
    const annotationsOf = (facts: Partial<NodeFacts>, context: Partial<ContainerContext> = {}) =>
      body(
        { annotations: { ...annotations, [property]: "uint64 7" } },
        { facts: nodeFacts(facts), oneContainerdShimPerPod: false, ...context },
      ).HostConfig.Annotations;

    test("is the timeout of the systemd scope, too, where the engine uses scopes and takes annotations", () => {
      assert.deepEqual(annotationsOf({ cgroupDriver: "systemd", apiMinor: 43 }), {
        [property]: "uint64 45000000",
      });
      assert.equal(annotationsOf({ cgroupDriver: "systemd", apiMinor: 42 }), undefined);
      assert.equal(annotationsOf({ cgroupDriver: "cgroupfs", apiMinor: 43 }), undefined);
      assert.equal(annotationsOf({ cgroupDriver: "none", apiMinor: 43 }), undefined);
    });

    test("a property that pods may set has precedence", () => {
      const allowed = { allowedAnnotations: ["org.systemd.property."] };
      assert.deepEqual(annotationsOf({ cgroupDriver: "systemd", apiMinor: 43 }, allowed), {
        [property]: "uint64 7",
      });
    });
  });

  describe("annotations for the OCI runtime", () => {
    const request = createRequest(
      { annotations: { "run.oci.a": "container", "run.oci.b": "b", runx: "no" } },
      {
        annotations: {
          "run.oci.a": "pod",
          "run.oci.p": "p",
          "io.x": "exact",
          "io.xy": "longer",
          other: "no",
        },
      },
    );
    const planned = (allowedAnnotations: readonly string[], apiMinor = 43) =>
      planContainer(
        request,
        containerContext({
          facts: nodeFacts({ apiMinor }),
          allowedAnnotations,
          oneContainerdShimPerPod: false,
        }),
      ).body.HostConfig;

    test("are those of the pod and of the container whose keys begin with an allowed prefix", () => {
      assert.deepEqual(planned(["run.oci.", "io.x"]).Annotations, {
        "run.oci.a": "container",
        "run.oci.b": "b",
        "run.oci.p": "p",
        "io.x": "exact",
        "io.xy": "longer",
      });
    });

    test("are none by default, when none match, and for engines that know none", () => {
      assert.equal("Annotations" in planned([]), false);
      assert.equal("Annotations" in planned(["no.such."]), false);
      assert.equal("Annotations" in planned(["run.oci."], 42), false);
    });
  });

  test("has the node's default ulimits", () => {
    const defaultUlimits = [{ Name: "nofile", Soft: 1024, Hard: 524288 }];
    assert.deepEqual(body({}, { defaultUlimits }).HostConfig.Ulimits, defaultUlimits);
    assert.equal("Ulimits" in body({}).HostConfig, false);
  });

  describe("CDI", () => {
    const config = { CDI_devices: [{ name: "v.com/c=d" }] };
    test("the environment of devices that the engine injects is the container's own, so that execs have it", () => {
      const facts = nodeFacts({ apiMinor: 44, cdi: true });
      const envs = [{ key: "A", value: Buffer.from("1") }];
      const cdi = { env: ["A=cdi", "A=last"], devices: [], mounts: [], groups: [] };
      const planned = body({ ...config, envs }, { facts, inputs: { cdi } });
      assert.deepEqual(planned.Env, ["A=last"]);
      assert.deepEqual(containerNeeds(createRequest(config)).cdiDevices, ["v.com/c=d"]);
    });
    test("the engine injects the devices of the field and of annotations where it can", () => {
      const facts = nodeFacts({ apiMinor: 44, cdi: true });
      const annotations = { "cdi.k8s.io/v": "v.com/c=e,v.com/c=d" };
      const names = ["v.com/c=d", "v.com/c=e"];
      assert.deepEqual(body({ ...config, annotations }, { facts }).HostConfig.DeviceRequests, [
        { Driver: "cdi", DeviceIDs: names },
      ]);
      assert.deepEqual(containerNeeds(createRequest({ ...config, annotations })).cdiDevices, names);
    });
    test("elsewhere the node's specifications are merged in", () => {
      const cdi = {
        env: ["A=cdi", "C=3"],
        devices: [{ PathOnHost: "/dev/x", PathInContainer: "/dev/x", CgroupPermissions: "rwm" }],
        mounts: [{ Type: "bind", Source: "/l", Target: "/l" }],
        groups: ["44"],
      } as const;
      const envs = [
        { key: "A", value: Buffer.from("1") },
        { key: "B", value: Buffer.from("2") },
      ];
      // The device's mount hides that of the request.
      const mounts = [mount({ container_path: "/l/" })];
      const planned = body({ ...config, envs, mounts }, { inputs: { cdi } });
      assert.deepEqual(containerNeeds(createRequest(config)).cdiDevices, ["v.com/c=d"]);
      assert.deepEqual(planned.Env, ["B=2", "A=cdi", "C=3"]);
      assert.deepEqual(planned.HostConfig.Devices, cdi.devices);
      assert.deepEqual(planned.HostConfig.Mounts, cdi.mounts);
      assert.deepEqual(planned.HostConfig.GroupAdd, ["44"]);
      assert.equal(planned.HostConfig.DeviceRequests, undefined);
    });
  });

  test("cgroup settings go into the plan, not into the body", () => {
    const facts = nodeFacts({ cgroupVersion: 2 });
    const linux = containerLinux({
      resources: resources({
        unified: { "memory.high": "1000" },
        hugepage_limits: [{ page_size: "2MB", limit: "18446744073709551615" }],
      }),
    });
    const plan = planContainer(createRequest({ linux }), containerContext({ facts }));
    assert.deepEqual(plan.cgroup, {
      unified: { "memory.high": "1000" },
      hugepages: [{ pageSize: "2MB", limitBytes: 18446744073709551615n }],
    });
    assert.equal(planContainer(createRequest(), containerContext()).cgroup, undefined);
  });
});

test("containerNeeds() names each thing once", () => {
  const needs = containerNeeds(
    createRequest({
      mounts: [
        mount({ host_path: "/a" }),
        mount({ host_path: "/a", container_path: "/b" }),
        mount({ host_path: "/c" }),
        mount({ host_path: "", image: imageSpec("model:1"), container_path: "/m" }),
      ],
      devices: [device(), device({ container_path: "/dev/other" })],
      linux: containerLinux({
        security_context: containerSecurity({
          seccomp: { profile_type: 2, localhost_ref: "/p.json" },
          apparmor: { profile_type: 2, localhost_ref: "localhost/prof" },
          run_as_user: { value: "5" },
          run_as_group: { value: "6" },
        }),
      }),
    }),
  );
  assert.deepEqual(needs, {
    seccompProfilePath: "/p.json",
    appArmorProfile: "prof",
    hostPaths: ["/a", "/c"],
    imageVolumes: [{ index: 3, image: "model:1", subPath: "", containerPath: "/m" }],
    devicePaths: ["/dev/fuse"],
    cdiDevices: [],
    imageUser: { user: "5" },
  });
});
