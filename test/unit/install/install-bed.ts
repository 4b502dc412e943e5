/** A node as a directory, with a systemd that only remembers. */
import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { install, type InstallDeps } from "../../../src/install/cli/install-command.js";
import { uninstall } from "../../../src/install/cli/uninstall-command.js";
import type { Systemd } from "../../../src/install/systemd.js";

export class InstallBed implements Disposable {
  readonly systemctl: string[] = [];
  out = "";
  enabled = false;
  active = false;
  deps: Partial<InstallDeps> = {};
  /** At least so many. */
  programBytes = 0;
  readonly root: string;
  #steps = Infinity;

  private constructor(readonly directory: Disposable & { readonly path: string }) {
    this.root = join(directory.path, "root");
  }

  static open(): InstallBed {
    // In memory, where the many flushes take no time.
    const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
    const path = mkdtempSync(join(parent, "dockershim-test-"));
    const bed = new InstallBed({
      path,
      [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
    });
    for (const path of ["usr/bin", "etc/systemd/system", "var/lib"])
      mkdirSync(join(bed.root, path), { recursive: true });
    return bed;
  }

  /** Another node in the same state. */
  copy(): InstallBed {
    const copy = InstallBed.open();
    cpSync(this.root, copy.root, { recursive: true });
    // Node.js 22 and 24 copy none of a directory.
    for (const path of readdirSync(this.root, { recursive: true, encoding: "utf8" })) {
      const status = statSync(join(this.root, path));
      if (status.isDirectory()) chmodSync(join(copy.root, path), status.mode);
    }
    return Object.assign(copy, { enabled: this.enabled, active: this.active });
  }

  /** That of another process, which removes it. */
  static at(path: string): InstallBed {
    return new InstallBed({ path, [Symbol.dispose]: () => undefined });
  }

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }

  /** The next command ends after `steps` steps, as by a kill. */
  killAfter(steps: number): void {
    this.#steps = steps;
  }

  async install(version = "1.0.0", options: Partial<Parameters<typeof install>[0]> = {}): Promise<number> {
    const given = {
      ...{ dryRun: false, root: this.root, prefix: "/usr", ociRuntime: false, completions },
      ...options,
    };
    return install(given, this.#io(version), await this.#deps(version));
  }

  async uninstall(options: { readonly dryRun?: boolean } = {}): Promise<number> {
    return uninstall({ dryRun: false, root: this.root, ...options }, this.#io(""), await this.#deps(""));
  }

  async write(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await writeFile(join(this.root, path), text);
  }

  read(path: string): Promise<string> {
    return readFile(join(this.root, path), "utf8");
  }

  /** Mode and digest of each file, and each directory. */
  files(): Readonly<Record<string, string>> {
    const entries = readdirSync(this.root, { recursive: true, encoding: "utf8" }).sort();
    return Object.fromEntries(
      entries.map((name) => {
        const path = join(this.root, name);
        const status = statSync(path);
        const digest = status.isFile() ? createHash("sha256").update(readFileSync(path)).digest("hex") : "";
        return [name, `${status.mode.toString(8)} ${digest}`];
      }),
    );
  }

  #io(version: string): Parameters<typeof install>[1] {
    this.out = "";
    return { version, commit: "abc", writeOut: (text) => void (this.out += text) };
  }

  async #deps(version: string): Promise<InstallDeps> {
    const program = join(this.directory.path, `program-${version}`);
    await writeFile(program, `program ${version}`.padEnd(this.programBytes));
    let left = this.#steps;
    this.#steps = Infinity;
    return {
      own: {
        self: [program],
        // The unit of each version is another one, and the manual page is made with packages.
        read: (path) => {
          const text = path.startsWith("packaging/")
            ? readFileSync(join(repositoryRoot, path), "utf8")
            : path;
          return Buffer.from(`${text}# ${version}\n`);
        },
      },
      systemd: this.systemd,
      socket: join(this.directory.path, "alone.sock"),
      isRoot: true,
      kernel: "6.1.0",
      isTaken: () => Promise.resolve(false),
      isEnforcing: false,
      after: () => {
        left -= 1;
        if (left <= 0) throw new Error("killed");
      },
      ...this.deps,
    };
  }

  readonly systemd: Systemd = {
    kind: "running",
    run: async (...words) => {
      this.systemctl.push(words.join(" "));
      if (words[0] === "enable") this.enabled = this.active = true;
      if (words[0] === "disable") {
        // As systemctl: a unit without a file is an error.
        await this.read(`etc/systemd/system/${String(words.at(-1))}`);
        this.enabled = this.active = false;
      }
      if (words[0] === "is-active" && !this.active) throw new Error("inactive");
    },
  };
}

const completions = { bash: "# bash\n", zsh: "# zsh\n", fish: "# fish\n" };
