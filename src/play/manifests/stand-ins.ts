/** Files that an API server makes in a cluster, for programs that only read them. Pure. */
import { type Manifest, type ObjectData, serviceAccountOf } from "./manifest.js";

/** In each namespace of a cluster, as the certificate of its API server. */
export const rootCertificates = "kube-root-ca.crt";

/** Text outside of certificates is a comment in such a file. */
export const rootCertificatesData: ObjectData = {
  "ca.crt": Buffer.from("# dockershim play has no API server, and so no certificate of one.\n"),
};

/** The end of the year 2099. Programs that look at the times of a token want them to be in the future. */
const expiry = 4_102_444_799;

/** A token with the claims and the form of a cluster's, which nothing has signed, and which says so. */
export function standInToken({ pod, key }: Pick<Manifest, "pod" | "key">, audience: string): string {
  const { namespace, name, uid } = key;
  const account = serviceAccountOf(pod);
  const claims = {
    aud: [audience === "" ? issuer : audience],
    exp: expiry,
    iat: 0,
    iss: issuer,
    "kubernetes.io": { namespace, pod: { name, uid }, serviceaccount: { name: account } },
    nbf: 0,
    sub: `system:serviceaccount:${namespace}:${account}`,
  };
  const parts = [JSON.stringify({ alg: "RS256", kid: "none", typ: "JWT" }), JSON.stringify(claims), unsigned];
  return parts.map((part) => Buffer.from(part).toString("base64url")).join(".");
}

const issuer = "dockershim-play";
const unsigned = "not signed: dockershim play has no API server";
