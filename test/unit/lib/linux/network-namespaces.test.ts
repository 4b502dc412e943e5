import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { test } from "node:test";
import { isNamespace, KernelNamespaces } from "../../../../src/lib/linux/network-namespaces.js";

const namespaces = new KernelNamespaces();

test("look() knows this program's own namespace, by whatever path", () => {
  for (const path of ["/proc/self/ns/net", `/proc/${process.pid}/ns/net`]) {
    assert.equal(namespaces.look(path)?.own, true, path);
  }
});

test("look() tells processes in one namespace apart, and a process that is gone from all", async () => {
  const child = spawn("sleep", ["1000"]);
  const path = `/proc/${child.pid}/ns/net`;
  const [own, other] = [namespaces.look(`/proc/${process.pid}/ns/net`), namespaces.look(path)];
  assert.ok(own !== undefined && other !== undefined);
  assert.notEqual(own.identity, other.identity);
  assert.equal(namespaces.look(path)?.identity, other.identity);
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.equal(namespaces.look(path), undefined);
});

test("isNamespace() compares an open file with an identity", () => {
  const { identity = "" } = namespaces.look(`/proc/${process.pid}/ns/net`) ?? {};
  for (const [name, expected] of Object.entries({ net: true, uts: false })) {
    const descriptor = openSync(`/proc/self/ns/${name}`, "r");
    try {
      assert.equal(isNamespace(identity, descriptor), expected, name);
    } finally {
      closeSync(descriptor);
    }
  }
});

for (const path of ["/nonexistent", "/etc/hostname", "/proc/self/status", ""]) {
  test(`look() finds no namespace at ${JSON.stringify(path)}`, () => {
    assert.equal(namespaces.look(path), undefined);
  });
}
