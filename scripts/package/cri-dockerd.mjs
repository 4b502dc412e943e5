/** The package dockershim-cri-dockerd: cri-dockerd's program and units by their names, in that program's place. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageVersion } from "./tree.mjs";
import { units as ownUnits } from "./tree.mjs";

/**
 * Whether units of cri-dockerd are on the node, by any of their usual names: a condition for a shell. Its .deb leaves them masked:
 * as systemd sees it, without content.
 */
export const hasCriDockerd = `(for unit in ${[
  "/etc/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
]
  .map((directory) => `${directory}/cri-docker*.service`)
  .join(" ")}; do [ ! -s "$unit" ] || exit 0; done; exit 1)`;

const name = "dockershim-cri-dockerd";
/** `isNamedDefault` of src/shim/config/option.ts has the version whose place it takes. */
const replaced = "0.4.3";
const units = "cri-docker.socket cri-docker.service";
/**
 * As in cri-dockerd's own packages: dpkg does not know that /lib is a link to /usr/lib, and would remove the new file with
 * the old package.
 */
const unitDirectories = { deb: "lib/systemd/system", rpm: "usr/lib/systemd/system" };
const summary = "dockershim in the place of cri-dockerd";
const description = [
  "The names, the units and the socket of cri-dockerd",
  "for nodes that are set up for that program.",
];

/**
 * @param {string} root
 * @param {keyof typeof unitDirectories} format
 * @returns {import("./tree.mjs").PackageFile[]}
 */
export function criDockerdFiles(root, format) {
  /** @type {(path: string, ...source: string[]) => import("./tree.mjs").PackageFile} */
  const file = (path, ...source) => ({ path, mode: 0o644, content: readFileSync(join(root, ...source)) });
  return [
    { path: "usr/bin/cri-dockerd", mode: 0o777, content: Buffer.from(""), link: "dockershim" },
    ...units.split(" ").map((unit) => file(`${unitDirectories[format]}/${unit}`, "packaging", unit)),
    file(`usr/share/doc/${name}/copyright`, "LICENSE"),
  ];
}

/** @param {keyof typeof unitDirectories} format */
const placesOf = (format) =>
  ["usr/bin/cri-dockerd", ...units.split(" ").map((unit) => `${unitDirectories[format]}/${unit}`)]
    .map((path) => `/${path}`)
    .join(" ");
/**
 * Files that came from no package wait aside, and return when this package goes.
 * @param {keyof typeof unitDirectories} format
 * @param {string} query whether a package has the file
 */
const setAside = (format, query) => `for file in ${placesOf(format)}; do
    if { [ -e "$file" ] || [ -L "$file" ]; } && ! ${query} "$file" >/dev/null 2>&1; then mv -f "$file" "$file.replaced"; fi
done`;
/** @param {keyof typeof unitDirectories} format */
const bringBack = (format) => `for file in ${placesOf(format)}; do
    if { [ -e "$file.replaced" ] || [ -L "$file.replaced" ]; } && [ ! -e "$file" ]; then mv "$file.replaced" "$file"; fi
done`;

/**
 * cri-dockerd's own package masks its units when it goes. These stay as the administrator left them, whichever of both packages
 * has them.
 */
const debScripts = {
  preinst: `#!/bin/sh
set -e
if [ "$1" = install ]; then
${setAside("deb", "dpkg-query -S")}
fi
`,
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] || [ "$1" = abort-remove ]; then
    for unit in ${ownUnits.join(" ")}; do deb-systemd-helper disable $unit >/dev/null || true; done
    for unit in ${units}; do
        deb-systemd-helper unmask $unit >/dev/null || true
        if deb-systemd-helper --quiet was-enabled $unit; then deb-systemd-helper enable $unit >/dev/null || true
        else deb-systemd-helper update-state $unit >/dev/null || true
        fi
    done
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        if [ -n "$2" ]; then deb-systemd-invoke restart cri-docker.service >/dev/null || true
        else deb-systemd-invoke start ${units} >/dev/null || true
        fi
    fi
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then deb-systemd-invoke stop ${units} >/dev/null || true; fi
`,
  postrm: `#!/bin/sh
set -e
if [ "$1" = remove ] || [ "$1" = abort-install ]; then
${bringBack("deb")}
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ] && ! ${hasCriDockerd} && command -v deb-systemd-helper >/dev/null; then
    for unit in ${units}; do deb-systemd-helper purge $unit >/dev/null || true; done
fi
`,
};

/**
 * @param {string} version
 * @returns {import("./deb.mjs").DebPackage}
 */
export function debAbout(version) {
  const fields = [
    `Depends: dockershim (= ${packageVersion(version)}), init-system-helpers`,
    `Provides: cri-dockerd (= ${replaced})`,
    "Conflicts: cri-dockerd",
    "Replaces: cri-dockerd",
    `Description: ${summary}`,
    ...description.map((line) => ` ${line}`),
  ];
  return { name, fields, scripts: debScripts };
}

/** cri-dockerd's own package disables its units after %post, when both change places in one transaction. */
const first = `/run/${name}.first`;
/** Not once cri-dockerd's own package has the place: in such a transaction it comes before this one goes. */
const hasPlace = `[ "$(readlink /usr/bin/cri-dockerd)" = dockershim ]`;

/**
 * @param {string} version
 * @returns {import("./rpm.mjs").RpmPackage}
 */
export function rpmAbout(version) {
  return {
    name,
    summary,
    tags: [
      `Requires: dockershim = ${packageVersion(version)}`,
      // With the epoch of its packages.
      `Provides: cri-dockerd = 3:${replaced}`,
      "Conflicts: cri-dockerd",
    ],
    description: description.join("\n"),
    sections: `%pre
if [ "$1" = 1 ]; then
${setAside("rpm", "rpm -qf")}
fi

%post
systemctl --no-reload disable ${ownUnits.join(" ")} || true
if [ "$1" = 1 ]; then : > ${first}
elif [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart cri-docker.service || true
fi

%posttrans
if [ -e ${first} ]; then
    rm -f ${first}
    systemctl --no-reload enable ${units} || true
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        systemctl start ${units} || true
    fi
fi

%preun
if [ "$1" = 0 ] && ${hasPlace}; then
    systemctl --no-reload disable ${units} || true
    if [ -d /run/systemd/system ]; then systemctl stop ${units} || true; fi
fi

%postun
if [ "$1" = 0 ]; then
${bringBack("rpm")}
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ "$1" = 0 ]; then systemctl try-restart cri-docker.service || true; fi
fi
`,
  };
}
