/** The files of a package, the same for every format. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";

/**
 * `path`: without a leading slash; `link`: what the file is a symbolic link to.
 * @typedef {{ path: string, mode: number, content: Buffer, link?: string, isConfiguration?: boolean }} PackageFile
 */

/** The service, and what listens for it. */
export const units = ["dockershim.service", "dockershim.socket", "dockershim-cadvisor.socket"];

/** Part of a script before a removal: Docker could not stop containers that were made with the OCI runtime without it. */
export const keepOciRuntime = `if grep -qs '"/usr/lib/dockershim/dockershim-runc"' /etc/docker/daemon.json; then
        echo "dockershim: Docker starts dockershim-runc (/etc/docker/daemon.json): first remove its pods and that entry, and restart Docker"
        exit 1
    fi`;

/**
 * Part of a script before the first installation: what it would take the place of, or would be hidden by, is said, and nothing is
 * changed. systemd removes a socket that another program listens on. This program gives its socket a name that begins with a dot
 * first.
 */
export const refuseOverOthers = `if [ -e /var/lib/dockershim-install/record.json ]; then
        echo "dockershim: 'dockershim install' was here, and its units in /etc/systemd/system would win: run 'dockershim uninstall', which leaves pods as they are, then install the package again"
        exit 1
    fi
    if [ -S /run/dockershim.sock ] &&
        grep -qsE ' 00010000 .* (/var)?/run/(dockershim\\.sock|\\.[0-9a-f]{12})$' /proc/net/unix; then
        echo "dockershim: another program serves /run/dockershim.sock, as a kubelet with dockershim or npm start does: stop it, then install the package again"
        exit 1
    fi`;

/** Part of a script after an installation. The file may be wanted: \`systemctl edit --full\` makes it. */
export const sayHiddenUnits = `for unit in ${units.join(" ")}; do
        file=/etc/systemd/system/$unit
        if [ -f "$file" ] && [ ! -L "$file" ]; then
            echo "dockershim: $file wins over the unit of the package: unless you want that, remove it and run systemctl daemon-reload && systemctl restart dockershim"
        fi
    done`;

const shells = [
  { shell: "bash", path: "usr/share/bash-completion/completions/dockershim" },
  { shell: "zsh", path: "usr/share/zsh/vendor-completions/_dockershim" },
  { shell: "fish", path: "usr/share/fish/vendor_completions.d/dockershim.fish" },
];

/**
 * `runnable` is an executable of this machine's architecture, which prints what is the same for all.
 * @param {{ root: string, parts: string, executable: string, runnable: string, architecture: string }} options
 * @returns {PackageFile[]}
 */
export function packageFiles({ root, parts, executable, runnable, architecture }) {
  const printed = (/** @type {string[]} */ ...args) =>
    execFileSync(runnable, args, { env: {}, maxBuffer: 1e7 });
  const own = (/** @type {string[]} */ ...path) => readFileSync(join(root, ...path));
  /** @type {(path: string, content: Buffer, mode?: number) => PackageFile} */
  const file = (path, content, mode = 0o644) => ({ path, mode, content });
  return [
    file("usr/bin/dockershim", readFileSync(executable), 0o755),
    // Docker starts it, once the operator has registered it.
    file("usr/lib/dockershim/dockershim-runc", own("native", "bin", `oci-runtime-${architecture}`), 0o755),
    // A node of a cluster is NotReady until a cluster network is installed. `auto` would choose Docker's bridge before, for good.
    {
      ...file("etc/dockershim/config.yaml", printed("config", "--output=commented", "--network-plugin=cni")),
      isConfiguration: true,
    },
    ...units.map((name) => file(`usr/lib/systemd/system/${name}`, own("packaging", name))),
    ...shells.map(({ shell, path }) => file(path, printed("completion", shell))),
    file("usr/share/man/man8/dockershim.8.gz", readFileSync(join(parts, manualPageFile))),
    file("usr/share/doc/dockershim/copyright", own("LICENSE")),
    file("usr/share/doc/dockershim/LICENSES.txt.gz", compressed(readFileSync(join(parts, "LICENSES.txt")))),
    file("usr/share/doc/dockershim/changelog.gz", compressed(own("CHANGELOG.md"))),
  ];
}

/**
 * A hyphen divides the version of a package from its revision. ~ sorts before the release without it, as a pre-release does.
 * @param {string} version
 */
export function packageVersion(version) {
  return version.replaceAll("-", "~");
}

/** @param {Buffer} content */
function compressed(content) {
  return gzipSync(content, { level: 9 });
}

/**
 * Writes the files below a directory, which has no others.
 * @param {string} directory
 * @param {readonly PackageFile[]} files
 */
export function writeTree(directory, files) {
  /** @type {Set<string>} */
  const directories = new Set();
  for (const { path, mode, content, link } of files) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    for (let each = dirname(path); each !== "."; each = dirname(each)) directories.add(join(directory, each));
    if (link !== undefined) {
      symlinkSync(link, join(directory, path));
      continue;
    }
    writeFileSync(join(directory, path), content);
    // Whatever the umask is.
    chmodSync(join(directory, path), mode);
  }
  for (const each of [directory, ...directories]) chmodSync(each, 0o755);
}

/** Among the parts, and inside of executables: `dockershim install` writes it. */
export const manualPageFile = "dockershim.8.gz";

/**
 * The texts of --help, as a page of section 8, compressed.
 * @param {(...args: string[]) => Buffer} printed
 */
export function manualPage(printed) {
  const help = printed("--help").toString();
  const verbatim = (/** @type {string} */ text) =>
    `.nf\n${text
      .trimEnd()
      .replaceAll("\\", "\\e")
      .replace(/^([.'])/gm, "\\&$1")
      .replaceAll("-", "\\-")}\n.fi\n`;
  const commandsIn = (/** @type {string} */ text) =>
    [...(text.split(/\nCommands:\n/)[1] ?? "").matchAll(/^ {2}([a-z][a-z-]*)\b/gm)].map(
      ([, name = ""]) => name,
    );
  /** @type {(words: string[]) => string[]} */
  const sections = (words) => {
    const text = printed(...words, "--help").toString();
    const below = commandsIn(text.split("\nExit codes:")[0] ?? "");
    const own = `.SH ${words.join(" ").toUpperCase()}\n${verbatim(text)}`;
    return [own, ...below.flatMap((name) => sections([...words, name]))];
  };
  const page = [
    '.TH DOCKERSHIM 8 "" "" "System Administration"\n.SH NAME\n',
    "dockershim \\- Kubernetes Container Runtime Interface on a Docker Engine\n.SH SYNOPSIS\n",
    verbatim(help),
    ...commandsIn(help).flatMap((name) => sections([name])),
    ".SH FILES\n/etc/dockershim/config.yaml, /var/lib/dockershim, /run/dockershim.sock\n",
    ".SH SEE ALSO\n.BR docker (1), crictl (1), kubelet (8)\n",
  ];
  return compressed(Buffer.from(page.join("")));
}
