/**
 * The packages of `npm run package`, as they are: DOCKERSHIM_TEST_PACKAGES names their directory. The release workflow makes all
 * of them, `.ci/run` some. Parts that were not made, or whose tool is missing, are skipped by name.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { units } from "../../../scripts/package/tree.mjs";
import { nodeVersion } from "../../../scripts/package/node-binary.mjs";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const directory = process.env["DOCKERSHIM_TEST_PACKAGES"] ?? "";
const skip = directory === "" ? "DOCKERSHIM_TEST_PACKAGES names no packages" : false;
const { version } = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
  version: string;
};
const own = process.arch === "arm64" ? "arm64" : "amd64";
const architectures = ["amd64", "arm64"] as const;
const at = (name: string): string => join(directory, name);
const made = (ending: string): string => at(`dockershim-${version}-linux-${ending}`);
const madeDeb = (architecture: string): string => at(`dockershim_${version}_${architecture}.deb`);
/** Why a test of this package, by this program, is skipped. */
const lacking = (path: string, program?: string): string | false => {
  if (skip !== false) return skip;
  if (!existsSync(path)) return `${path} was not made`;
  if (program === undefined) return false;
  return spawnSync(program, ["--version"]).error === undefined ? false : `${program} is not installed`;
};
const printed = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { encoding: "utf8", maxBuffer: 1e8, stdio: ["ignore", "pipe", "pipe"] });

const files = [
  ...["usr/bin/dockershim", "usr/lib/dockershim/dockershim-runc", "etc/dockershim/config.yaml"],
  ...units.map((unit) => `usr/lib/systemd/system/${unit}`),
  ...["bash-completion/completions/dockershim", "fish/vendor_completions.d/dockershim.fish"].map(
    (name) => `usr/share/${name}`,
  ),
  "usr/share/man/man8/dockershim.8.gz",
  ...["copyright", "LICENSES.txt.gz", "changelog.gz"].map((name) => `usr/share/doc/dockershim/${name}`),
];
const completion = {
  deb: "usr/share/zsh/vendor-completions/_dockershim",
  rpm: "usr/share/zsh/site-functions/_dockershim",
};

/** Regular files below a directory, by their paths. */
function filesBelow(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) =>
    statSync(join(root, path)).isFile(),
  );
}

/** Runs a maintainer script where the tools of systemd only print how they were called. */
async function calls(script: string, ...args: string[]): Promise<string[]> {
  await using tools = await temporaryDirectory();
  for (const name of ["deb-systemd-helper", "deb-systemd-invoke", "systemctl"]) {
    writeFileSync(join(tools.path, name), `#!/bin/sh\necho "${name} $*" >&2\n`);
    chmodSync(join(tools.path, name), 0o755);
  }
  const env = { PATH: `${tools.path}:/usr/bin:/bin` };
  const result = spawnSync("sh", ["-c", script, "script", ...args], { env, encoding: "utf8" });
  assert.equal(result.status, 0, result.stderr);
  return result.stderr.split("\n").filter((line) => line !== "");
}

describe("packages", { skip, timeout: 600_000 }, () => {
  test("SHA256SUMS names each file, with its digest", () => {
    const lines = readFileSync(at("SHA256SUMS"), "utf8").trim().split("\n");
    const names = readdirSync(directory).filter((name) => name !== "SHA256SUMS");
    const digest = (name: string): string =>
      createHash("sha256")
        .update(readFileSync(at(name)))
        .digest("hex");
    assert.deepEqual(
      lines,
      names.sort().map((name) => `${digest(name)}  ${name}`),
    );
  });

  const billTest = "the bill of materials names each npm package in the executable, and its Node.js";
  test(billTest, { skip: lacking(made(own)) }, () => {
    const bill = JSON.parse(readFileSync(at(`dockershim-${version}.cdx.json`), "utf8")) as {
      components: { name: string; version: string; purl: string }[];
    };
    const inside = [...printed(made(own), "version", "--licenses").matchAll(/^==== (\S+) (\S+),/gm)];
    const named = bill.components.filter(({ purl }) => purl.startsWith("pkg:npm/"));
    assert.ok(inside.length > 10, String(inside.length));
    assert.deepEqual(
      named.map((each) => `${each.name} ${each.version}`).sort(),
      inside.map(([, name, its]) => `${String(name)} ${String(its)}`).sort(),
    );
    assert.ok(bill.components.some((each) => each.name === "node" && each.version === nodeVersion));
  });

  for (const architecture of architectures) {
    const emulator =
      architecture === own ? [] : [`qemu-${architecture === "arm64" ? "aarch64" : "x86_64"}-static`];
    test(
      `the executable for ${architecture} runs and verifies itself`,
      {
        skip: lacking(made(architecture), emulator[0]),
      },
      () => {
        const libraries = architecture === "arm64" ? "/usr/aarch64-linux-gnu" : "/usr/x86_64-linux-gnu";
        const [program = "", ...words] = [
          ...emulator,
          ...(emulator.length > 0 && existsSync(libraries) ? ["-L", libraries] : []),
          made(architecture),
          ...["version", "--verify"],
        ];
        assert.match(
          printed(program, ...words),
          new RegExp(`^dockershim ${version.replaceAll(".", "\\.")}.*: verified`),
        );
      },
    );

    test(
      `the .deb for ${architecture} has the files, and nothing runs as another user`,
      { skip: lacking(madeDeb(architecture), "dpkg-deb") },
      async () => {
        await using root = await temporaryDirectory();
        const deb = madeDeb(architecture);
        // dpkg would run the script before an installation, in a root that has no shell.
        printed("dpkg-deb", "--extract", deb, root.path);
        const list = printed("dpkg-deb", "--contents", deb);
        assert.deepEqual(
          [...new Set([...list.matchAll(/^\S+ (\S+)/gm)].map(([, owner]) => owner))],
          ["root/root"],
        );
        assert.deepEqual(filesBelow(root.path).sort(), [...files, completion.deb].sort());
        assert.equal(printed("dpkg-deb", "--info", deb, "conffiles"), "/etc/dockershim/config.yaml\n");
        assert.match(printed("dpkg-deb", "--field", deb, "Depends"), /libc6 \(>= 2\.28\)/);
        assert.ok(statSync(deb).size <= 35e6, String(statSync(deb).size));
      },
    );

    const rpm = made(`${architecture}.rpm`);
    test(`the .rpm for ${architecture} has the files`, { skip: lacking(rpm, "rpm") }, async () => {
      await using root = await temporaryDirectory();
      const force = ["--dbpath=/var/lib/rpm", "--nodeps", "--noscripts", "--ignorearch", "--nosignature"];
      printed("rpm", "--root", root.path, "--install", ...force, rpm);
      const placed = filesBelow(root.path).filter((path) => !path.startsWith("var/lib/rpm/"));
      assert.deepEqual(placed.sort(), [...files, completion.rpm].sort());
      assert.equal(
        printed("rpm", "--query", "--configfiles", "--package", rpm),
        "/etc/dockershim/config.yaml\n",
      );
      const owners = printed(
        "rpm",
        "--query",
        "--queryformat",
        "[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]",
        "--package",
        rpm,
      );
      assert.deepEqual([...new Set(owners.trim().split("\n"))], ["root:root"]);
      const requires = printed("rpm", "--query", "--requires", "--package", rpm);
      assert.match(requires, /^glibc >= 2\.28$/m);
    });

    const image = made(`${architecture}.image.tar.gz`);
    const imageTest = `the image for ${architecture} is an OCI layout with a program that finds its libraries`;
    test(imageTest, { skip: lacking(image) }, async () => {
      await using layout = await temporaryDirectory();
      printed("tar", "-xzf", image, "-C", layout.path);
      const json = (path: string): unknown => JSON.parse(readFileSync(join(layout.path, path), "utf8"));
      const blob = ({ digest }: { digest: string }): string =>
        `blobs/sha256/${digest.replace("sha256:", "")}`;
      assert.deepEqual(json("oci-layout"), { imageLayoutVersion: "1.0.0" });
      type Descriptor = { digest: string; platform: object };
      const { manifests } = json("index.json") as { manifests: [Descriptor] };
      assert.deepEqual(manifests[0].platform, { architecture, os: "linux" });
      const { layers } = json(blob(manifests[0])) as { layers: [Descriptor] };
      const root = join(layout.path, "root");
      mkdirSync(root);
      printed("tar", "-xf", join(layout.path, blob(layers[0])), "-C", root);
      if (process.getuid?.() !== 0 || architecture !== own) return;
      assert.match(
        printed("chroot", root, "/usr/bin/dockershim", "version"),
        new RegExp(version.replaceAll(".", "\\.")),
      );
    });
  }

  test(
    "the scripts of the .deb enable the units, mask them at a removal, and forget them at a purge",
    {
      skip: lacking(madeDeb(own), "dpkg-deb"),
    },
    async () => {
      const script = (name: string): string => printed("dpkg-deb", "--info", madeDeb(own), name);
      const each = (verb: string): string[] => units.map((unit) => `deb-systemd-helper ${verb} ${unit}`);
      assert.deepEqual(
        (await calls(script("postinst"), "configure")).filter((line) => line.includes(" enable ")),
        each("enable"),
      );
      const helper = async (name: string, action: string): Promise<string[]> =>
        (await calls(script(name), action)).filter((line) => line.startsWith("deb-systemd-helper"));
      assert.deepEqual(await helper("postrm", "remove"), each("mask"));
      assert.deepEqual(
        (await helper("postrm", "purge")).sort(),
        [...each("purge"), ...each("unmask")].sort(),
      );
      assert.deepEqual(await helper("postrm", "upgrade"), []);
    },
  );

  test(
    "the scripts of the .rpm enable the units at the first installation alone",
    { skip: lacking(made(`${own}.rpm`), "rpm") },
    async () => {
      const text = printed("rpm", "--query", "--scripts", "--package", made(`${own}.rpm`));
      const post = /^postinstall scriptlet.*:\n([^]*?)^\w+ scriptlet/m.exec(text)?.[1] ?? "";
      assert.deepEqual((await calls(post, "1"))[0], `systemctl --no-reload enable ${units.join(" ")}`);
      assert.ok(!(await calls(post, "2")).join().includes("enable"));
    },
  );
});
