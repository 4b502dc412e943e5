/** Flags that set nothing in `Config`: the command's own, and ignored flags of the kubelet. */

/** A flag that replaces serving by another action, or names the configuration file. */
export interface CommandFlag {
  readonly name: "config" | "version" | "buildinfo" | "no-setup";
  /** Undefined: a switch. */
  readonly placeholder?: string;
  readonly help: string;
}

export const commandFlags: readonly CommandFlag[] = [
  {
    name: "config",
    placeholder: "file",
    help: "YAML file with options (or DOCKERSHIM_CONFIG); not the kubelet's own configuration",
  },
  { name: "version", help: "Print the version and exit" },
  { name: "buildinfo", help: "Print version, commit and Node.js version and exit" },
  { name: "no-setup", help: "npm start installs nothing; the binary ignores this flag" },
];

/** A flag of the kubelet that is accepted with a warning and changes nothing. */
export interface IgnoredFlag {
  readonly name: string;
  readonly isBoolean?: boolean;
  readonly reason: string;
}

const logGoesToStderr = "the log always goes to standard error";
const kubeletOnly = "it concerns only the kubelet";
const podsDecide = "the request for each pod and container says it";

export const ignoredFlags: readonly IgnoredFlag[] = [
  { name: "container-runtime", reason: kubeletOnly },
  {
    name: "image-service-endpoint",
    reason: "images are served on the socket of --container-runtime-endpoint",
  },
  { name: "experimental-dockershim", isBoolean: true, reason: "this program always is dockershim" },
  { name: "address", reason: kubeletOnly },
  { name: "port", reason: kubeletOnly },
  { name: "docker-disable-shared-pid", isBoolean: true, reason: podsDecide },
  { name: "docker-exec-handler", reason: "exec always goes through the engine's API" },
  { name: "seccomp-profile-root", reason: podsDecide },
  {
    name: "redirect-container-streaming",
    isBoolean: true,
    reason:
      "it concerns only the kubelet; an API server that connects directly must reach --streaming-bind-addr",
  },
  { name: "logtostderr", isBoolean: true, reason: logGoesToStderr },
  { name: "alsologtostderr", isBoolean: true, reason: logGoesToStderr },
  { name: "stderrthreshold", reason: logGoesToStderr },
  { name: "log-dir", reason: logGoesToStderr },
  { name: "log-file", reason: logGoesToStderr },
  { name: "log-file-max-size", reason: logGoesToStderr },
  { name: "log-flush-frequency", reason: "every line is written at once" },
  { name: "log-backtrace-at", reason: "the log has no backtraces of that kind" },
  { name: "logging-format", reason: "the log is always JSON" },
  { name: "vmodule", reason: "there is one log level for all modules" },
  { name: "one-output", isBoolean: true, reason: logGoesToStderr },
  { name: "skip-headers", isBoolean: true, reason: "the log is always JSON" },
  { name: "skip-log-headers", isBoolean: true, reason: "the log is always JSON" },
  { name: "add-dir-header", isBoolean: true, reason: "the log is always JSON" },
];
