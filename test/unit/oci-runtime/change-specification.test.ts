import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { OciChanges } from "../../../src/domain/oci-changes.js";
import { formatJson, isObject, parseJson } from "../../../src/lib/json/exact-json.js";
import { changeSpecification } from "../../../src/shim/oci-runtime/change-specification.js";
import type { CgroupSettings } from "../../../src/shim/ports/host.js";

const noLimits = { unified: {}, hugepages: [] };

/** Texts, so that the values of the kernel's size are compared as they are written. */
function changed(text: string, changes: OciChanges, limits: Partial<CgroupSettings> = {}): string {
  const specification = parseJson(text);
  assert.ok(isObject(specification));
  return formatJson(changeSpecification(specification, changes, { ...noLimits, ...limits }));
}

describe("changeSpecification()", () => {
  test("keeps all that the changes do not name, and integers beyond 2^53", () => {
    const text =
      '{"ociVersion":"1.2.0","later":{"x":[1.50,18446744073709551615,null]},"process":{"args":["<&>"]},"linux":{"seccomp":{"a":9007199254740993}}}';
    assert.equal(changed(text, {}), text);
    assert.equal(
      changed(text, { limits: ["unified"] }, { unified: { "memory.high": "1" } }),
      text.replace(/\}\}$/, ',"resources":{"unified":{"memory.high":"1"}}}}'),
    );
  });

  test("makes ambient capabilities permitted and inheritable, too", () => {
    const text =
      '{"process":{"capabilities":{"bounding":["CAP_KILL"],"effective":["CAP_KILL","CAP_NET_RAW"]},"cwd":"/"}}';
    const both = '["CAP_KILL","CAP_NET_RAW"]';
    assert.equal(
      changed(text, { ambientCapabilities: ["CAP_NET_RAW"] }),
      `{"process":{"capabilities":{"bounding":${both},"effective":${both},"permitted":["CAP_NET_RAW"],"inheritable":["CAP_NET_RAW"],"ambient":["CAP_NET_RAW"]},"cwd":"/"}}`,
    );
  });

  test("adds options to the mounts of their paths alone", () => {
    const text =
      '{"mounts":[{"destination":"/a","options":["rbind"]},{"destination":"/b"},{"destination":"/c"}]}';
    assert.equal(
      changed(text, { mountOptions: { "/a": ["noexec", "nodev"], "/b": ["nosuid"] } }),
      '{"mounts":[{"destination":"/a","options":["rbind","noexec","nodev"]},{"destination":"/b","options":["nosuid"]},{"destination":"/c"}]}',
    );
  });

  test("fails when Docker made no mount at a path", () => {
    assert.throws(() => changed("{}", { mountOptions: { "/a": ["noexec"] } }), {
      kind: "precondition",
      message: 'Docker made no mount at "/a"',
    });
  });

  test("adds mounts before those that they would hide, hooks behind those of Docker, and owners of devices", () => {
    const text =
      '{"mounts":[{"destination":"/ab"},{"destination":"/a/b"},{"destination":"/c"}],"hooks":{"prestart":[{"path":"/d"}]},"linux":{"devices":[{"path":"/dev/x","type":"c","fileMode":8630},{"path":"/dev/y"}]}}';
    const mount = { type: "bind", source: "/s", options: ["bind", "nosuid"] };
    const made = (destination: string): string =>
      `{"destination":"${destination}","type":"bind","source":"/s","options":["bind","nosuid"]}`;
    assert.equal(
      changed(text, {
        mounts: [
          { destination: "/a", ...mount },
          { destination: "/c/d", ...mount },
        ],
        hooks: { prestart: [{ path: "/h", args: ["h"] }], poststop: [{ path: "/p", timeout: 5 }] },
        deviceOwners: { "/dev/x": { fileMode: 384, uid: 5 } },
      }),
      `{"mounts":[{"destination":"/ab"},${made("/a")},{"destination":"/a/b"},{"destination":"/c"},${made("/c/d")}],"hooks":{"prestart":[{"path":"/d"},{"path":"/h","args":["h"]}],"poststop":[{"path":"/p","timeout":5}]},"linux":{"devices":[{"path":"/dev/x","type":"c","fileMode":384,"uid":5},{"path":"/dev/y"}]}}`,
    );
    assert.throws(() => changed(text, { deviceOwners: { "/dev/z": { uid: 1 } } }), {
      kind: "precondition",
      message: 'Docker made no device "/dev/z"',
    });
  });

  test("adds limits of hugepages of the kernel's size", () => {
    const hugepages = [{ pageSize: "2MB", limitBytes: 2n ** 64n - 1n }];
    assert.equal(
      changed(
        '{"linux":{"resources":{"cpu":{}}}}',
        { limits: ["hugepages"] },
        { hugepages, unified: { "a.b": "1" } },
      ),
      '{"linux":{"resources":{"cpu":{},"hugepageLimits":[{"pageSize":"2MB","limit":18446744073709551615}]}}}',
    );
  });

  test("adds unified limits to those that are there, and only where the changes say so", () => {
    const text = '{"linux":{"resources":{"memory":{"limit":1},"unified":{"a.b":"1","c.d":"2"}}}}';
    assert.equal(
      changed(text, { limits: ["unified"] }, { unified: { "a.b": "max" } }),
      '{"linux":{"resources":{"memory":{"limit":1},"unified":{"a.b":"max","c.d":"2"}}}}',
    );
    assert.equal(changed(text, {}, { unified: { "a.b": "max" } }), text);
  });

  describe("of a pod with a user namespace", () => {
    const users = { uids: { hostId: 1000, size: 10 }, gids: { hostId: 2000, size: 20 } };
    const uids = '"uidMappings":[{"containerID":0,"hostID":1000,"size":10}]';
    const gids = '"gidMappings":[{"containerID":0,"hostID":2000,"size":20}]';

    test("makes the namespace for a sandbox, maps Docker's own files, and takes no ids that are not mapped", () => {
      const source = `/d/containers/${"0".repeat(64)}/hosts`;
      const text = `{"root":{"path":"/old","readonly":true},"mounts":[{"destination":"/etc/hosts","source":"${source}","options":["rbind"]},{"destination":"/v","source":"/etc/hosts"}],"linux":{"sysctl":{"a":"b","net.ipv4.ping_group_range":"0 2147483647"},"namespaces":[{"type":"ipc"}]}}`;
      const specification = parseJson(text);
      assert.ok(isObject(specification));
      assert.equal(
        formatJson(changeSpecification(specification, { users }, noLimits, "/new")),
        `{"root":{"path":"/new","readonly":true},"mounts":[{"destination":"/etc/hosts","source":"${source}","options":["rbind","idmap"],${uids},${gids}},{"destination":"/v","source":"/etc/hosts"}],"linux":{"sysctl":{"a":"b","net.ipv4.ping_group_range":"0 19"},"namespaces":[{"type":"ipc"},{"type":"user"}],${uids},${gids}}}`,
      );
    });

    test("has a container join that of its sandbox, by the process that Docker names, and maps its volumes", () => {
      const text =
        '{"root":{"path":"/old"},"mounts":[{"destination":"/v","source":"/s"}],"linux":{"namespaces":[{"type":"mount"},{"type":"network","path":"/proc/12/ns/net"}]}}';
      const specification = parseJson(text);
      assert.ok(isObject(specification));
      const changes = { users: { ...users, joins: true }, mappedMounts: { "/v": users } } as const;
      assert.equal(
        formatJson(changeSpecification(specification, changes, noLimits, "/new")),
        `{"root":{"path":"/new"},"mounts":[{"destination":"/v","source":"/s",${uids},${gids},"options":["idmap"]}],"linux":{"namespaces":[{"type":"mount"},{"type":"network","path":"/proc/12/ns/net"},{"type":"user","path":"/proc/12/ns/user"}]}}`,
      );
    });

    test("fails for a container that joins no process", () => {
      assert.throws(() => changed('{"linux":{"namespaces":[]}}', { users: { ...users, joins: true } }), {
        kind: "precondition",
      });
    });
  });
});
