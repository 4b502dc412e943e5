import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { run } from "../main/command-line.js";

const has = (shell: string): boolean => spawnSync(shell, ["-c", "exit 0"]).status === 0;

async function script(shell: string): Promise<string> {
  const { out, err, exitCode } = await run(["completion", shell]);
  assert.deepEqual([err, exitCode], ["", 0]);
  return out;
}

/** What `shell` prints for `code` after the script, with files in its directory. */
async function inShell(shell: string, code: string): Promise<readonly string[]> {
  await using temporary = await temporaryDirectory();
  await mkdir(join(temporary.path, "manifests"));
  await writeFile(join(temporary.path, "my pod.yaml"), "");
  await writeFile(join(temporary.path, "script"), await script(shell));
  const { stdout, stderr } = spawnSync(
    shell,
    ["-c", `${shell === "zsh" ? "compdef() { :; }; " : ""}. ./script; ${code}`],
    { cwd: temporary.path, encoding: "utf8", env: { ...process.env, HOME: temporary.path } },
  );
  assert.equal(stderr, "");
  return stdout.split("\n").filter((line) => line !== "");
}

/** The last word is the one at the cursor. */
const words = (line: string): readonly string[] => line.split(" ").map((word) => `'${word}'`);

describe("the completion of bash", { skip: !has("bash") }, () => {
  const complete = (line: string): Promise<readonly string[]> => {
    const list = words(line);
    const call = `COMP_WORDS=(${list.join(" ")}); COMP_CWORD=${list.length - 1}; _dockershim`;
    return inShell("bash", `${call}; printf '%s\\n' "\${COMPREPLY[@]}"`);
  };
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ["dockershim pl", ["play"]],
    ["dockershim pod p", ["ps", "port-forward"]],
    ["dockershim pod ps -o ", ["table", "wide", "json", "yaml", "name"]],
    ["dockershim pod ps -n shop -o j", ["json"]],
    ["dockershim pod ps --output = y", ["yaml"]],
    ["dockershim pod ps --output =", ["table", "wide", "json", "yaml", "name"]],
    ["dockershim pod logs web ps", []],
    ["dockershim pod logs --pre", ["--previous", "--prefix"]],
    ["dockershim play --fol", ["--follow"]],
    ["dockershim play my", ["my pod.yaml"]],
    ["dockershim play --replicas ", []],
    ["dockershim play --endpoint man", ["manifests"]],
    ["dockershim play --keep m", ["my pod.yaml", "manifests"]],
    ["dockershim doctor ne", ["network"]],
    ["dockershim completion f", ["fish"]],
    ["dockershim migrate plan --to c", ["cri-dockerd"]],
    ["dockershim migrate check --to c", ["cri-dockerd", "containerd", "cri-o"]],
  ];
  for (const [line, expected] of cases)
    test(`of "${line}" is ${expected.join(", ") || "nothing"}`, async () => {
      assert.deepEqual([...(await complete(line))].sort(), [...expected].sort());
    });

  test("has no hidden commands and flags", async () => {
    const commands = await complete("dockershim ");
    assert.ok(commands.includes("serve") && commands.includes("pod"));
    assert.ok(!commands.includes("observe-calls"));
  });
});

describe("the completion of fish", { skip: !has("fish") }, () => {
  for (const [line, expected] of [
    ["dockershim pod p", ["port-forward\tforward local ports to a pod", "ps\tlist pods"]],
    ["dockershim pod ps -o j", ["json\thow the list is printed"]],
    ["dockershim play my", ["my pod.yaml"]],
  ] as const)
    test(`of "${line}"`, async () => {
      assert.deepEqual(await inShell("fish", `complete -C '${line}'`), expected);
    });
});

describe("the completion of zsh", { skip: !has("zsh") }, () => {
  /** Completion functions of zsh as stubs, which work only below its line editor. */
  const stubs = `
    _describe() { print -rl -- "\${(@P)@[-1]}" }; compadd() { shift; print -rl -- "$@" }
    _files() { print files }; compset() { : }; _default() { print default }`;
  for (const [line, expected] of [
    ["dockershim pod ps -o ", ["table", "wide", "json", "yaml", "name"]],
    ["dockershim pod ps --output=", ["table", "wide", "json", "yaml", "name"]],
    ["dockershim completion ", ["bash", "zsh", "fish"]],
    ["dockershim play ", ["files"]],
    ["dockershim pod exec web -- ", ["default"]],
  ] as const)
    test(`of "${line}"`, async () => {
      const list = words(line);
      const call = `words=(${list.join(" ")}); CURRENT=${list.length}; _dockershim`;
      assert.deepEqual(await inShell("zsh", `${stubs}\n${call}; true`), expected);
    });
});
