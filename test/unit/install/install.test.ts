import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { checkPlaces, isTaken } from "../../../src/install/check-node.js";
import { checkSocket, installDeps } from "../../../src/install/cli/install-command.js";
import type { PlannedFile } from "../../../src/install/plan-install.js";
import { alone } from "../../../src/install/steps.js";
import { configOf } from "../../fakes/config.js";
import { unitNames } from "../../../src/install/wanted-files.js";
import { isKind } from "../../../src/lib/errors.js";
import { bindUnixSocket } from "../../../src/lib/unix-socket.js";
import { until } from "../../support/wait.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { InstallBed } from "./install-bed.js";

const unit = "etc/systemd/system/dockershim.service";
const configuration = "etc/dockershim/config.yaml";
const record = "var/lib/dockershim-install/record.json";

test("install writes what a package has, says it, and has nothing to do the second time", async () => {
  using bed = InstallBed.open();
  const empty = bed.files();
  assert.equal(await bed.install("1.0.0", { dryRun: true }), 0);
  assert.deepEqual(bed.files(), empty);
  assert.match(bed.out, /^ {2}write {3}\/usr\/bin\/dockershim$/m);
  assert.match(bed.out, /Nothing is changed/);
  await bed.install();
  assert.equal(await bed.read("usr/bin/dockershim"), "program 1.0.0");
  assert.match(await bed.read(unit), /^ExecStart=\/usr\/bin\/dockershim --config=\/etc\/dockershim/m);
  assert.match(await bed.read(configuration), /^network-plugin: cni$/m);
  assert.match(
    await bed.read("etc/crictl.yaml"),
    /^runtime-endpoint: unix:\/\/\/var\/run\/dockershim.sock$/m,
  );
  assert.equal(await bed.read("usr/share/zsh/site-functions/_dockershim"), "# zsh\n");
  assert.equal(await bed.read("usr/share/man/man8/dockershim.8.gz"), "dockershim.8.gz# 1.0.0\n");
  assert.equal(bed.files()["usr/bin/dockershim"]?.split(" ")[0], "100755");
  assert.deepEqual(bed.systemctl, ["daemon-reload", `enable --now ${unitNames.join(" ")}`]);
  assert.match(bed.out, /^Done\. To undo: .*\/usr\/bin\/dockershim uninstall --root/m);
  const before = bed.files();
  await bed.install();
  assert.match(bed.out, /all is in place/);
  assert.deepEqual(bed.files(), before);
  assert.equal(bed.systemctl.length, 2);
});

test("the units that install writes are those of the packages", () => {
  const packaged = readdirSync(join(repositoryRoot, "packaging")).filter((name) =>
    /^dockershim[^/]*\.(service|socket)$/.test(name),
  );
  assert.deepEqual([...unitNames], packaged);
});

test("with --prefix the unit starts the program there", async () => {
  using bed = InstallBed.open();
  await bed.install("1.0.0", { prefix: "/opt/dockershim" });
  assert.equal(await bed.read("opt/dockershim/bin/dockershim"), "program 1.0.0");
  assert.match(await bed.read(unit), /^ExecStart=\/opt\/dockershim\/bin\/dockershim /m);
});

describe("links of another root directory lead to places below it", () => {
  test("of directories, also of the record's and of such as are missing", async () => {
    using bed = InstallBed.open();
    // Below an absolute path that the test may write, too: where the kernel would follow the links to.
    const outside = join(bed.directory.path, "outside");
    await mkdir(outside);
    for (const name of ["var/lib", "usr/bin"]) {
      await mkdir(join(bed.root, outside, name), { recursive: true });
      await rename(join(bed.root, name), join(bed.root, `${name}.old`));
      await symlink(join(outside, name), join(bed.root, name));
    }
    await symlink(join(outside, "etc"), join(bed.root, "etc/dockershim"));
    await bed.install();
    assert.deepEqual(readdirSync(outside), []);
    assert.equal(await bed.read(join(outside, "usr/bin/dockershim")), "program 1.0.0");
    assert.deepEqual(readdirSync(join(bed.root, outside)), ["etc", "usr", "var"]);
    await bed.install();
    assert.match(bed.out, /all is in place/);
    await bed.uninstall();
    assert.deepEqual(readdirSync(join(bed.root, outside)), ["usr", "var"]);
    assert.deepEqual(readdirSync(join(bed.root, outside, "var/lib")), []);
  });

  test("of the configuration", async () => {
    using bed = InstallBed.open();
    const secret = join(bed.directory.path, "secret");
    await writeFile(secret, "secret: 1\n");
    await bed.write(secret, "log-level: debug\n");
    await mkdir(join(bed.root, "etc/dockershim"));
    await symlink(secret, join(bed.root, configuration));
    await bed.install();
    assert.match(bed.out, /^ {2}keep {4}\/etc\/dockershim\/config\.yaml: it was there/m);
  });
});

test("where units of cri-dockerd are, the unit is written, and neither enabled nor started", async () => {
  using bed = InstallBed.open();
  const criDockerd = "etc/systemd/system/cri-docker.service";
  await bed.write(criDockerd, "[Service]\n");
  await bed.install();
  assert.deepEqual(bed.systemctl, ["daemon-reload"]);
  assert.match(bed.out, /^ {2}keep {4}.* dockershim\.service .*disabled: units of cri-dockerd are here$/m);
  await bed.uninstall();
  assert.equal(bed.files()[unit], undefined);
});

test("once cri-dockerd is removed, also with its units masked, the next install enables and starts the units", async () => {
  const criDockerd = "etc/systemd/system/cri-docker.service";
  const removals: readonly ((path: string) => Promise<unknown>)[] = [
    (path) => rm(path),
    (path) => writeFile(path, ""),
    (path) => rm(path).then(() => symlink("/dev/null", path)),
  ];
  for (const remove of removals) {
    using bed = InstallBed.open();
    await bed.write(criDockerd, "[Service]\n");
    await bed.install();
    await remove(join(bed.root, criDockerd));
    await bed.install();
    assert.equal(bed.systemctl.at(-1), `enable --now ${unitNames.join(" ")}`);
    await bed.install();
    assert.match(bed.out, /all is in place/);
  }
});

describe("killed after each step", () => {
  type Check = (bed: InstallBed, step: number) => Promise<void>;

  /** Runs `work` as often as it has steps, killed after each; then each of `checks` on a node of its own. */
  async function atEachStep(
    prepare: (bed: InstallBed) => Promise<unknown>,
    work: (bed: InstallBed) => Promise<unknown>,
    ...checks: readonly [Check, ...Check[]]
  ): Promise<number> {
    using prepared = InstallBed.open();
    await prepare(prepared);
    for (let step = 1; ; step++) {
      using killed = prepared.copy();
      killed.killAfter(step);
      const isKilled = await work(killed).then(
        () => false,
        (error: unknown) => {
          assert.match(String(error), /killed/);
          return true;
        },
      );
      if (!isKilled) return step;
      const [first, ...others] = checks;
      for (const check of others) {
        using bed = killed.copy();
        await check(bed, step);
      }
      await first(killed, step);
    }
  }
  const nothing = (): Promise<void> => Promise.resolve();
  type Files = Readonly<Record<string, string>>;
  let empty: Files;
  const installed: Record<string, Files> = {};
  before(async () => {
    using bed = InstallBed.open();
    empty = bed.files();
    for (const version of ["1.0.0", "2.0.0"]) {
      using fresh = bed.copy();
      await fresh.install(version);
      installed[version] = fresh.files();
    }
  });
  const install1 = (bed: InstallBed): Promise<unknown> => bed.install("1.0.0");
  const install2 = (bed: InstallBed): Promise<unknown> => bed.install("2.0.0");
  const uninstall = (bed: InstallBed): Promise<unknown> => bed.uninstall();

  const cases = [
    ["an install", "1.0.0", nothing, install1],
    ["an upgrade", "2.0.0", install1, install2],
  ] as const;
  for (const [name, version, prepare, work] of cases) {
    test(`${name} is completed by the next run, and removed by uninstall`, async () => {
      const steps = await atEachStep(
        prepare,
        work,
        async (bed, step) => {
          await bed.install(version);
          assert.deepEqual(bed.files(), installed[version], `completed after step ${step}`);
          assert.ok(bed.enabled && bed.active);
        },
        async (bed, step) => {
          await bed.uninstall();
          assert.deepEqual(bed.files(), empty, `removed after step ${step}`);
          assert.ok(!bed.enabled && !bed.active);
        },
      );
      assert.ok(steps > 5, `${steps} steps`);
    });
  }

  test("an upgrade after an install that was killed once the service ran restarts it", async () => {
    await atEachStep(nothing, install1, async (bed) => {
      const { active } = bed;
      await bed.install("2.0.0");
      const isRestarted = bed.systemctl.includes("try-restart dockershim.service");
      assert.ok(!active || isRestarted, bed.systemctl.join());
    });
  });

  test("a removal is completed by the next one, and undone by install", async () => {
    await atEachStep(
      install1,
      uninstall,
      async (bed, step) => {
        if (bed.files()[record] !== undefined) await bed.uninstall();
        assert.ok(!bed.enabled);
        const { [`var/lib/dockershim-install`]: _, ...left } = bed.files();
        assert.deepEqual(left, empty, `removed after step ${step}`);
      },
      async (bed) => {
        await bed.install();
        assert.deepEqual(bed.files(), installed["1.0.0"]);
      },
    );
  });
});

describe("what was edited, or made by another program", () => {
  test("stays over an upgrade and a removal, and is named", async () => {
    using bed = InstallBed.open();
    await bed.write("etc/crictl.yaml", "timeout: 3\n");
    await bed.install("1.0.0");
    assert.match(bed.out, /^ {2}keep {4}\/etc\/crictl\.yaml: it was there$/m);
    await bed.write(unit, "[Unit]\n# own\n");
    await bed.write(configuration, "log-level: debug\n");
    for (const version of ["2.0.0", "1.0.0"]) {
      await bed.install(version);
      assert.match(bed.out, /^ {2}keep {4}\/etc\/systemd\/system\/dockershim\.service: it was edited/m);
      assert.match(bed.out, /^ {2}keep {4}\/etc\/dockershim\/config\.yaml: it was edited/m);
      assert.equal(await bed.read("usr/bin/dockershim"), `program ${version}`);
    }
    await bed.uninstall();
    assert.match(bed.out, /^ {2}keep {4}\/etc\/systemd\/system\/dockershim\.service: it was edited/m);
    assert.deepEqual(
      await Promise.all([unit, configuration, "etc/crictl.yaml"].map((path) => bed.read(path))),
      ["[Unit]\n# own\n", "log-level: debug\n", "timeout: 3\n"],
    );
    assert.equal(bed.files()["usr/bin/dockershim"], undefined);
  });

  describe("with --oci-runtime", () => {
    const path = "/usr/lib/dockershim/dockershim-runc";
    const entry = `{ "dockershim-runc": {"path":"${path}"} }`;
    for (const [what, before, after] of [
      ["without a file", undefined, `{\n  "runtimes": ${entry}\n}\n`],
      ["an empty object", "{}", `{\n  "runtimes": ${entry}\n}`],
      [
        "other settings, exactly",
        '{\n\t"a": 18446744073709551615\n}\n',
        `{\n  "runtimes": ${entry},\n\t"a": 18446744073709551615\n}\n`,
      ],
      [
        "other runtimes",
        '{ "runtimes": { "x": { "path": "/x" } } }',
        `{ "runtimes": { "dockershim-runc": {"path":"${path}"}, "x": { "path": "/x" } } }`,
      ],
      ["no other runtimes", '{"runtimes":{}}', `{"runtimes":{ "dockershim-runc": {"path":"${path}"} }}`],
    ] as const)
      test(`Docker is told of it, and keeps ${what}`, async () => {
        using bed = InstallBed.open();
        if (before !== undefined) await bed.write("etc/docker/daemon.json", before);
        await bed.install("1.0.0", { ociRuntime: true, dryRun: true });
        assert.match(bed.out, /^ {2}write {3}\/etc\/docker\/daemon\.json: the runtime "dockershim-runc"$/m);
        await bed.install("1.0.0", { ociRuntime: true });
        assert.equal(await bed.read("etc/docker/daemon.json"), after);
        assert.equal(bed.systemctl.at(-1), "reload docker");
        await bed.install("1.0.0", { ociRuntime: true });
        assert.doesNotMatch(bed.out, /write/);
        await assert.rejects(bed.uninstall(), /restart Docker/);
      });

    test("Docker is told of it again after an install that was killed before, and not while it does not run", async () => {
      using bed = InstallBed.open();
      await bed.write(
        "etc/docker/daemon.json",
        JSON.stringify({ runtimes: { "dockershim-runc": { path } } }),
      );
      const reloads = (): number => bed.systemctl.filter((words) => words === "reload docker").length;
      await bed.install("1.0.0", { ociRuntime: true });
      assert.equal(reloads(), 1);
      const run = async (...words: readonly string[]): Promise<void> => {
        if (words.join(" ") === "is-active --quiet docker") throw new Error("inactive");
        await bed.systemd.run(...words);
      };
      bed.deps = { systemd: { kind: "running", run } };
      await bed.install("1.0.0", { ociRuntime: true });
      assert.equal(reloads(), 1);
    });

    for (const [what, text, reason] of [
      ["that is no JSON", "{,}", /line 1, column 2/],
      [
        "with another runtime of the name",
        '{"runtimes":{"dockershim-runc":{"path":"/x"}}}',
        /another runtime/,
      ],
      [
        "with the word elsewhere",
        '{"a":{"runtimes":{}},"runtimes":{}}',
        /the place of the entry is not clear/,
      ],
      ["with runtimes that are none", '{"runtimes":[]}', /"runtimes" is no object/],
    ] as const)
      test(`a daemon.json ${what} is refused, and nothing is changed`, async () => {
        using bed = InstallBed.open();
        await bed.write("etc/docker/daemon.json", text);
        const before = bed.files();
        await assert.rejects(bed.install("1.0.0", { ociRuntime: true }), reason);
        assert.deepEqual(bed.files(), before);
      });
  });

  test("the OCI runtime stays as long as Docker is configured to start it", async () => {
    using bed = InstallBed.open();
    await bed.install("1.0.0");
    const path = "/usr/lib/dockershim/dockershim-runc";
    assert.equal(bed.files()[path.slice(1)]?.split(" ")[0], "100755");
    await bed.write("etc/docker/daemon.json", JSON.stringify({ runtimes: { "dockershim-runc": { path } } }));
    const before = bed.files();
    await assert.rejects(
      bed.uninstall(),
      /daemon\.json has "\/usr\/lib\/.*-runc" as the runtime .*restart Docker/,
    );
    assert.deepEqual(bed.files(), before);
    await bed.write(
      "etc/docker/daemon.json",
      JSON.stringify({ runtimes: { "dockershim-runc": { path: "/x" } } }),
    );
    await bed.uninstall();
    assert.equal(bed.files()[path.slice(1)], undefined);
  });

  test("a unit that the administrator has disabled stays disabled", async () => {
    using bed = InstallBed.open();
    await bed.install("1.0.0");
    bed.enabled = bed.active = false;
    await bed.install("2.0.0");
    assert.ok(!bed.enabled);
    assert.equal(bed.systemctl.at(-1), "try-restart dockershim.service");
  });
});

const program: PlannedFile = {
  ...{ path: "/usr/bin/dockershim", role: "program", mode: 0o755, content: Buffer.alloc(2 ** 20) },
  ...{ change: "create", recorded: [] },
};

describe("refuses, and changes nothing", () => {
  const place = { isRoot: true, root: "/" } as const;
  const cases: readonly (readonly [
    name: string,
    message: RegExp,
    prepare: (bed: InstallBed) => Promise<void> | void,
    options?: { readonly root?: string; readonly prefix?: string },
  ])[] = [
    [
      "a checkout",
      /only the executable of a release installs itself, and this is "\/src"; docs\/run\/install\.md/,
      (bed) => void (bed.deps = { own: { self: ["/x"], read: () => Buffer.alloc(0), directory: "/src" } }),
    ],
    ...["/opt/my dir", "/opt/50%", "/opt/$&", "/opt/a\nUser=b"].map(
      (prefix) =>
        [
          `the prefix ${JSON.stringify(prefix)}`,
          /--prefix.*has characters that mean something else in a unit; choose another path/,
          () => undefined,
          { prefix },
        ] as const,
    ),
    ["a user", /run it as root/, (bed) => void (bed.deps = { isRoot: false }), place],
    [
      "an old kernel",
      /Linux 3\.10\.0 is too old; it needs 4\.18/,
      (bed) => void (bed.deps = { kernel: "3.10.0" }),
      place,
    ],
    [
      "a node with the package",
      /a package of it is installed .*apt-get or dnf/,
      (bed) => bed.write("usr/lib/systemd/system/dockershim.service", ""),
    ],
    [
      "a program that no install wrote",
      /"\/usr\/bin\/dockershim": another file is there.*move it away/,
      (bed) => bed.write("usr/bin/dockershim", "#!/bin/sh\n"),
    ],
    [
      "a unit that no install wrote",
      /dockershim\.service": another file is there/,
      (bed) => bed.write(unit, "x"),
    ],
    [
      "a configuration that this version cannot read",
      /this version cannot use the configuration.*config\.yaml" line 1 column 1.*new-option/,
      (bed) => bed.write(configuration, "new-option: 1\n"),
    ],
    [
      "the record of a later release",
      /record\.json": version 2 is of a later release; use the dockershim that wrote it/,
      (bed) => bed.write(record, '{ "version": 2 }'),
    ],
    ["a damaged record", /record\.json": not JSON; move the file away/, (bed) => bed.write(record, "{")],
  ];
  for (const [name, message, prepare, options] of cases) {
    test(name, async () => {
      using bed = InstallBed.open();
      await prepare(bed);
      const before = bed.files();
      await assert.rejects(bed.install("1.0.0", options), (error) => {
        assert.ok(isKind(error, "precondition", "conflict", "unsupported", "invalid"), String(error));
        assert.match(error.message, message);
        return true;
      });
      assert.deepEqual(bed.files(), before);
      assert.deepEqual(bed.systemctl, []);
    });
  }

  test("a file system without room, before the first file", async () => {
    using bed = InstallBed.open();
    const check = (bytes: number): Promise<void> =>
      checkPlaces(bed.root, "/usr", [program], { freeBytes: () => Promise.resolve(bytes) });
    await assert.rejects(
      check(2 ** 20),
      /write "\/usr\/bin\/dockershim": 2 MiB are needed and 1 MiB are free; make room/,
    );
    await check(2 ** 21);
  });

  test("a read-only /usr, with the flag that helps", async () => {
    using bed = InstallBed.open();
    const requireWritable = (): Promise<void> =>
      Promise.reject(Object.assign(new Error("EROFS: read-only file system, access"), { code: "EROFS" }));
    await assert.rejects(
      checkPlaces(bed.root, "/usr", [program], { requireWritable }),
      /write "\/usr\/bin\/dockershim": the file system is read-only; choose another place with --prefix/,
    );
  });

  test("a socket that another program serves, and not one of its own unit", async () => {
    using bed = InstallBed.open();
    const config = await configOf({});
    const deps = { systemd: bed.systemd, isTaken: () => Promise.resolve(true) };
    const refused = /another program serves "\/var\/run\/dockershim.sock".*stop it, or name another/;
    await assert.rejects(checkSocket(config, false, deps), refused);
    await assert.rejects(checkSocket(config, true, deps), refused);
    bed.active = true;
    await checkSocket(config, true, deps);
  });

  test("a socket is taken also when it was bound by another name, and not when it was left beside another one", async () => {
    await using at = await temporaryDirectory();
    const [path, stale] = [join(at.path, "cri.sock"), join(at.path, "stale.sock")];
    const server = createServer();
    assert.equal(await isTaken(path), false);
    await bindUnixSocket(server, path);
    assert.equal(await isTaken(path), true);
    const other = createServer().listen(join(at.path, "a"));
    await rename(join(at.path, "a"), stale);
    other.close();
    await until("only a file is left", async () => !(await isTaken(stale)));
    assert.ok(existsSync(stale));
    server.close();
  });

  test("a second command at the same time", async () => {
    using bed = InstallBed.open();
    let second: Promise<unknown> | undefined;
    const results: unknown[] = [];
    bed.deps = {
      after: () => {
        second ??= bed.uninstall().catch((error: unknown) => results.push(error));
      },
    };
    await bed.install();
    await second;
    assert.match(String(results[0]), /another install, uninstall or wipe runs; wait for its end/);
  });

  test("a second command below the same directory, whose lock no other user can take", async () => {
    using bed = InstallBed.open();
    const root = join(bed.root, ...Array<string>(5).fill("longer-than-a-socket"), "root");
    await mkdir(root, { recursive: true });
    const lock = async (work: () => Promise<unknown>): Promise<unknown> =>
      alone((await installDeps(root)).socket, work);
    await lock(async () => {
      assert.deepEqual(readdirSync(root), [".dockershim-install.sock"]);
      await assert.rejects(
        lock(() => Promise.resolve()),
        /another install, uninstall or wipe runs/,
      );
    });
    assert.deepEqual(readdirSync(root), []);
    await assert.rejects(installDeps(join(root, "none")), /^ShimError: --root ".*none": ENOENT/);
  });
});

test("uninstall without an install says who removes the program", async () => {
  using bed = InstallBed.open();
  await assert.rejects(bed.uninstall(), /no "dockershim install" was here.*a package is removed by apt-get/);
});
