export type PortProtocol = "tcp" | "udp" | "sctp";

/** One port mapping of a pod, as requested; host port 0 maps nothing but is kept in the checkpoint. */
export interface PortMapping {
  readonly protocol: PortProtocol;
  readonly containerPort: number;
  readonly hostPort: number;
  /** Empty: all addresses. */
  readonly hostIp: string;
}
