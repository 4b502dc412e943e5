import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { billOfMaterials } from "../../../scripts/package/bill-of-materials.mjs";
import { thisArchitecture } from "../../../scripts/package/executable.mjs";
import { librariesOf } from "../../../scripts/package/image.mjs";
import { criDockerdFiles, debAbout, hasCriDockerd, rpmAbout } from "../../../scripts/package/cri-dockerd.mjs";
import { scripts as debScripts } from "../../../scripts/package/deb.mjs";
import { neededLibraries, withoutSections } from "../../../scripts/package/node-binary.mjs";
import { main as mainRpm } from "../../../scripts/package/rpm.mjs";
import { units, writeTree } from "../../../scripts/package/tree.mjs";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("a program runs without its sections, and is shorter", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "true");
  const whole = readFileSync("/usr/bin/env");
  const short = withoutSections(whole);
  await writeFile(path, short);
  await chmod(path, 0o755);
  assert.equal(execFileSync(path, ["echo", "runs"]).toString(), "runs\n");
  assert.ok(short.length < whole.length);
  assert.ok(neededLibraries(short).includes("libc.so.6"), neededLibraries(short).join());
});

test("what is not a 64-bit ELF program is refused", () => {
  for (const content of ["#!/bin/sh\n", "\x7fELF\x01 32 bits"])
    assert.throws(() => withoutSections(Buffer.from(content, "latin1")), /not a 64-bit ELF program/);
});

test("the bill of materials names Node.js and each npm package once, the innermost of nested ones", () => {
  const inputs = [
    "src/main/main.ts",
    "node_modules/commander/index.js",
    "node_modules/commander/lib/command.js",
    "node_modules/@grpc/grpc-js/build/src/index.js",
  ];
  const options = {
    root: repositoryRoot,
    inputs,
    version: "9.8.7",
    epoch: 1_000_000_000,
    node: { node: "26.0.0", modules: "1", openssl: "3.5.0" },
  };
  const text = billOfMaterials(options);
  const bill = JSON.parse(text) as { metadata: object; components: { name: string; purl: string }[] };
  assert.deepEqual(
    bill.components.map(({ name }) => name),
    ["node", "openssl", "@grpc/grpc-js", "commander"],
  );
  assert.match(bill.components[2]?.purl ?? "", /^pkg:npm\/%40grpc\/grpc-js@\d/);
  assert.match(JSON.stringify(bill.metadata), /"2001-09-09T01:46:40\.000Z".*"9\.8\.7"/);
  assert.equal(billOfMaterials(options), text);
});

test("the files of a package have their modes, whatever the umask is", async () => {
  await using directory = await temporaryDirectory();
  const before = process.umask(0o077);
  try {
    writeTree(join(directory.path, "tree"), [
      { path: "usr/bin/program", mode: 0o755, content: Buffer.from("") },
      { path: "etc/program/config.yaml", mode: 0o644, content: Buffer.from("") },
    ]);
  } finally {
    process.umask(before);
  }
  const modeOf = (path: string): number => statSync(join(directory.path, "tree", path)).mode & 0o777;
  assert.deepEqual(
    ["", "usr", "usr/bin", "usr/bin/program", "etc/program", "etc/program/config.yaml"].map(modeOf),
    [0o755, 0o755, 0o755, 0o755, 0o755, 0o644],
  );
});

test("the version is that of package.json wherever it is quoted", () => {
  const text = (path: string): string => readFileSync(join(repositoryRoot, path), "utf8");
  const { version } = JSON.parse(text("package.json")) as { version: string };
  for (const [path, ...quoted] of [
    [
      "README.md",
      ...[
        `dockershim ${version} serves`,
        `dockershim_${version}_amd64.deb`,
        `dockershim-${version}-linux-amd64`,
      ],
    ],
    ["docs/README.md", `dockershim-${version}.tgz`],
    ["docs/run/install.md", `dockershim@v${version}`],
    ["CHANGELOG.md", `\n## ${version}`],
  ] as const)
    for (const each of quoted) assert.ok(text(path).includes(each), `${path}: ${each}`);
  assert.equal((JSON.parse(text("package-lock.json")) as { version: string }).version, version);
});

test("the image gets the libraries that a program needs and that these need, each once, and the loader", () => {
  const libraries = librariesOf([readFileSync(process.execPath)], thisArchitecture);
  const names = libraries.map(({ path }) => path.replace(/^.*\//, ""));
  assert.deepEqual([...new Set(names)], names);
  assert.ok(names.includes("libc.so.6"), names.join());
  assert.ok(
    libraries.some(({ path }) => /^lib(64)?\/ld-linux-[\w-]+\.so\.\d$/.test(path)),
    names.join(),
  );
  assert.throws(() => librariesOf([Buffer.from("no program")], thisArchitecture), /not a 64-bit ELF program/);
});

/** Runs a script of a package on a root. `isOwned`: whether dpkg knows the files there. */
async function exitOn(
  root: string,
  script: string,
  {
    action = "",
    version = "",
    isOwned = false,
  }: { readonly action?: string; readonly version?: string; readonly isOwned?: boolean } = {},
): Promise<number | null> {
  await using tools = await temporaryDirectory();
  const query = join(tools.path, "dpkg-query");
  await writeFile(query, `#!/bin/sh\nexit ${isOwned ? 0 : 1}\n`);
  await chmod(query, 0o755);
  // What they are told of units, one line each.
  for (const name of ["deb-systemd-helper", "systemctl"]) {
    await writeFile(join(tools.path, name), `#!/bin/sh\necho "$*" >>${root}/told\n`);
    await chmod(join(tools.path, name), 0o755);
  }
  const there = script.replaceAll(/([ =])(\/(?:usr|lib|etc|var|run|proc)\/)/g, `$1${root}$2`);
  const env = { PATH: `${tools.path}:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync("sh", ["-ec", there, "script", action, version], {
    env,
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  await writeFile(join(root, "said"), stdout);
  return status;
}

test("files of cri-dockerd that no package has wait aside, and return with the removal", async () => {
  const places = criDockerdFiles(repositoryRoot, "deb").filter(({ path }) =>
    /cri-docker[.d][^/]*$/.test(path),
  );
  assert.deepEqual(
    places.map(({ path, link }) => [path, link]),
    [
      ["usr/bin/cri-dockerd", "dockershim"],
      ["lib/systemd/system/cri-docker.socket", undefined],
      ["lib/systemd/system/cri-docker.service", undefined],
    ],
  );
  const { preinst = "", postrm = "" } = debAbout("1.2.3").scripts;
  await using directory = await temporaryDirectory();
  const root = directory.path;
  const local = places.map(({ path }) => ({ path, mode: 0o755, content: Buffer.from("local") }));
  const names = (): string[] =>
    readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) => path.includes("cri-docker"));
  writeTree(root, local);
  const before = names();
  assert.equal(await exitOn(root, preinst, { action: "install", isOwned: true }), 0);
  assert.deepEqual(names(), before);
  assert.equal(await exitOn(root, preinst, { action: "install" }), 0);
  assert.deepEqual(names().sort(), before.map((path) => `${path}.replaced`).sort());
  assert.equal(await exitOn(root, postrm, { action: "remove" }), 0);
  assert.deepEqual(names().sort(), before.sort());
  assert.equal(readFileSync(join(root, "usr/bin/cri-dockerd"), "utf8"), "local");
  // A link that leads nowhere, as to a disk that is not mounted.
  await rm(join(root, "usr/bin/cri-dockerd"));
  await symlink("/none", join(root, "usr/bin/cri-dockerd"));
  for (const [script, action] of [
    [preinst, "install"],
    [postrm, "remove"],
  ] as const)
    assert.equal(await exitOn(root, script, { action }), 0);
  assert.deepEqual(names().sort(), before.sort());
});

test("units of cri-dockerd are found in each of their places, by each of their names", async () => {
  await using directory = await temporaryDirectory();
  for (const [index, path] of [
    "",
    "etc/systemd/system/cri-dockerd.service",
    "usr/lib/systemd/system/cri-docker.service",
    "lib/systemd/system/cri-docker.service",
  ].entries()) {
    const root = join(directory.path, String(index));
    writeTree(root, [{ path: path || "etc/other.service", mode: 0o644, content: Buffer.from("[Unit]\n") }]);
    const script = `if ${hasCriDockerd}; then exit 0; else exit 3; fi`;
    assert.equal(await exitOn(root, script), path === "" ? 3 : 0);
    if (path === "") continue;
    // As its .deb leaves it.
    await rm(join(root, path));
    await symlink("/dev/null", join(root, path));
    assert.equal(await exitOn(root, script), 3);
  }
});

test("the .deb enables its units where cri-dockerd is when it is updated, and not when it is installed, again or first", async () => {
  const criDockerd = "lib/systemd/system/cri-docker.service";
  const removed = "var/lib/systemd/deb-systemd-helper-masked/dockershim.service";
  const cases: readonly (readonly [readonly string[], string, string | undefined])[] = [
    [[], "", "enable"],
    [[removed], "1.0.0", "enable"],
    [[criDockerd], "1.0.0", "enable"],
    [[criDockerd], "", undefined],
    [[criDockerd, removed], "1.0.0", "disable"],
  ];
  for (const [present, version, verb] of cases) {
    await using directory = await temporaryDirectory();
    const root = directory.path;
    writeTree(
      root,
      present.map((path) => ({ path, mode: 0o644, content: Buffer.from("[Unit]\n") })),
    );
    assert.equal(await exitOn(root, debScripts.postinst, { action: "configure", version }), 0);
    const told = readFileSync(join(root, "told"), "utf8").split("\n");
    assert.deepEqual(
      told.filter((line) => /^(en|dis)able/.test(line)),
      verb === undefined ? [] : units.map((unit) => `${verb} ${unit}`),
      present.join(),
    );
  }
});

/** Of a package's specification. */
function scriptlet(sections: string, name: string): string {
  return new RegExp(`^%${name}\\n([^]*?)\\n\\n%`, "m").exec(`${sections}\n\n%`)?.[1] ?? "";
}

test("what the .rpm enables in the root of an image, where systemd does not run, a removal disables there", async () => {
  for (const { name, sections } of [mainRpm, rpmAbout("1.2.3")]) {
    const preun = scriptlet(sections, "preun");
    await using directory = await temporaryDirectory();
    const program = join(directory.path, "usr/bin/cri-dockerd");
    await mkdir(dirname(program), { recursive: true });
    await symlink("dockershim", program);
    const toldAt = async (left: string): Promise<string> => {
      await writeFile(join(directory.path, "told"), "");
      assert.equal(await exitOn(directory.path, preun, { action: left }), 0);
      return readFileSync(join(directory.path, "told"), "utf8");
    };
    assert.match(await toldAt("0"), /^--no-reload disable \S*\.s\w+ [^\n]*\n$/, name);
    assert.equal(await toldAt("1"), "", name);
  }
});

test("a package whose OCI runtime Docker starts is not removed, and is updated", async () => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  const preun = scriptlet(mainRpm.sections, "preun");
  const exits = async (): Promise<unknown> => {
    const of = (script: string, action: string): Promise<number | null> => exitOn(root, script, { action });
    const { prerm } = debScripts;
    return [
      await of(prerm, "remove"),
      await of(prerm, "upgrade"),
      await of(preun, "0"),
      await of(preun, "1"),
    ];
  };
  const path = "/usr/lib/dockershim/dockershim-runc";
  for (const [runtimes, expected] of [
    [{ "dockershim-runc": { path } }, [1, 0, 1, 0]],
    [{ other: { path: "/usr/bin/other" } }, [0, 0, 0, 0]],
  ] as const) {
    await mkdir(join(root, "etc/docker"), { recursive: true });
    await writeFile(join(root, "etc/docker/daemon.json"), JSON.stringify({ runtimes }));
    assert.deepEqual(await exits(), expected);
  }
});

test("a first installation of a package is refused where install was, or another program serves, and says so", async () => {
  const pre = scriptlet(mainRpm.sections, "pre");
  const line = (path: string): string => `0: 00000002 00000000 00010000 0001 01 123 ${path}\n`;
  const socket = "run/dockershim.sock";
  const cases: readonly (readonly [
    what: string,
    table: string,
    expected: readonly number[],
    file?: string,
  ])[] = [
    ["nothing", line("/run/other.sock"), [0, 0, 0, 0]],
    ["install", "", [1, 0, 1, 0], "var/lib/dockershim-install/record.json"],
    ["a kubelet with dockershim", line("/var/run/dockershim.sock"), [1, 0, 1, 0], socket],
    ["npm start", line("/run/.0123456789ab"), [1, 0, 1, 0], socket],
    ["a socket that was left", line("/run/.0123456789abc"), [0, 0, 0, 0], socket],
  ];
  for (const [what, table, expected, file] of cases) {
    await using directory = await temporaryDirectory();
    const root = directory.path;
    writeTree(root, [{ path: "proc/net/unix", mode: 0o644, content: Buffer.from(table) }]);
    const path = join(root, file ?? "any");
    await mkdir(dirname(path), { recursive: true });
    await using server = createServer();
    if (file === socket) server.listen(path);
    else await writeFile(path, "");
    const exits: unknown[] = [];
    for (const [script, action] of [
      [debScripts.preinst, "install"],
      [debScripts.preinst, "upgrade"],
      [pre, "1"],
      [pre, "2"],
    ] as const)
      exits.push(await exitOn(root, script, { action }));
    assert.deepEqual(exits, expected, what);
  }
});

test("a unit that wins over the package's is named, and a link to it is not", async () => {
  for (const [script, action] of [
    [debScripts.postinst, "configure"],
    [scriptlet(mainRpm.sections, "post"), "2"],
  ] as const) {
    await using directory = await temporaryDirectory();
    const root = directory.path;
    const at = (name: string): string => join(root, "etc/systemd/system", name);
    await mkdir(at(""), { recursive: true });
    await symlink("/dev/null", at("dockershim.socket"));
    await writeFile(at("dockershim.service"), "[Service]\n");
    assert.equal(await exitOn(root, script, { action, version: "1.0.0" }), 0);
    const said = readFileSync(join(root, "said"), "utf8").split("\n");
    assert.deepEqual(
      said.flatMap((line) => /^dockershim: (\S+) wins over/.exec(line)?.[1] ?? []),
      [at("dockershim.service")],
    );
  }
});

test("a package cri-dockerd that takes this one's place in one transaction keeps its units, and is started", async () => {
  const { sections } = rpmAbout("1.2.3");
  await using directory = await temporaryDirectory();
  const root = directory.path;
  writeTree(root, [
    { path: "usr/bin/cri-dockerd", mode: 0o755, content: Buffer.from("cri-dockerd") },
    { path: "run/systemd/system/any", mode: 0o644, content: Buffer.from("") },
  ]);
  for (const name of ["preun", "postun"])
    assert.equal(await exitOn(root, scriptlet(sections, name), { action: "0" }), 0);
  const told = readFileSync(join(root, "told"), "utf8");
  assert.equal(told, "daemon-reload\ntry-restart cri-docker.service\n");
});

test("a socket unit that is stopped leaves no socket, where the next program would find one that nobody serves", () => {
  const sockets = [...units, "cri-docker.socket"].filter((name) => name.endsWith(".socket"));
  for (const name of sockets)
    assert.match(readFileSync(join(repositoryRoot, "packaging", name), "utf8"), /^RemoveOnStop=yes$/m, name);
});

const { stdout: systemd } = spawnSync("systemd-analyze", ["--version"], { encoding: "utf8" });
const canAnalyze = Number(/^systemd (\d+)/.exec(systemd)?.[1] ?? 0) >= 250;

test(
  "systemd knows each key of the units, and rates the service as confined as far as its work allows",
  { skip: canAnalyze ? false : "systemd-analyze of systemd 250 is not installed" },
  () => {
    const all = [...units, "cri-docker.service", "cri-docker.socket"];
    const paths = all.map((name) => join(repositoryRoot, "packaging", name));
    const { stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", ...paths], { encoding: "utf8" });
    const known = /Command \/usr\/bin\/(dockershim|cri-dockerd) is not executable/;
    assert.deepEqual(
      stderr.split("\n").filter((line) => /dockershim|cri-docker/.test(line) && !known.test(line)),
      [],
    );
    const rated = ["security", "--offline=true", "--threshold=75", "--no-pager", paths[0] ?? ""];
    const { status, stdout } = spawnSync("systemd-analyze", rated, { encoding: "utf8" });
    assert.equal(status, 0, stdout.split("\n").at(-2));
  },
);
