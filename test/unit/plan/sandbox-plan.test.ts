import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { HostConfig } from "../../../src/domain/create-body.js";
import type {
  DNSConfig,
  LinuxPodSandboxConfig,
  LinuxSandboxSecurityContext,
} from "../../../src/domain/cri.js";
import { ShimError } from "../../../src/lib/errors.js";
import { planSandbox, type SandboxPlan } from "../../../src/shim/plan/sandbox-plan.js";
import { sysctlError } from "../../../src/shim/plan/sysctls.js";
import {
  namespaces,
  nodeFacts,
  runRequest,
  sandboxContext,
  sandboxLinux,
  sandboxSecurity,
} from "./builders.js";
import { refusal } from "./errors.js";

function linuxPlan(linux: Partial<LinuxPodSandboxConfig>, context = sandboxContext()): SandboxPlan {
  return planSandbox(runRequest({ linux: sandboxLinux(linux) }), context);
}

function securityPlan(
  security: Partial<LinuxSandboxSecurityContext>,
  context = sandboxContext(),
): HostConfig {
  return linuxPlan({ security_context: sandboxSecurity(security) }, context).body.HostConfig;
}

const dns = { servers: ["10.0.0.10", "fd00::a"], searches: ["a.local", "b.local"], options: ["ndots:5"] };
const ports = [
  { protocol: 2, container_port: 36412, host_port: 36412, host_ip: "fd00::1" },
  { protocol: 0, container_port: 9, host_port: 0, host_ip: "" },
] as const;
const mappings = [
  { protocol: "sctp", containerPort: 36412, hostPort: 36412, hostIp: "fd00::1" },
  { protocol: "tcp", containerPort: 9, hostPort: 0, hostIp: "" },
];

describe("planSandbox()", () => {
  test("contains everything that the steps after the create need", () => {
    const plan = planSandbox(
      runRequest({
        dns_config: dns,
        port_mappings: ports,
        annotations: { a: "b" },
        log_directory: "/var/log/p",
      }),
      sandboxContext(),
    );
    const { body: _body, alternativeName, ...rest } = plan;
    assert.deepEqual(rest, {
      identity: { name: "web-0", namespace: "default", uid: "uid-1", attempt: 2 },
      name: "k8s_POD_web-0_default_uid-1_2",
      checkpoint: { namespace: "default", name: "web-0", hostNetwork: false, portMappings: mappings },
      hostNetwork: false,
      resolvConf: "nameserver 10.0.0.10\nnameserver fd00::a\nsearch a.local b.local\noptions ndots:5\n",
      networkRequest: {
        namespace: "default",
        name: "web-0",
        uid: "uid-1",
        annotations: { a: "b" },
        portMappings: mappings,
        cgroupParent: "",
        dns,
      },
      namespaces: { network: 0, pid: 0, ipc: 0 },
      runtimeHandler: "",
      cgroupParent: "",
      logDirectory: "/var/log/p",
    });
    assert.equal(alternativeName(0xbeef), "k8s_POD_web-0_default_uid-1_2_0000beef");
  });

  test("passes the annotations that are allowed to the OCI runtime of engines that take them", () => {
    const request = runRequest({ annotations: { "run.oci.a": "1", other: "2" } });
    const planned = (apiMinor: number, allowedAnnotations: readonly string[]) =>
      planSandbox(request, sandboxContext({ facts: nodeFacts({ apiMinor }), allowedAnnotations })).body
        .HostConfig;
    assert.deepEqual(planned(43, ["run.oci."]).Annotations, { "run.oci.a": "1" });
    assert.equal("Annotations" in planned(42, ["run.oci."]), false);
    assert.equal("Annotations" in planned(43, []), false);
  });

  test("with the host's network has no network request, publishes nothing and still has resolv.conf", () => {
    const linux = sandboxLinux({
      security_context: sandboxSecurity({ namespace_options: namespaces({ network: 2 }) }),
    });
    const plan = planSandbox(runRequest({ dns_config: dns, port_mappings: ports, linux }), sandboxContext());
    assert.equal(plan.hostNetwork, true);
    assert.equal(plan.networkRequest, undefined);
    assert.deepEqual(plan.checkpoint, {
      namespace: "default",
      name: "web-0",
      hostNetwork: true,
      portMappings: mappings,
    });
    assert.equal(plan.body.HostConfig.PortBindings, undefined);
    assert.equal(plan.body.ExposedPorts, undefined);
    assert.match(plan.resolvConf ?? "", /^nameserver 10/);
    assert.deepEqual(plan.namespaces, { network: 2, pid: 0, ipc: 0 });
  });

  test("leaves the engine's resolv.conf without a DNS configuration, and empties it for an empty one", () => {
    const empty = { servers: [], searches: [], options: [] };
    const of = (dns_config: DNSConfig | null, apiOnlyDns: boolean) => {
      const { resolvConf, body } = planSandbox(runRequest({ dns_config }), sandboxContext({ apiOnlyDns }));
      return [resolvConf, body.HostConfig.Dns, body.HostConfig.DnsSearch];
    };
    assert.deepEqual(of(null, false), [undefined, undefined, undefined]);
    assert.deepEqual(of(empty, false), ["", undefined, undefined]);
    assert.deepEqual(of({ ...empty, searches: ["a"] }, false), ["search a\n", undefined, undefined]);
    // Out of reach, the engine would take empty lists for its own servers, or public ones.
    assert.deepEqual(of(null, true), [undefined, undefined, undefined]);
    assert.deepEqual(of(empty, true), [undefined, ["127.0.0.1"], ["."]]);
  });

  test("puts DNS into the body when the engine's files are out of reach", () => {
    const plan = planSandbox(runRequest({ dns_config: dns }), sandboxContext({ apiOnlyDns: true }));
    assert.equal(plan.resolvConf, undefined);
    assert.deepEqual(plan.body.HostConfig.Dns, dns.servers);
    assert.deepEqual(plan.body.HostConfig.DnsSearch, dns.searches);
    assert.deepEqual(plan.body.HostConfig.DnsOptions, dns.options);
  });

  test("asks for the score that the host can give", () => {
    const context = sandboxContext({ oomScoreAdj: (wanted) => Math.max(wanted, -100) });
    assert.equal(planSandbox(runRequest(), context).body.HostConfig.OomScoreAdj, -100);
  });

  describe("runtime handler", () => {
    for (const [handler, runtime] of [
      ["", undefined],
      ["docker", undefined],
      ["runc", "runc"],
      ["runsc", "runsc"],
    ] as const) {
      test(`${JSON.stringify(handler)} is ${runtime}`, () => {
        const plan = planSandbox(runRequest({}, handler), sandboxContext());
        assert.equal(plan.body.HostConfig.Runtime, runtime);
        assert.equal(plan.runtimeHandler, handler);
      });
    }
    test("an unknown one is refused with the known ones", () => {
      assert.throws(
        () => planSandbox(runRequest({}, "kata"), sandboxContext()),
        refusal("invalid", /^RuntimeHandler "kata" not supported: .*"docker", "runc", "runsc"/),
      );
    });
  });

  describe("cgroup parent", () => {
    const slice = "/kubepods.slice/kubepods-podX.slice";
    for (const [driver, parent, expected] of [
      ["cgroupfs", slice, slice],
      ["systemd", slice, "kubepods-podX.slice"],
      ["systemd", `${slice}//`, "kubepods-podX.slice"],
      ["none", slice, undefined],
      ["systemd", "", undefined],
    ] as const) {
      test(`${driver} ${JSON.stringify(parent)}`, () => {
        const context = sandboxContext({ facts: nodeFacts({ cgroupDriver: driver }) });
        const plan = linuxPlan({ cgroup_parent: parent }, context);
        assert.equal(plan.body.HostConfig.CgroupParent, expected);
        assert.equal(plan.cgroupParent, parent);
      });
    }
    for (const [driver, parent] of [
      ["systemd", "/kubepods/podX"],
      ["systemd", "/"],
      ["cgroupfs", "/kubepods/../../x"],
    ] as const) {
      test(`${driver} refuses ${parent}`, () => {
        const context = sandboxContext({ facts: nodeFacts({ cgroupDriver: driver }) });
        assert.throws(
          () => linuxPlan({ cgroup_parent: parent }, context),
          refusal("invalid", /^config\.linux\.cgroup_parent "/),
        );
      });
    }
  });

  describe("sysctls", () => {
    for (const [name, options] of [
      ["net.core.somaxconn", { network: 2 }],
      ["net/ipv4/ip_forward", { network: 2 }],
      ["kernel.shmmax", { ipc: 2 }],
      ["fs.mqueue.msg_max", { ipc: 2 }],
    ] as const) {
      const withSysctl = (part: Parameters<typeof namespaces>[0]): HostConfig =>
        linuxPlan({
          sysctls: { [name]: "1" },
          security_context: sandboxSecurity({ namespace_options: namespaces(part) }),
        }).body.HostConfig;
      test(`${name} needs the pod's own namespace`, () => {
        assert.throws(
          () => withSysctl(options),
          refusal("invalid", /^config\.linux\.sysctls\[.*\]: not allowed/),
        );
        assert.deepEqual(withSysctl({}).Sysctls, { [name]: "1" });
      });
    }
    for (const name of ["kernel.panic", "vm.swappiness", "fs.file-max", "kernel.hostname", "0"]) {
      test(`${name} is of no namespace`, () => {
        assert.throws(
          () => linuxPlan({ sysctls: { [name]: "1" } }),
          refusal("invalid", /^config\.linux\.sysctls\[.*\]: not allowed/),
        );
      });
    }
    for (const [text, message] of [
      [
        "runc create failed: error during container init: write /proc/sys/net/ipv4/ip_forward: invalid argument: unknown",
        "config.linux.sysctls[net.ipv4.ip_forward]: invalid argument",
      ],
      [
        "open /proc/sys/net/nothing: no such file or directory: unknown",
        "config.linux.sysctls[net.nothing]: no such file or directory",
      ],
      // runc 1.3.6, which mounts a /proc of its own.
      [
        'failed to write sysctl net.ipv4.ip_forward = "x": write fsmount:fscontext:proc/./sys/net/ipv4/ip_forward: invalid argument',
        "config.linux.sysctls[net.ipv4.ip_forward]: invalid argument",
      ],
      [
        "unsafe procfs detected: openat2 fsmount:fscontext:proc/./sys/net/ipv4/gone: no such file or directory",
        "config.linux.sysctls[net.ipv4.gone]: no such file or directory",
      ],
    ] as const) {
      test(`a start that failed by a sysctl is INVALID_ARGUMENT: ${message}`, () => {
        const error = sysctlError(new ShimError("unknown", text));
        assert.deepEqual([error?.kind, error?.message], ["invalid", message]);
      });
    }
    test("a start that failed for another reason is no error of a sysctl", () => {
      assert.equal(sysctlError(new ShimError("unknown", "open /proc/self: no such file")), undefined);
    });
  });

  describe("security options", () => {
    const localhost = { profile_type: 2, localhost_ref: "/etc/p.json" } as const;
    const context = sandboxContext({ seccompProfile: '{ "defaultAction": "A B" }' });
    for (const [what, security, expected] of [
      ["nothing is the engine's default", {}, []],
      ["RuntimeDefault", { seccomp: { profile_type: 0, localhost_ref: "" } }, []],
      ["Unconfined", { seccomp: { profile_type: 1, localhost_ref: "" } }, ["seccomp=unconfined"]],
      ["Localhost", { seccomp: localhost }, ['seccomp={"defaultAction":"A B"}']],
      [
        "the old string",
        { seccomp_profile_path: "localhost//etc/p.json" },
        ['seccomp={"defaultAction":"A B"}'],
      ],
      [
        "the message before the string",
        { seccomp: { profile_type: 0, localhost_ref: "" }, seccomp_profile_path: "unconfined" },
        [],
      ],
      ["privileged without seccomp", { privileged: true, seccomp: localhost }, []],
    ] as const) {
      test(`seccomp: ${what}`, () => {
        assert.deepEqual(securityPlan(security, context).SecurityOpt, ["no-new-privileges", ...expected]);
      });
    }
    test("AppArmor comes before no-new-privileges and seccomp after it", () => {
      const options = securityPlan(
        {
          apparmor: { profile_type: 2, localhost_ref: "localhost/prof" },
          seccomp: { profile_type: 1, localhost_ref: "" },
        },
        sandboxContext({ loadedAppArmorProfiles: new Set(["prof"]) }),
      ).SecurityOpt;
      assert.deepEqual(options, ["apparmor=prof", "no-new-privileges", "seccomp=unconfined"]);
    });
  });

  test("has the node's cgroup namespace when privileged or with cgroup v1, else its own", () => {
    const v2 = sandboxContext({ facts: nodeFacts({ cgroupVersion: 2 }) });
    assert.equal(securityPlan({}, v2).CgroupnsMode, "private");
    assert.equal(securityPlan({ privileged: true }, v2).CgroupnsMode, "host");
    assert.equal(planSandbox(runRequest(), v2).body.HostConfig.CgroupnsMode, "private");
    assert.equal(securityPlan({}).CgroupnsMode, "host");
  });

  test("an engine with remapped users needs the host's for host namespaces and privileges, and only then", () => {
    const facts = nodeFacts({ security: { ...nodeFacts().security, usernsRemap: true } });
    const context = sandboxContext({ facts });
    assert.equal(securityPlan({}, context).UsernsMode, undefined);
    assert.equal(securityPlan({ privileged: true }, context).UsernsMode, "host");
    assert.equal(securityPlan({ namespace_options: namespaces({ network: 2 }) }, context).UsernsMode, "host");
    assert.equal(securityPlan({ namespace_options: namespaces({ pid: 2 }) }, context).UsernsMode, "host");
    assert.equal(securityPlan({ privileged: true }).UsernsMode, undefined);
  });

  test("leaves the user to the image, or sends user and group as given", () => {
    const plan = (security: Partial<LinuxSandboxSecurityContext>) =>
      linuxPlan({ security_context: sandboxSecurity(security) });
    assert.equal(plan({}).body.User, undefined);
    assert.equal(plan({ run_as_user: { value: "7" } }).body.User, "7");
    assert.throws(
      () => plan({ run_as_group: { value: "7" } }),
      refusal("invalid", /run_as_group: runAsGroup is specified without a runAsUser/),
    );
  });
});
