/**
 * The body of `POST /containers/create`, in Docker's own field names: the whole of what the shim ever sends.
 * A field that is left out keeps the engine's default, which for several lists is not what an empty list
 * means (an empty Entrypoint clears the image's; empty MaskedPaths unmask /proc).
 */
import type { Labels } from "./labels.js";

/** Prefix of annotations by which OCI runtimes set properties of a container's systemd scope. */
export const scopePropertyPrefix = "org.systemd.property.";

export interface PortBinding {
  readonly HostIp: string;
  readonly HostPort: string;
}

export interface DockerMount {
  readonly Type: "bind" | "volume" | "image" | "tmpfs";
  readonly Source: string;
  readonly Target: string;
  readonly ReadOnly?: boolean;
  readonly BindOptions?: {
    readonly Propagation?: string;
    /** API 1.44: plain read-only, without the mounts below it. */
    readonly ReadOnlyNonRecursive?: boolean;
    /** API 1.44: fail rather than mount something below writable. */
    readonly ReadOnlyForceRecursive?: boolean;
    readonly CreateMountpoint?: boolean;
  };
  readonly VolumeOptions?: {
    readonly NoCopy?: boolean;
    /** API 1.45. */
    readonly Subpath?: string;
    /** These two count for a volume that the create makes. */
    readonly Labels?: Labels;
    readonly DriverConfig?: { readonly Name: string; readonly Options: Readonly<Record<string, string>> };
  };
  /** API 1.48. */
  readonly ImageOptions?: { readonly Subpath?: string };
}

export interface DockerDevice {
  readonly PathOnHost: string;
  readonly PathInContainer: string;
  readonly CgroupPermissions: string;
}

export interface DeviceRequest {
  readonly Driver: string;
  readonly DeviceIDs: readonly string[];
}

export interface DockerUlimit {
  /** Without `RLIMIT_`, in lower case: `nofile`. */
  readonly Name: string;
  /** -1 is unlimited. */
  readonly Soft: number;
  readonly Hard: number;
}

/** Resource fields that create and update share. */
export interface DockerResources {
  readonly CpuPeriod?: number;
  readonly CpuQuota?: number;
  readonly CpuShares?: number;
  readonly CpusetCpus?: string;
  readonly CpusetMems?: string;
  /** Bytes. */
  readonly Memory?: number;
  readonly MemorySwap?: number;
}

export interface HostConfig extends DockerResources {
  readonly NetworkMode?: string;
  readonly IpcMode?: string;
  readonly PidMode?: string;
  readonly UTSMode?: string;
  readonly UsernsMode?: string;
  readonly CgroupParent?: string;
  /** Without it the engine's `default-cgroupns-mode` counts, also for privileged containers. */
  readonly CgroupnsMode?: "host" | "private";
  readonly OomScoreAdj?: number;
  readonly Sysctls?: Readonly<Record<string, string>>;
  readonly ShmSize?: number;
  readonly PortBindings?: Readonly<Record<string, readonly PortBinding[]>>;
  readonly GroupAdd?: readonly string[];
  readonly ReadonlyRootfs?: boolean;
  readonly Privileged?: boolean;
  readonly CapAdd?: readonly string[];
  readonly CapDrop?: readonly string[];
  readonly MaskedPaths?: readonly string[];
  readonly ReadonlyPaths?: readonly string[];
  readonly SecurityOpt?: readonly string[];
  readonly Binds?: readonly string[];
  readonly Mounts?: readonly DockerMount[];
  readonly Devices?: readonly DockerDevice[];
  readonly DeviceRequests?: readonly DeviceRequest[];
  readonly RestartPolicy?: { readonly Name: "no" };
  /** Whether an init of the engine is the first process. Absent is what the engine's configuration says. */
  readonly Init?: boolean;
  readonly Runtime?: string;
  /** Those of the engine's configuration count for each name that is not here. */
  readonly Ulimits?: readonly DockerUlimit[];
  /** API 1.43: for the OCI runtime. */
  readonly Annotations?: Readonly<Record<string, string>>;
  readonly LogConfig?: { readonly Type: string; readonly Config: Readonly<Record<string, string>> };
  readonly Dns?: readonly string[];
  readonly DnsSearch?: readonly string[];
  readonly DnsOptions?: readonly string[];
}

export interface CreateBody {
  readonly Image: string;
  readonly Labels: Labels;
  readonly Hostname?: string;
  readonly User?: string;
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
  readonly Env?: readonly string[];
  readonly WorkingDir?: string;
  readonly OpenStdin?: boolean;
  readonly StdinOnce?: boolean;
  readonly Tty?: boolean;
  readonly StopSignal?: string;
  /** Seconds between the stop signal and SIGKILL where a stop names none, as when the engine itself stops. */
  readonly StopTimeout?: number;
  readonly ExposedPorts?: Readonly<Record<string, Readonly<Record<string, never>>>>;
  readonly Healthcheck?: { readonly Test: readonly string[] };
  readonly HostConfig: HostConfig;
}

/** No health check, whatever the image has: probes are the kubelet's. */
export const noHealthcheck = { Test: ["NONE"] } as const;

/** `T` with an optional field in place of each that may be undefined. */
export type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** A copy without the fields whose value is undefined: a field that is not meant must be absent in the body. */
export function defined<T extends object>(value: T): Defined<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Defined<T>;
}

/** The list, or undefined when it is empty: Docker takes several empty lists for "none" rather than "default". */
export function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** The text, or undefined when it is empty. */
export function unlessBlank(text: string): string | undefined {
  return text === "" ? undefined : text;
}
