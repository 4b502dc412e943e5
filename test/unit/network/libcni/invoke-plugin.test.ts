import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, copyFile, open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { ShimError, type ErrorKind } from "../../../../src/lib/errors.js";
import type { NamespaceLook } from "../../../../src/lib/linux/network-namespaces.js";
import type { PluginCall } from "../../../../src/network/libcni/invoke-plugin.js";
import { FakePlugins, livingNetns, namespacesSeen } from "../cni/fake-plugins.js";
import { golden } from "../cni/golden.js";

const add: PluginCall = {
  type: "fake",
  command: "ADD",
  containerId: "abc",
  netns: livingNetns,
  netnsIdentity: "first",
  ifName: "eth0",
  args: Object.entries({ IgnoreUnknown: "1", K8S_POD_NAME: "web" }),
  input: { name: "demo", cniVersion: "0.4.0", type: "fake" },
  subject: 'pod "default/web"',
};
const never = new AbortController().signal;
const prefix = 'CNI plugin "fake" ADD for pod "default/web": ';

let plugins: FakePlugins;
before(async () => {
  plugins = await FakePlugins.create("fake");
});
after(() => plugins[Symbol.asyncDispose]());

async function failureOf(run: Promise<unknown>): Promise<ShimError> {
  const [outcome] = await Promise.allSettled([run]);
  assert.ok(outcome.status === "rejected" && outcome.reason instanceof ShimError);
  return outcome.reason;
}

describe("a plugin that fails", () => {
  type Row = readonly [what: string, script: string, said: string | RegExp, kind: ErrorKind, code?: number];
  const error7 = `echo '{"cniVersion":"0.4.0","code":7,"msg":"bad","details":"more"}'`;
  const noReason = 'the plugin gave no reason (exit status 1, stderr "w")';
  const garbled =
    /^netplugin failed but error parsing its diagnostic message "not json\\n": line 1, column 1: /;
  const rows: readonly Row[] = [
    ["with an error object", `${error7}; echo noise >&2; exit 1`, "bad; more (code 7)", "unknown", 7],
    ["with a message alone", `echo '{"msg":"bad"}'; exit 1`, "bad", "unknown"],
    ["with code 11", `echo '{"code":11,"msg":"later"}'; exit 1`, "later (code 11)", "unavailable", 11],
    ["with code 50", `echo '{"code":50,"msg":"down"}'; exit 1`, "down (code 50)", "unavailable", 50],
    ["with code 51", `echo '{"code":51,"msg":"part"}'; exit 1`, "part (code 51)", "unavailable", 51],
    ["with stderr alone", "echo panic >&2; exit 2", 'netplugin failed: "panic": exit status 2', "unknown"],
    ["with nothing", "exit 3", "netplugin failed with no error message: exit status 3", "unknown"],
    ["with garbage", "echo not json; exit 1", garbled, "unknown"],
    ["with {}", "echo '{}'; echo w >&2; exit 1", noReason, "unknown"],
    ["by a signal", "kill -TERM $$", "netplugin failed with no error message: signal: SIGTERM", "unknown"],
  ];
  for (const [what, script, message, kind, code] of rows) {
    test(`${what} gives an error that names plugin, command and pod`, async () => {
      await plugins.behave("fake", "ADD", script);
      const error = await failureOf(plugins.invoker().run(add, never));
      assert.ok(error.message.startsWith(prefix), error.message);
      const rest = error.message.slice(prefix.length);
      if (typeof message === "string") assert.equal(rest, message);
      else assert.match(rest, message);
      assert.equal(error.kind, kind);
      assert.equal(error.fields["cniCode"], code);
      assert.deepEqual([error.fields["plugin"], error.fields["command"]], ["fake", "ADD"]);
    });
  }

  test("as recorded from real plugins, gives their code and message", async () => {
    type Said = { readonly code: number; readonly msg: string; readonly details?: string };
    type Recorded = { readonly exitCode: number; readonly stdout: Said };
    const { runs } = golden<{ runs: Record<string, Recorded> }>("failures.json");
    for (const [name, { exitCode, stdout }] of Object.entries(runs)) {
      await plugins.behave("fake", "ADD", `cat <<'END'\n${JSON.stringify(stdout)}\nEND\nexit ${exitCode}`);
      const error = await failureOf(plugins.invoker().run(add, never));
      assert.equal(error.fields["cniCode"], stdout.code, name);
      assert.ok(error.message.includes(stdout.msg), name);
      if (stdout.details !== undefined) assert.ok(error.message.includes(stdout.details), name);
    }
  });
});

const notLoadable = /run ".*\/other": neither a program for this processor nor a script that begins with #!$/;
const s390 = 22;
const ownMachine = process.arch === "arm64" ? 183 : 62;

/** The header of an executable ELF file, 64 bits, with one program header behind it. */
function elfHeader(machine: number): Buffer {
  const header = Buffer.alloc(64);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  header.writeUInt16LE(2, 16);
  header.writeUInt16LE(machine, 18);
  header.writeBigUInt64LE(64n, 32);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(1, 56);
  return header;
}

describe("a plugin that cannot be run", () => {
  const rows: readonly (readonly [string, (fake: FakePlugins) => Promise<void>, RegExp])[] = [
    ["is missing", async () => {}, /failed to find plugin "other" in path \[.*\/bin\]$/],
    ["is not executable", (fake) => fake.write("other", "#!/bin/sh\n", 0o644), /\/other": not executable$/],
    ["has no shell", (fake) => fake.write("other", "#!/no/sh\n"), /the file or its interpreter is missing$/],
    // The kernel refuses these, and libuv would let /bin/sh run the text in them.
    ["is no program", (fake) => fake.write("other", "exit 0\n"), notLoadable],
    [
      "is for another processor",
      (fake) => fake.write("other", Buffer.concat([elfHeader(s390), Buffer.from("\nexit 0\n")])),
      notLoadable,
    ],
    ["is truncated", (fake) => fake.write("other", elfHeader(ownMachine)), notLoadable],
  ];
  for (const [what, prepare, reason] of rows) {
    test(`because it ${what} is an error that names plugin, command and pod`, async () => {
      await prepare(plugins);
      const error = await failureOf(plugins.invoker().run({ ...add, type: "other" }, never));
      assert.match(error.message, /^CNI plugin "other" ADD for pod "default\/web": /);
      assert.match(error.message, reason);
      assert.equal(error.kind, "unavailable");
    });
  }
});

test("run() replaces all six variables and keeps PATH", async () => {
  await plugins.behave("fake", "DEL", `env > '${plugins.directory}/env'; exit 0`);
  const inherited = { PATH: process.env["PATH"], CNI_ARGS: "leaked=1", CNI_NETNS: "/leaked", OTHER: "kept" };
  const call: PluginCall = { ...add, command: "DEL", netns: "", args: [] };
  await plugins.invoker({ environment: inherited }).run(call, never);
  const lines = (await readFile(join(plugins.directory, "env"), "utf8")).split("\n");
  const of = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
  assert.deepEqual(
    ["COMMAND", "CONTAINERID", "NETNS", "IFNAME", "ARGS", "PATH"].map((name) => of(`CNI_${name}`)),
    ["DEL", "abc", "", "eth0", "", plugins.binDir],
  );
  assert.deepEqual([of("PATH"), of("OTHER")], [process.env["PATH"], "kept"]);
});

test("run() ends a plugin that never stops writing", async () => {
  await plugins.behave("fake", "ADD", "exec yes");
  const error = await failureOf(plugins.invoker({ limits: { stdoutBytes: 100_000 } }).run(add, never));
  assert.equal(error.message, `${prefix}wrote more than 100000 bytes to stdout`);
});

test("run() tries again while the binary is being replaced", async () => {
  await plugins.write("busy", "#!/bin/sh\n");
  // A script is never busy; a program that is open for writing is.
  const path = join(plugins.binDir, "busy");
  await copyFile("/bin/true", path);
  await chmod(path, 0o755);
  const file = await open(path, "r+");
  const invoker = plugins.invoker({ limits: { busyPauseMs: 1, busyTries: 3 } });
  const error = await failureOf(invoker.run({ ...add, type: "busy" }, never));
  assert.match(error.message, /still being written$/);
  const pauses = plugins.invoker({ limits: { busyPauseMs: 5, busyTries: 10_000 } });
  const run = pauses.run({ ...add, type: "busy" }, never);
  await file.close();
  assert.equal(await run, "");
});

describe("the namespace", () => {
  const { living, own } = { living: new Map<string, string>(), own: new Set<string>() };
  const rows: readonly (readonly [string, () => unknown, RegExp])[] = [
    ["is gone", () => living.clear(), /it is gone$/],
    ["is another process's by now", () => living.set(livingNetns, "second"), /it is not the pod's any more$/],
    ["is the node's own", () => own.add(livingNetns), /it is the node's own$/],
  ];
  for (const [what, change, message] of rows) {
    test(`that ${what} is not touched: the plugin does not run`, async () => {
      living.set(livingNetns, "first");
      own.clear();
      const look = (path: string): NamespaceLook | undefined => {
        const identity = living.get(path);
        return identity === undefined ? undefined : { identity, own: own.has(path) };
      };
      change();
      const before = (await plugins.calls()).length;
      const error = await failureOf(plugins.invoker({ namespaces: namespacesSeen(look) }).run(add, never));
      assert.equal(error.kind, "precondition");
      assert.match(error.message, message);
      assert.equal((await plugins.calls()).length, before);
    });
  }
});

test("run() tells the plugin what to do only after its process was noted, and forgets it at its end", async () => {
  const order: string[] = [];
  await plugins.behave("fake", "DEL", `echo started >> '${plugins.directory}/order'`);
  const running = {
    note: () => {
      // The plugin could be quick.
      spawnSync("sleep", ["0.05"]);
      order.push(existsSync(join(plugins.directory, "order")) ? "too late" : "noted");
      return () => void order.push("forgotten");
    },
  };
  await plugins.invoker({ running }).run({ ...add, command: "DEL" }, never);
  await plugins.behaveAgain("fake", "DEL");
  assert.deepEqual(order, ["noted", "forgotten"]);
});
