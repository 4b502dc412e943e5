import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

test("rawTerminal() leaves output as it is, and restores the terminal", async () => {
  await using at = await temporaryDirectory();
  const module = pathToFileURL("src/play/cli/raw-terminal.ts").href;
  const program = join(at.path, "program.mts");
  await writeFile(
    program,
    `import { execFileSync } from "node:child_process";
import { rawTerminal } from ${JSON.stringify(module)};
const settings = () => execFileSync("stty", ["-a"], { stdio: ["inherit", "pipe", "inherit"] }).toString();
const all = [settings()];
const raw = rawTerminal(process.stdin);
all.push(settings());
raw[Symbol.dispose]();
all.push(settings());
const flags = all.map((text) => text.split(/[\\s;]+/).filter((word) => /^-?(opost|icanon|isig|echo)$/.test(word)).join(" "));
console.log(JSON.stringify(flags));
process.stdin.destroy();`,
  );
  const command = `${process.execPath} --import ${pathToFileURL("node_modules/tsx/dist/loader.mjs").href} ${program}`;
  const stdio = ["ignore", "pipe", "inherit"] as const;
  const child = spawn("script", ["-qec", command, "/dev/null"], { stdio: [...stdio], timeout: 30_000 });
  const stdout = await text(child.stdout);
  const normal = "opost isig icanon echo";
  const [line = ""] = /\[.*\]/.exec(stdout) ?? [];
  assert.deepEqual(JSON.parse(line), [normal, "-opost -isig -icanon -echo", normal]);
});
