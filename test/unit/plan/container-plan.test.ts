import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CreateBody } from "../../../src/domain/create-body.js";
import type { LinuxContainerSecurityContext } from "../../../src/domain/cri.js";
import type { ErrorKind } from "../../../src/lib/errors.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import type { ValidContainerConfig } from "../../../src/domain/requests.js";
import {
  containerNeeds,
  planContainer,
  type ContainerContext,
} from "../../../src/shim/plan/container-plan.js";
import { containerResources as resources, imageSpec } from "../../fakes/requests.js";
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
import { refusal } from "../../support/refusals.js";

type Context = Partial<ContainerContext>;
type Security = Partial<LinuxContainerSecurityContext>;

function body(config: Partial<ValidContainerConfig>, context: Context = {}): CreateBody {
  return planContainer(createRequest(config), containerContext(context)).body;
}

function secured(security: Security, context: Context = {}): CreateBody {
  return body({ linux: containerLinux({ security_context: containerSecurity(security) }) }, context);
}

const joined = `container:${sandboxId}`;
const mayGain = "no-new-privileges=false";
const { sandbox } = containerContext();
const inSandbox = (changes: Partial<typeof sandbox.snapshot>): Context => ({
  sandbox: { ...sandbox, snapshot: { ...sandbox.snapshot, ...changes } },
});
const remapped = nodeFacts({ security: { ...nodeFacts().security, usernsRemap: true } });
const noAppArmor = nodeFacts({ security: { ...nodeFacts().security, apparmor: false } });
const unconfined = { profile_type: 1, localhost_ref: "" } as const;
const localhost = { profile_type: 2, localhost_ref: "/p" } as const;
const appArmor = { apparmor: { profile_type: 2, localhost_ref: "prof" } } as const;
const privileged = { privileged: true } as const;
const nofile = { Name: "nofile", Soft: 1024, Hard: 524288 };
const selinux = { user: "", role: "", type: "t", level: "l" };
const paths = { masked_paths: ["/proc/kcore"], readonly_paths: ["/proc/bus"] };
const ofPrivileged = inSandbox(privileged);
const noPaths = { MaskedPaths: undefined, ReadonlyPaths: undefined };
const mapping = [{ container_id: 0, host_id: 1000, length: 65_536 }];
const ofMappedPod = {
  namespace_options: namespaces({ userns_options: { mode: 0, uids: mapping, gids: mapping } }),
} as const;
const ids = { hostId: 1000, size: 65_536 };
const podUsers = { uids: ids, gids: ids };
const without = { facts: noAppArmor };
const cgroupNamespace = (cgroupVersion: 1 | 2): Context => ({ facts: nodeFacts({ cgroupVersion }) });

describe("planContainer()", () => {
  test("leaves out fields whose empty values have a meaning", () => {
    const planned = secured({ namespace_options: namespaces({ pid: 1 }) });
    for (const field of ["Entrypoint", "Cmd", "Env", "User", "WorkingDir", "StopSignal", "StopTimeout"])
      assert.equal(field in planned, false, field);
    const ofHost = ["MaskedPaths", "ReadonlyPaths", "CapAdd", "CapDrop", "Mounts", "Binds", "PidMode"];
    for (const field of [...ofHost, "Runtime", "Ulimits", "UTSMode", "UsernsMode"])
      assert.equal(field in planned.HostConfig, false, field);
  });

  test("leaves to the engine's configuration nothing that the request decides", () => {
    const plan = planContainer(createRequest(), containerContext());
    const { Healthcheck, HostConfig } = plan.body;
    assert.deepEqual(Healthcheck, { Test: ["NONE"] });
    const { RestartPolicy, Init, SecurityOpt, ShmSize, IpcMode } = HostConfig;
    assert.deepEqual([RestartPolicy, Init, IpcMode], [{ Name: "no" }, false, joined]);
    assert.ok(SecurityOpt?.includes(mayGain) === true && ShmSize !== undefined);
    assert.equal(plan.name, "k8s_c1_web-0_default_uid-1_1");
    assert.equal(plan.alternativeName(1), "k8s_c1_web-0_default_uid-1_1_00000001");
  });

  const optionsOf = (part: Parameters<typeof namespaces>[0]): Security => ({
    namespace_options: namespaces(part),
  });
  const rows: readonly (readonly [
    what: string,
    Security,
    Context,
    expected: { readonly [Key in keyof CreateBody["HostConfig"]]?: unknown },
  ])[] = [
    ["PID namespace of the pod", optionsOf({ pid: 0 }), {}, { PidMode: joined }],
    ["PID namespace of its own", optionsOf({ pid: 1 }), {}, { PidMode: undefined }],
    ["PID namespace of the node", optionsOf({ pid: 2 }), {}, { PidMode: "host" }],
    ["PID namespace of others", optionsOf({ pid: 3, target_id: "a" }), {}, { PidMode: "container:full-a" }],
    ["IPC namespace of its own", optionsOf({ ipc: 1 }), {}, { IpcMode: "private" }],
    ["UTS namespace on the host's network", optionsOf({ network: 2 }), {}, { UTSMode: "host" }],
    ["UTS namespace of such a pod", {}, { sandbox: { ...sandbox, hostNetwork: true } }, { UTSMode: "host" }],
    ["the engine's default runtime", {}, inSandbox({ runtime: "runc" }), { Runtime: undefined }],
    ["no runtime", {}, inSandbox({ runtime: "" }), { Runtime: undefined }],
    ["another runtime of the sandbox", {}, inSandbox({ runtime: "runsc" }), { Runtime: "runsc" }],
    ["cgroup v2", {}, cgroupNamespace(2), { CgroupnsMode: "private" }],
    ["cgroup v2, privileged", privileged, cgroupNamespace(2), { CgroupnsMode: "host" }],
    ["cgroup v1", {}, cgroupNamespace(1), { CgroupnsMode: "host" }],
    ["remapped users", {}, { facts: remapped }, { UsernsMode: undefined }],
    ["remapped users, privileged", privileged, { facts: remapped }, { UsernsMode: "host" }],
    ["remapped users, of the sandbox", {}, { facts: remapped, ...ofPrivileged }, { UsernsMode: "host" }],
    ["masked paths", paths, {}, { MaskedPaths: ["/proc/kcore"], ReadonlyPaths: ["/proc/bus"] }],
    [
      "masked paths without read-only ones",
      { masked_paths: ["/a"] },
      {},
      { MaskedPaths: ["/a"], ReadonlyPaths: [] },
    ],
    ["no paths, which may be nothing said", {}, {}, noPaths],
    [
      "no paths in a pod with its own users",
      ofMappedPod,
      { podUsers },
      { MaskedPaths: [], ReadonlyPaths: [] },
    ],
    ["masked paths, privileged", { ...paths, ...privileged }, {}, noPaths],
    ["the node's default ulimits", {}, { defaultUlimits: [nofile] }, { Ulimits: [nofile] }],
  ];
  for (const [what, security, context, expected] of rows) {
    test(`gives Docker what ${what} means`, () => {
      const planned = secured(security, context).HostConfig;
      const found = Object.keys(expected).map((key) => [key, planned[key as keyof typeof planned]]);
      assert.deepEqual(Object.fromEntries(found), expected);
    });
  }

  const all = { selinux_options: selinux, apparmor_profile: "localhost/p", no_new_privs: true };
  const large = { inputs: { seccompProfile: '{\n "value": 18446744073709551615,\t"a": "x \\" y"\n}\n' } };
  const compact = 'seccomp={"value":18446744073709551615,"a":"x \\" y"}';
  const both = { apparmor: unconfined, apparmor_profile: "localhost/x" };
  const inOrder = ["label=type:t", "label=level:l", "apparmor=p", "no-new-privileges", "seccomp=unconfined"];
  const bare = [mayGain, "seccomp=unconfined"];
  const options: readonly (readonly [what: string, Security, Context, expected: readonly string[]])[] = [
    ["none", {}, {}, bare],
    ["RuntimeDefault by message", { seccomp: { profile_type: 0, localhost_ref: "" } }, {}, [mayGain]],
    ["RuntimeDefault by text", { seccomp_profile_path: "docker/default" }, {}, [mayGain]],
    ["privileged without seccomp", { ...privileged, seccomp: unconfined }, {}, [mayGain]],
    ["AppArmor by message", both, {}, ["apparmor=unconfined", ...bare]],
    ["all, in order", all, {}, inOrder],
    ["AppArmor where there is none", { apparmor_profile: "runtime/default" }, { facts: noAppArmor }, bare],
    ["a profile with numbers that JavaScript would round", { seccomp: localhost }, large, [mayGain, compact]],
  ];
  for (const [what, security, context, expected] of options) {
    test(`gives Docker security options: ${what}`, () => {
      assert.deepEqual(secured(security, context).HostConfig.SecurityOpt, expected);
    });
  }

  const ownNetwork = optionsOf({ network: 1 });
  const ghost = { run_as_username: "ghost", supplemental_groups_policy: 1 } as const;
  const notUtf8 = { envs: [{ key: "KEY", value: Buffer.from([0x73, 0xff]) }] };
  const kvm = { devices: [device({ host_path: "/dev/kvm" })] };
  const problems: Context = {
    inputs: { devices: new Map([["/dev/kvm", { kind: "invalid", reason: "does not exist" }]]) },
  };
  const noProfile = { inputs: { loadedAppArmorProfiles: new Set(["other"]) } };
  const cannotLoad = /seccomp\.localhost_ref: cannot load seccomp profile "\/p"/;
  const utf8 =
    /^config\.envs\[0\]\.value: the value of KEY is not UTF-8: Docker and OCI runtimes read JSON, /;
  const refused: readonly (readonly [what: string, () => unknown, ErrorKind, RegExp])[] = [
    ["its own network", () => secured(ownNetwork), "unsupported", /namespace_options\.network "CONTAINER"/],
    ...["", "not json", "[]", "null", '"text"'].map((seccompProfile) => {
      const plan = () => secured({ seccomp: localhost }, { inputs: { seccompProfile } });
      return [`the seccomp profile ${JSON.stringify(seccompProfile)}`, plan, "invalid", cannotLoad] as const;
    }),
    [
      "an AppArmor profile that is not loaded",
      () => secured(appArmor, noProfile),
      "precondition",
      /apparmor\.localhost_ref "prof": no such AppArmor profile/,
    ],
    ["AppArmor where it is not", () => secured(appArmor, without), "unsupported", /runs without AppArmor/],
    ["an unknown user that must be resolved", () => secured(ghost), "invalid", /unable to find user "ghost"/],
    ["an environment that is not UTF-8, without showing it", () => body(notUtf8), "unsupported", utf8],
    [
      "a device with a problem",
      () => body(kvm, problems),
      "invalid",
      /^config\.devices\[0\]\.host_path "\/dev\/kvm": does not exist$/,
    ],
    ...["/", "/etc", "/dev/../etc", "/dev"].map((host_path) => {
      const plan = () => body({ devices: [device({ host_path })] });
      return [
        `the device ${host_path} of a node that cannot be examined`,
        plan,
        "unsupported",
        /^config\.devices\[0\]\.host_path "/,
      ] as const;
    }),
  ];
  for (const [what, plan, kind, message] of refused) {
    test(`refuses ${what}`, () => {
      assert.throws(plan, refusal(kind, message));
    });
  }

  for (const [missing, linux] of [
    ["linux", null],
    ["security_context", containerLinux()],
    ["namespace_options", containerLinux({ security_context: containerSecurity() })],
    ["every mode", containerLinux({ security_context: containerSecurity(optionsOf({})) })],
  ] as const) {
    test(`joins network, IPC and PID namespace of the sandbox when ${missing} is missing`, () => {
      const { NetworkMode, IpcMode, PidMode } = body({ linux }).HostConfig;
      assert.deepEqual([NetworkMode, IpcMode, PidMode], [joined, joined, joined]);
    });
  }

  const app = { uid: 1000, gid: 1001, supplementaryGroups: [50, 29, 7], name: "app", home: "/" };
  const [user, group] = [{ run_as_user: { value: "1000" } }, { run_as_group: { value: "7" } }];
  const strict = { supplemental_groups_policy: 1 } as const;
  const added = { supplemental_groups: ["8"] };
  const two = { supplemental_groups: ["8", "50"] };
  for (const [what, security, expected, groups] of [
    ["Merge: Docker does it all", { ...user, ...added }, "1000", ["8"]],
    ["Merge by name", { run_as_username: "app" }, "app", undefined],
    ["Merge with a group adds more", { ...user, ...group, ...two }, "1000:7", ["8", "50", "29"]],
    ["Strict names the primary group", { ...user, ...strict }, "1000:1001", undefined],
    ["Strict with the image's user", { ...strict, ...added }, "1000:1001", ["8"]],
    ["Strict with a group needs nothing", { ...user, ...group, ...strict }, "1000:7", undefined],
  ] as const) {
    test(`user and groups, ${what}`, () => {
      const linux = containerLinux({ security_context: containerSecurity(security) });
      const needed = containerNeeds(createRequest({ linux })).imageUser !== undefined;
      const planned = body({ linux }, { inputs: needed ? { imageUser: app } : {} });
      assert.deepEqual([planned.User, planned.HostConfig.GroupAdd], [expected, groups]);
    });
  }

  test("joins log directory and log path, and says it in a label", () => {
    for (const [log_directory, log_path, expected] of [
      ["/var/log/pods/p", "c/0.log", "/var/log/pods/p/c/0.log"],
      ["/var/log/pods/p/", "./c//0.log", "/var/log/pods/p/c/0.log"],
      ["/var/log/pods/p", "/c/0.log", "/var/log/pods/p/c/0.log"],
      ["/", "0.log", "/0.log"],
      ["/var/log/pods/p", "", ""],
      ["", "c/0.log", ""],
    ] as const) {
      const plan = planContainer(createRequest({ log_path }, { log_directory }), containerContext());
      assert.equal(plan.logPath, expected);
      assert.equal(plan.body.Labels["io.kubernetes.container.logpath"], expected);
    }
  });

  test("keeps order and duplicates of the environment, and names stop signals", () => {
    const envs = ["ü=1", "2"].map((text) => ({ key: "A", value: Buffer.from(text) }));
    assert.deepEqual(body({ envs }).Env, ["A=ü=1", "A=2"]);
    assert.equal(body({ stop_signal: 38 }).StopSignal, "SIGRTMIN+3");
    assert.equal(body({ stop_signal: 19 }).StopSignal, "SIGSEGV");
  });

  test("makes a directory of devices the devices in it, each in its place; one may be renamed", () => {
    const devices = new Map([
      ["/dev/snd/", ["/dev/snd/pcm0", "/dev/snd/by-path/x"]],
      ["/dev/kvm", ["/dev/kvm"]],
    ]);
    const requested = [
      device({ host_path: "/dev/snd/", container_path: "/dev/audio", permissions: "rw" }),
      device({ host_path: "/dev/kvm", container_path: "/dev/k", permissions: "r" }),
    ];
    const { Devices = [] } = body({ devices: requested }, { inputs: { devices } }).HostConfig;
    const found = Devices.map((one) => [one.PathOnHost, one.PathInContainer, one.CgroupPermissions]);
    assert.deepEqual(found, [
      ["/dev/snd/pcm0", "/dev/audio/pcm0", "rw"],
      ["/dev/snd/by-path/x", "/dev/audio/by-path/x", "rw"],
      ["/dev/kvm", "/dev/k", "r"],
    ]);
  });

  describe("StopTimeout", () => {
    const period = "io.kubernetes.pod.terminationGracePeriod";
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
        assert.equal(body({ annotations: { [period]: text } }).StopTimeout, expected);
        const ofPod = createRequest({}, { annotations: { [period]: text } });
        assert.equal(planContainer(ofPod, containerContext()).body.StopTimeout, undefined);
      });
    }

    const property = "org.systemd.property.TimeoutStopUSec";
    const annotationsOf = (facts: Partial<NodeFacts>, context: Context = {}) =>
      body(
        { annotations: { [period]: "45", [property]: "uint64 7" } },
        { facts: nodeFacts(facts), oneContainerdShimPerPod: false, ...context },
      ).HostConfig.Annotations;

    test("is the timeout of the systemd scope, too, where the engine uses scopes and takes annotations", () => {
      const scope = { [property]: "uint64 45000000" };
      assert.deepEqual(annotationsOf({ cgroupDriver: "systemd", apiMinor: 43 }), scope);
      assert.equal(annotationsOf({ cgroupDriver: "systemd", apiMinor: 42 }), undefined);
      assert.equal(annotationsOf({ cgroupDriver: "cgroupfs", apiMinor: 43 }), undefined);
      assert.equal(annotationsOf({ cgroupDriver: "none", apiMinor: 43 }), undefined);
      const allowed = { allowedAnnotations: ["org.systemd.property."] };
      const ofPod = annotationsOf({ cgroupDriver: "systemd", apiMinor: 43 }, allowed);
      assert.deepEqual(ofPod, { [property]: "uint64 7" }, "a property that pods may set has precedence");
    });
  });

  test("gives the OCI runtime annotations of pod and container whose keys begin with an allowed prefix", () => {
    const annotations = {
      "run.oci.a": "pod",
      "run.oci.p": "p",
      "io.x": "exact",
      "io.xy": "longer",
      other: "no",
    };
    const own = { "run.oci.a": "container", "run.oci.b": "b", runx: "no" };
    const request = createRequest({ annotations: own }, { annotations });
    const planned = (allowedAnnotations: readonly string[], apiMinor = 43) => {
      const context = { facts: nodeFacts({ apiMinor }), allowedAnnotations, oneContainerdShimPerPod: false };
      return planContainer(request, containerContext(context)).body.HostConfig;
    };
    assert.deepEqual(planned(["run.oci.", "io.x"]).Annotations, {
      ...{ "run.oci.a": "container", "run.oci.b": "b", "run.oci.p": "p" },
      ...{ "io.x": "exact", "io.xy": "longer" },
    });
    assert.equal("Annotations" in planned([]), false);
    assert.equal("Annotations" in planned(["no.such."]), false);
    assert.equal("Annotations" in planned(["run.oci."], 42), false);
  });

  describe("CDI", () => {
    const config = { CDI_devices: [{ name: "v.com/c=d" }] };
    const facts = nodeFacts({ apiMinor: 44, cdi: true });
    const envs = ["A", "B"].map((key, index) => ({ key, value: Buffer.from(`${index + 1}`) }));

    test("devices of the field and of annotations are the engine's where it can, their environment the container's", () => {
      const annotations = { "cdi.k8s.io/v": "v.com/c=e,v.com/c=d" };
      const cdi = { env: ["A=cdi", "A=last"], devices: [], mounts: [], groups: [] };
      const planned = body({ ...config, annotations, envs }, { facts, inputs: { cdi } });
      assert.deepEqual(planned.Env, ["B=2", "A=last"]);
      const names = ["v.com/c=d", "v.com/c=e"];
      assert.deepEqual(planned.HostConfig.DeviceRequests, [{ Driver: "cdi", DeviceIDs: names }]);
      assert.deepEqual(containerNeeds(createRequest({ ...config, annotations })).cdiDevices, names);
    });

    test("devices are merged in from the node's specifications where the engine injects none", () => {
      const cdi = {
        env: ["A=cdi", "C=3"],
        devices: [{ PathOnHost: "/dev/x", PathInContainer: "/dev/x", CgroupPermissions: "rwm" }],
        mounts: [{ Type: "bind", Source: "/l", Target: "/l" }],
        groups: ["44"],
      } as const;
      // The device's mount hides that of the request.
      const mounts = [mount({ container_path: "/l/" })];
      const { Env, HostConfig } = body({ ...config, envs, mounts }, { inputs: { cdi } });
      assert.deepEqual(Env, ["B=2", "A=cdi", "C=3"]);
      const { Devices, Mounts, GroupAdd, DeviceRequests } = HostConfig;
      assert.deepEqual([Devices, Mounts, GroupAdd], [cdi.devices, cdi.mounts, ["44"]]);
      assert.equal(DeviceRequests, undefined);
    });

    test("owners of device nodes are refused in a pod with its own users, where runc ignores them", () => {
      const changes = { deviceOwners: { "/dev/x": { uid: 1 } } };
      const beyondDocker = { device: "v.com/c=d", part: "deviceNodes.uid", changes };
      const cdi = { env: [], devices: [], mounts: [], groups: [], beyondDocker };
      assert.doesNotThrow(() => secured({}, { inputs: { cdi } }));
      assert.throws(() => secured(ofMappedPod, { podUsers, inputs: { cdi } }), {
        kind: "unsupported",
        message: /CDI device "v.com\/c=d": .* owner or mode of "\/dev\/x" .* users of its own/,
      });
    });
  });

  test("keeps cgroup settings out of the body", () => {
    const unified = { "memory.high": "1000" };
    const hugepage_limits = [{ page_size: "2MB", limit: "18446744073709551615" }];
    const linux = containerLinux({ resources: resources({ unified, hugepage_limits }) });
    const plan = planContainer(createRequest({ linux }), containerContext(cgroupNamespace(2)));
    const hugepages = [{ pageSize: "2MB", limitBytes: 18446744073709551615n }];
    assert.deepEqual(plan.cgroup, { unified, hugepages });
    assert.equal(planContainer(createRequest(), containerContext()).cgroup, undefined);
  });
});

test("containerNeeds() names each thing once, and no path of a mount that a later one hides", () => {
  const security_context = containerSecurity({
    seccomp: { profile_type: 2, localhost_ref: "/p.json" },
    apparmor: { profile_type: 2, localhost_ref: "localhost/prof" },
    run_as_user: { value: "5" },
    run_as_group: { value: "6" },
  });
  const needs = containerNeeds(
    createRequest({
      mounts: [
        mount({ host_path: "/a" }),
        mount({ host_path: "/a", container_path: "/b" }),
        mount({ host_path: "/hidden", container_path: "/c" }),
        mount({ host_path: "/c", container_path: "/c/" }),
        mount({ host_path: "", image: imageSpec("model:1"), container_path: "/m" }),
      ],
      devices: [device(), device({ container_path: "/dev/other" })],
      linux: containerLinux({ security_context }),
    }),
  );
  assert.deepEqual(needs, {
    seccompProfilePath: "/p.json",
    appArmorProfile: "prof",
    hostPaths: ["/a", "/c"],
    imageVolumes: [{ index: 4, image: "model:1", subPath: "", containerPath: "/m" }],
    devicePaths: ["/dev/fuse"],
    cdiDevices: [],
    hugepages: false,
    imageUser: { user: "5" },
  });
});
