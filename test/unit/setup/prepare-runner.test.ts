import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** What the script would do, where apt-get and dpkg are only names. */
async function dryRun(
  ...args: string[]
): Promise<{ status: number | null; lines: string[]; stderr: string }> {
  await using tools = await temporaryDirectory();
  for (const [name, output] of Object.entries({ "apt-get": "", dpkg: "arm64" })) {
    writeFileSync(join(tools.path, name), `#!/bin/sh\necho ${output}\n`);
    chmodSync(join(tools.path, name), 0o755);
  }
  writeFileSync(join(tools.path, "own.deb"), "");
  const script = join(repositoryRoot, "scripts", "prepare-runner");
  const words = args.map((word) => (word === "own.deb" ? join(tools.path, word) : word));
  const env = { PATH: `${tools.path}:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync(script, words, { env, encoding: "utf8" });
  const lines = stdout.split("\n").filter((line) => line.startsWith("+ "));
  return {
    status,
    lines: lines.map((line) => line.replaceAll(/\S*\/(\w+[^/\s]*\.deb|SHA256SUMS)/g, "$1")),
    stderr,
  };
}

const installed = (deb: string): string =>
  `+ env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${deb} containernetworking-plugins conntrack`;

test("a package is installed with the CNI plugins, and the program verified", async () => {
  const { status, lines, stderr } = await dryRun("--dry-run", "own.deb");
  assert.equal(status, 0, stderr);
  const links = /^\+ (ln -sfn |write \/etc\/crictl\.yaml)/;
  assert.deepEqual(
    lines.filter((line) => !links.test(line)),
    [
      "+ apt-get update",
      installed("own.deb"),
      "+ mkdir -p /opt/cni/bin",
      "+ systemctl start dockershim.service",
      "+ dockershim version --verify",
    ],
  );
});

test("the package of a release is that of this architecture, with its sums", async () => {
  for (const version of ["v1.2.3", "1.2.3"]) {
    const { status, lines, stderr } = await dryRun("--dry-run", "own/er", version);
    assert.equal(status, 0, stderr);
    assert.deepEqual(
      lines.slice(0, 2),
      ["dockershim_1.2.3_arm64.deb", "SHA256SUMS"].map((name) => `+ curl -fsSL --retry 3 -o ${name} ${name}`),
    );
    assert.equal(lines[3], installed("dockershim_1.2.3_arm64.deb"));
  }
});

test("plugins are linked where kubelets look, those that are there stay, and links to none are replaced", async () => {
  await using root = await temporaryDirectory();
  for (const name of ["apt-get", "dpkg", "systemctl", "dockershim"]) {
    writeFileSync(join(root.path, name), "#!/bin/sh\n");
    chmodSync(join(root.path, name), 0o755);
  }
  writeFileSync(join(root.path, "id"), "#!/bin/sh\necho 0\n", { mode: 0o755 });
  const [plugins, links] = ["usr/lib/cni", "opt/cni/bin"].map((path) => join(root.path, path)) as [
    string,
    string,
  ];
  for (const directory of [plugins, links, join(root.path, "etc")]) mkdirSync(directory, { recursive: true });
  for (const name of ["bridge", "loopback", "portmap"])
    writeFileSync(join(plugins, name), "", { mode: 0o755 });
  writeFileSync(join(links, "loopback"), "of the node");
  symlinkSync("/removed/portmap", join(links, "portmap"));
  const script = readFileSync(join(repositoryRoot, "scripts", "prepare-runner"), "utf8");
  const text = script.replaceAll(/([ =>])\/(?=usr\/|opt\/|etc\/)/g, `$1${root.path}/`);
  const env = { PATH: `${root.path}:/usr/bin:/bin` };
  const args = ["-c", text, "prepare-runner", join(root.path, "dpkg")];
  const { status, stderr } = spawnSync("sh", args, { env, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  assert.equal(readFileSync(join(links, "loopback"), "utf8"), "of the node");
  for (const name of ["bridge", "portmap"])
    assert.equal(readlinkSync(join(links, name)), join(plugins, name));
});

for (const [args, reason] of [
  [[], /give a package, or a repository and a version/],
  [["--dry-run", "none.deb"], /no such package: none\.deb/],
  [["--dry-run", "own/er", ""], /give a package, or a repository and a version/],
] as const) {
  test(`is refused: prepare-runner ${args.join(" ")}`, async () => {
    const { status, lines, stderr } = await dryRun(...args);
    assert.deepEqual([status, lines], [1, []]);
    assert.match(stderr, reason);
  });
}
