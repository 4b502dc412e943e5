/** The files of an installation by `dockershim install`: the same as those of the packages. Pure. */
import { join } from "node:path/posix";

/**
 * What happens to one that is there already and was edited, or made by another program: a program and a unit
 * that no install wrote are refused; all others are kept.
 */
type Role = "program" | "unit" | "configuration" | "other";

export interface WantedFile {
  /** On the node. */
  readonly path: string;
  readonly role: Role;
  readonly mode: number;
  readonly content: Buffer;
}

export interface InstallParts {
  /** The executable. */
  readonly program: Buffer;
  /** The OCI runtime in front of runc, which Docker may be told of. */
  readonly ociRuntime: Buffer;
  /** By their names, as `dockershim.service`. */
  readonly units: Readonly<Record<string, string>>;
  /** The text of `/etc/dockershim/config.yaml`. */
  readonly configuration: string;
  /** By shell. */
  readonly completions: Readonly<Record<"bash" | "zsh" | "fish", string>>;
  /** Compressed. */
  readonly manualPage: Buffer;
  /** For `crictl`. */
  readonly endpoint: string;
}

/** In the directory `packaging`, and inside of the executable. */
export const unitNames = ["dockershim-cadvisor.socket", "dockershim.service", "dockershim.socket"] as const;
export const configurationPath = "/etc/dockershim/config.yaml";
export const crictlPath = "/etc/crictl.yaml";
export const unitDirectory = "/etc/systemd/system";
export const defaultPrefix = "/usr";
const packagedProgram = "/usr/bin/dockershim";

export function programPath(prefix: string): string {
  return join(prefix, "bin/dockershim");
}

/** Docker starts it by this path, as long as there are containers that were made with it. */
export function ociRuntimePath(prefix: string): string {
  return join(prefix, "lib/dockershim/dockershim-runc");
}

/** In the order in which they are written: the largest first, as the most likely one to fail. */
export function wantedFiles(prefix: string, parts: InstallParts): readonly WantedFile[] {
  const { program, ociRuntime, units, configuration, completions, manualPage, endpoint } = parts;
  const text = (path: string, role: Role, content: string | Buffer): WantedFile => ({
    ...{ path, role, mode: 0o644 },
    content: Buffer.from(content),
  });
  const share = join(prefix, "share");
  return [
    { path: programPath(prefix), role: "program", mode: 0o755, content: program },
    { path: ociRuntimePath(prefix), role: "program", mode: 0o755, content: ociRuntime },
    text(configurationPath, "configuration", configuration),
    text(join(share, "bash-completion/completions/dockershim"), "other", completions.bash),
    text(join(share, "zsh/site-functions/_dockershim"), "other", completions.zsh),
    text(join(share, "fish/vendor_completions.d/dockershim.fish"), "other", completions.fish),
    text(join(share, "man/man8/dockershim.8.gz"), "other", manualPage),
    text(crictlPath, "other", `runtime-endpoint: ${endpoint}\nimage-endpoint: ${endpoint}\n`),
    // Last: a unit never starts a program that is not there.
    ...Object.entries(units).map(([name, content]) =>
      text(join(unitDirectory, name), "unit", content.replaceAll(packagedProgram, programPath(prefix))),
    ),
  ];
}

/** Those that are enabled: instances of a template are enabled by the administrator. */
export function unitsToEnable(units: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(units).flatMap(([name, text]) =>
    /^\[Install\]$/m.test(text) && !name.includes("@") ? [name] : [],
  );
}
