/** Where clients find the server, made from where it listens. */
import { isIPv6 } from "node:net";

const loopback = "127.0.0.1";

/**
 * The beginning of every URL, without a slash at the end. All addresses cannot be dialled: the client of such a server
 * that is certain to be there is the kubelet of this host, which reaches it on the loopback interface. A server on
 * all IPv6 addresses takes IPv4 as well.
 */
export function urlBase(
  address: { readonly host: string; readonly port: number },
  scheme: "http" | "https",
): string {
  const { host, port } = address;
  const reachable = host === "0.0.0.0" || /^[0:]+$/.test(host) ? loopback : host;
  // The zone of a link-local address begins with a percent sign, which a URL writes as %25.
  const shown = isIPv6(reachable) ? `[${reachable.replace("%", "%25")}]` : reachable;
  return `${scheme}://${shown}:${String(port)}`;
}
