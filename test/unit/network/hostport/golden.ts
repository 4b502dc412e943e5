import { readFileSync } from "node:fs";

interface Vector {
  readonly id: string;
  readonly hostPort: number;
  /** Upper case, as dockershim and cri-dockerd hash it, except one that shows that the case matters. */
  readonly protocol: string;
  readonly hostIP: string;
  readonly chain: string;
}

/** What the real host port managers wrote; see the file. */
export const golden = JSON.parse(
  readFileSync(new URL("../../../golden/network/hostport.json", import.meta.url), "utf8"),
) as {
  readonly chainHash: Readonly<
    Record<"dockershim" | "criDockerdAndCriO", { readonly vectors: readonly Vector[] }>
  >;
  readonly natTableAfterAdd: string;
  readonly natTableAfterRemove: string;
};

/** The sandbox that has the chains of `web_default` in the golden tables. */
export const webId = "8dbd9e392a964056b7a24c8b1d2c3f5e";
export const webMappings = [
  { protocol: "tcp", containerPort: 80, hostPort: 18080, hostIp: "" },
  { protocol: "udp", containerPort: 53, hostPort: 18053, hostIp: "" },
  { protocol: "sctp", containerPort: 132, hostPort: 18132, hostIp: "" },
] as const;
export const webChains = ["KUBE-HP-JSUG4OC3QTFCMQYM", "KUBE-HP-O2ZIJD4ZHVTKCVDM", "KUBE-HP-TEIG6ILEMC67PSU4"];
export const otherChain = "KUBE-HP-TRPYMYGN7MKIDFAX";
