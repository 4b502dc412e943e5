/** What systemd passes to a service. */
import { once } from "node:events";
import type { Server } from "node:net";
import { messageOf, ShimError } from "../errors.js";

/** The part of the environment that systemd sets. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Passed descriptors start behind standard input, output and error. */
const firstDescriptor = 3;

/** `FileDescriptorName=` of the socket for cAdvisor. All others are for the CRI. */
const cadvisorName = "cadvisor";

/**
 * The descriptor of the first socket that systemd passes for the CRI, or of the one for cAdvisor.
 * `precondition` when there is none, or when this process (`pid`) was not started by socket activation; the
 * variables count only for the process that LISTEN_PID names, a child may have inherited them.
 */
export function activatedDescriptor(
  environment: Environment,
  pid: number,
  wanted?: typeof cadvisorName,
): number {
  const listenPid = environment["LISTEN_PID"];
  const listenFds = environment["LISTEN_FDS"];
  if (listenPid === undefined || listenFds === undefined)
    throw notActivated("LISTEN_PID and LISTEN_FDS are not set");
  if (listenPid !== String(pid)) throw notActivated(`LISTEN_PID is "${listenPid}", this process is ${pid}`);
  if (!/^[1-9]\d{0,4}$/.test(listenFds)) throw notActivated(`LISTEN_FDS is "${listenFds}"`);
  const names = (environment["LISTEN_FDNAMES"] ?? "").split(":");
  for (let index = 0; index < Number(listenFds); index += 1) {
    if ((names[index] === cadvisorName) === (wanted === cadvisorName)) return firstDescriptor + index;
  }
  throw notActivated(
    `no socket ${wanted === undefined ? "without" : "with"} FileDescriptorName=${cadvisorName}`,
  );
}

/** The descriptors that systemd has passed to this process (`pid`), whatever their names are. */
export function passedDescriptors(environment: Environment, pid: number): readonly number[] {
  const { LISTEN_PID: listenPid, LISTEN_FDS: count = "" } = environment;
  if (listenPid !== String(pid) || !/^[1-9]\d{0,4}$/.test(count)) return [];
  return Array.from({ length: Number(count) }, (_, index) => firstDescriptor + index);
}

/**
 * Makes `server` accept from the listening socket `fd`. `precondition` when that is no listening stream
 * socket.
 */
export async function listenOnDescriptor(server: Server, fd: number): Promise<void> {
  try {
    server.listen({ fd });
    await once(server, "listening");
  } catch (error) {
    const reason = `descriptor ${fd}: ${messageOf(error)}`;
    throw new ShimError("precondition", `listen on "fd://": ${reason}`, {}, { cause: error });
  }
}

function notActivated(reason: string): ShimError {
  const advice = "start it through its socket unit, or give unix:///path";
  return new ShimError(
    "precondition",
    `listen on "fd://": no sockets found via socket activation: ${reason}; ${advice}`,
  );
}
