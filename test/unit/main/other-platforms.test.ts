/** The client commands start where Node.js runs: no module that they load needs Linux when it is loaded. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { programArguments } from "../../support/program-words.js";

/** What a process of that platform has, and lacks. */
function stub(platform: string): string {
  const lacking = ["getuid", "geteuid", "getgid", "getegid", "setuid", "setgid", "getgroups", "initgroups"];
  const text = `
    Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
    if (process.platform === "win32") for (const name of ${JSON.stringify(lacking)}) process[name] = undefined;
    if (process.platform === "win32") process.env.OS = "Windows_NT";`;
  return `data:text/javascript,${encodeURIComponent(text)}`;
}

function run(platform: string, words: readonly string[]): Promise<string> {
  const node = ["--import", stub(platform), ...programArguments()];
  return new Promise((resolve) => {
    // The code is the command's: most find no server.
    execFile(process.execPath, [...node, ...words], { env: { PATH: "", HOME: "" } }, (_, out, err) => {
      resolve(out + err);
    });
  });
}

const cases: readonly (readonly [string, string, RegExp])[] = [
  ["darwin", "version", /^dockershim \d/],
  ["win32", "config", /npipe:\/\/\/\/.\/pipe\/docker_engine/],
  ["win32", "pod ps --endpoint unix:///nonexistent/a.sock", /no CRI server answers there/],
  ["win32", "play --endpoint unix:///nonexistent/a.sock /dev/null", /dockershim play: /],
  ["win32", "doctor ulimits", /cannot reach the Docker Engine at npipe:/],
  ["win32", "forward --listen unix:///nonexistent/a.sock", /cannot reach the Docker Engine at npipe:/],
];

for (const [platform, words, expected] of cases) {
  test(`"dockershim ${words}" runs on ${platform}`, async () => {
    assert.match(await run(platform, words.split(" ")), expected);
  });
}
