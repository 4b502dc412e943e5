import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode, type UserNamespace } from "../../../src/domain/cri.js";
import { ociRuntimeName } from "../../../src/domain/oci-changes.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { requestedUsers, whyNoUserNamespaces } from "../../../src/shim/plan/user-namespaces.js";
import { nodeFacts } from "../../fakes/node-facts.js";

const mapping = { container_id: 0, host_id: 1000, length: 65_536 };
const requested = (changes: Partial<UserNamespace>): UserNamespace => ({
  ...{ mode: NamespaceMode.POD, uids: [mapping], gids: [mapping] },
  ...changes,
});

describe("requestedUsers()", () => {
  test("are none for those of the node", () => {
    assert.equal(requestedUsers(null, "x"), undefined);
    assert.equal(requestedUsers(requested({ mode: NamespaceMode.NODE, uids: [], gids: [] }), "x"), undefined);
  });

  test("have one mapping of users and one of groups", () => {
    const gids = [{ ...mapping, host_id: 2000 }];
    assert.deepEqual(requestedUsers(requested({ gids }), "x"), {
      uids: { hostId: 1000, size: 65_536 },
      gids: { hostId: 2000, size: 65_536 },
    });
  });

  const refused: readonly (readonly [Partial<UserNamespace>, kind: string, message: RegExp])[] = [
    [{ mode: NamespaceMode.CONTAINER }, "unsupported", /^x\.mode: /],
    [{ mode: NamespaceMode.TARGET }, "unsupported", /^x\.mode: /],
    [{ mode: NamespaceMode.NODE }, "invalid", /^x: mode NODE takes no mappings$/],
    [{ uids: [] }, "invalid", /^x\.uids: must be one mapping$/],
    [{ gids: [mapping, mapping] }, "invalid", /^x\.gids: must be one mapping$/],
    [{ uids: [{ ...mapping, container_id: 1 }] }, "invalid", /^x\.uids\[0\]\.container_id "1": must be 0$/],
    [{ uids: [{ ...mapping, length: 0 }] }, "invalid", /^x\.uids\[0\]\.length "0": /],
    [{ gids: [{ ...mapping, length: 4_294_967_295 }] }, "invalid", /^x\.gids\[0\]\.length "4294967295": /],
  ];
  for (const [changes, kind, message] of refused)
    test(`are refused: ${JSON.stringify(changes)}`, () => {
      assert.throws(() => requestedUsers(requested(changes), "x"), { kind, message });
    });
});

describe("whyNoUserNamespaces()", () => {
  const runtime = { kind: "runc", recursiveReadOnly: true } as const;
  const runtimes = [
    { ...runtime, name: "runc" },
    { ...runtime, name: ociRuntimeName, mappedMounts: true },
  ];
  const why = (changes: Partial<NodeFacts>, problem?: string): string | undefined =>
    whyNoUserNamespaces(nodeFacts({ runtimes, ...changes }), problem);
  const { security } = nodeFacts();

  test("nothing is in the way of a pod on an overlay of Linux 5.19 with the OCI runtime", () => {
    assert.equal(why({ kernelVersion: "5.19.0" }), undefined);
    assert.equal(why({ storageDriver: "overlayfs", imageStore: "containerd" }), undefined);
  });

  const reasons: readonly (readonly [Partial<NodeFacts>, RegExp, problem?: string])[] = [
    [{}, /^Docker has no user namespaces of single pods, and it is gone$/, "it is gone"],
    [{ kernelVersion: "5.18.19" }, /^needs Linux 5\.19, the node runs 5\.18\.19$/],
    [{ storageDriver: "vfs" }, /^the storage driver "vfs" has no layers/],
    [{ security: { ...security, rootless: true } }, /^the engine maps the users of all containers$/],
    [{ security: { ...security, usernsRemap: true } }, /^the engine maps the users of all containers$/],
    [{ security: { ...security, selinux: true } }, /SELinux/],
    [{ runtimes: [{ ...runtime, name: ociRuntimeName }] }, /does not say that its runc can map mounts/],
  ];
  for (const [changes, reason, problem] of reasons)
    test(`tells: ${String(reason)}`, () => assert.match(why(changes, problem) ?? "", reason));
});
