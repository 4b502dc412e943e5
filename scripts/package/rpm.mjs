/** The RPM package. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tail } from "../setup/run.mjs";
import { hasCriDockerd } from "./cri-dockerd.mjs";
import { libraries } from "./node-binary.mjs";
import {
  keepOciRuntime,
  packageVersion,
  refuseOverOthers,
  sayHiddenUnits,
  units,
  writeTree,
} from "./tree.mjs";

/** xz of 120 MB takes a minute of CPU time; hosts of CI are shared. */
const TIMEOUT_MS = 30 * 60_000;
const architectures = { amd64: "x86_64", arm64: "aarch64", all: "noarch" };

/**
 * A package beside its files, version and architecture. `sections`: what follows %install but for %files.
 * @typedef {{ name: string, tags: readonly string[], summary: string, description: string, sections: string }} RpmPackage
 */

/** @type {RpmPackage} */
export const main = {
  name: "dockershim",
  summary: "Kubernetes Container Runtime Interface on a Docker Engine",
  tags: [
    `Requires: ${libraries.map(({ rpm }) => rpm).join(", ")}, iptables`,
    "Recommends: containernetworking-plugins, conntrack-tools",
  ],
  description: `Serves the CRI to a kubelet, maps pods to containers of the Docker Engine, and plays
Kubernetes manifests on a Docker Engine without a cluster.`,
  sections: `%pre
if [ "$1" = 1 ]; then
    ${refuseOverOthers}
fi

%post
${sayHiddenUnits}
if [ "$1" = 1 ] && ! ${hasCriDockerd}; then
    systemctl --no-reload enable ${units.join(" ")} || true
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ "$1" != 1 ]; then systemctl try-restart dockershim.service || true
    elif ! ${hasCriDockerd}; then systemctl start ${units.join(" ")} || true
    fi
fi

%preun
if [ "$1" = 0 ]; then
    ${keepOciRuntime}
    systemctl --no-reload disable ${units.join(" ")} || true
    if [ -d /run/systemd/system ]; then systemctl stop ${units.join(" ")} || true; fi
fi

%postun
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
`,
};

/**
 * @param {{ files: readonly import("./tree.mjs").PackageFile[], version: string, architecture: keyof typeof architectures, epoch: number, output: string, about?: RpmPackage }} options
 */
export async function writeRpm({ files, version, architecture, epoch, output, about = main }) {
  const directory = mkdtempSync(join(tmpdir(), "dockershim-rpm-"));
  try {
    const tree = join(directory, "tree");
    const placed = files.map((file) => ({
      ...file,
      path: file.path.replace("/vendor-completions/", "/site-functions/"),
    }));
    writeTree(tree, placed);
    const target = architectures[architecture];
    const spec = join(directory, "dockershim.spec");
    writeFileSync(spec, specification({ files: placed, version: packageVersion(version), tree, about }));
    const define = (/** @type {string} */ name, /** @type {string} */ value) => [
      "--define",
      `${name} ${value}`,
    ];
    const args = [
      ...["-bb", "--target", `${target}-linux`, spec],
      ...define("_topdir", join(directory, "build")),
      ...define("_rpmdir", join(directory, "made")),
      ...define("_buildhost", "localhost"),
      ...define("use_source_date_epoch_as_buildtime", "1"),
      ...define("clamp_mtime_to_source_date_epoch", "1"),
      ...define("_binary_payload", "w6T2.xzdio"),
      // Nothing of the tree is stripped, compressed or searched for what it needs.
      ...define("__os_install_post", "%{nil}"),
      ...define("_build_id_links", "none"),
    ];
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch), HOME: directory };
    const { code, output: printed } = await run("rpmbuild", args, { env, timeoutMs: TIMEOUT_MS });
    if (code !== 0) throw new Error(`rpmbuild:\n${tail(printed)}`);
    const [name = ""] = readdirSync(join(directory, "made", target));
    copyFileSync(join(directory, "made", target, name), output);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {{ files: readonly import("./tree.mjs").PackageFile[], version: string, tree: string, about: RpmPackage }} options */
function specification({ files, version, tree, about }) {
  const mode = (/** @type {number} */ bits) => bits.toString(8).padStart(4, "0");
  const listed = files.map(({ path, mode: bits, link, isConfiguration }) =>
    link !== undefined
      ? `/${path}`
      : `%attr(${mode(bits)}, root, root) ${isConfiguration === true ? "%config(noreplace) " : ""}/${path}`,
  );
  const directories = ["/etc/dockershim", `/usr/share/doc/${about.name}`]
    .filter((directory) => files.some(({ path }) => `/${path}`.startsWith(`${directory}/`)))
    .map((directory) => `%attr(0755, root, root) %dir ${directory}`);
  return `%global debug_package %{nil}
Name: ${about.name}
Version: ${version}
Release: 1
Summary: ${about.summary}
License: Apache-2.0
AutoReqProv: no
${about.tags.join("\n")}

%description
${about.description}

%install
cp -a ${tree}/. %{buildroot}

${about.sections}
%files
${[...directories, ...listed].join("\n")}
`;
}
