/** The Debian package. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

/** Is there while the package is removed, and not purged: its postinst gets a version then, as at an update. */
const removedMark = "/var/lib/systemd/deb-systemd-helper-masked/dockershim.service";

/** xz of 120 MB takes a minute of CPU time; hosts of CI are shared. */
const TIMEOUT_MS = 30 * 60_000;

/**
 * Units are enabled at the first installation, but not on a node of cri-dockerd: its pods have one server. They stay as the
 * administrator left them afterwards, also over a removal, and the service is restarted by an update: pods keep running, and its
 * sockets stay, or come with it. A service that does not start does not make the installation fail.
 */
export const scripts = {
  preinst: `#!/bin/sh
set -e
if [ "$1" = install ]; then
    ${refuseOverOthers}
fi
`,
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] || [ "$1" = abort-remove ]; then
    ${sayHiddenUnits}
    if { [ -z "$2" ] || [ -e ${removedMark} ]; } && ${hasCriDockerd}; then
        echo "dockershim: cri-dockerd serves this node's pods, dockershim.service is not enabled"
        isWanted=
    else isWanted=yes
    fi
    for unit in ${units.join(" ")}; do
        deb-systemd-helper unmask $unit >/dev/null || true
        if [ -n "$isWanted" ] && deb-systemd-helper --quiet was-enabled $unit; then
            deb-systemd-helper enable $unit >/dev/null || true
        else
            if [ -z "$isWanted" ] && [ -n "$2" ]; then deb-systemd-helper disable $unit >/dev/null || true; fi
            deb-systemd-helper update-state $unit >/dev/null || true
        fi
    done
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        if [ -n "$2" ]; then deb-systemd-invoke restart dockershim.service >/dev/null || true
        elif [ -n "$isWanted" ]; then deb-systemd-invoke start ${units.join(" ")} >/dev/null || true
        fi
    fi
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ]; then
    ${keepOciRuntime}
fi
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then deb-systemd-invoke stop ${units.join(" ")} >/dev/null || true; fi
`,
  // The state of pods stays, also when the package is purged: their containers may run.
  postrm: `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if command -v deb-systemd-helper >/dev/null; then
    for unit in ${units.join(" ")}; do
        if [ "$1" = remove ]; then deb-systemd-helper mask $unit >/dev/null || true; fi
        if [ "$1" = purge ]; then
            deb-systemd-helper purge $unit >/dev/null || true
            deb-systemd-helper unmask $unit >/dev/null || true
        fi
    done
fi
if [ "$1" = purge ]; then rm -rf /var/lib/dockershim/programs; fi
`,
};

/**
 * A package beside its files, version and architecture.
 * @typedef {{ name: string, fields: readonly string[], scripts: Readonly<Record<string, string>> }} DebPackage
 */

/** @type {DebPackage} */
const main = {
  name: "dockershim",
  fields: [
    `Depends: ${libraries.map(({ deb }) => deb).join(", ")}, init-system-helpers, iptables`,
    "Recommends: docker.io | docker-ce, containernetworking-plugins, conntrack",
    "Suggests: cri-tools",
    "Description: Kubernetes Container Runtime Interface on a Docker Engine",
    " Serves the CRI to a kubelet, maps pods to containers of the Docker Engine, and plays",
    " Kubernetes manifests on a Docker Engine without a cluster.",
  ],
  scripts,
};

/**
 * @param {{ files: readonly import("./tree.mjs").PackageFile[], version: string, architecture: string, epoch: number, output: string, about?: DebPackage }} options
 */
export async function writeDeb({ files, version, architecture, epoch, output, about = main }) {
  const directory = mkdtempSync(join(tmpdir(), "dockershim-deb-"));
  try {
    const tree = join(directory, "tree");
    writeTree(tree, files);
    const control = join(tree, "DEBIAN");
    mkdirSync(control);
    chmodSync(control, 0o755);
    const kibibytes = Math.ceil(files.reduce((sum, { content }) => sum + content.length, 0) / 1024);
    const fields = [
      `Package: ${about.name}`,
      `Version: ${packageVersion(version)}`,
      `Architecture: ${architecture}`,
      "Maintainer: dockershim contributors",
      `Installed-Size: ${kibibytes}`,
      "Section: admin",
      "Priority: optional",
      ...about.fields,
    ];
    const text = (/** @type {string} */ name, /** @type {string} */ content, mode = 0o644) => {
      writeFileSync(join(control, name), content);
      chmodSync(join(control, name), mode);
    };
    text("control", `${fields.join("\n")}\n`);
    const configuration = files.filter(({ isConfiguration }) => isConfiguration === true);
    if (configuration.length > 0) text("conffiles", configuration.map(({ path }) => `/${path}\n`).join(""));
    for (const [name, script] of Object.entries(about.scripts)) text(name, script, 0o755);
    // As many on every machine: the blocks of xz differ between one thread and several.
    const args = ["--root-owner-group", "-Zxz", "--threads-max=2", "--build", tree, output];
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch) };
    const { code, output: printed } = await run("dpkg-deb", args, { env, timeoutMs: TIMEOUT_MS });
    if (code !== 0) throw new Error(`dpkg-deb:\n${tail(printed)}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
