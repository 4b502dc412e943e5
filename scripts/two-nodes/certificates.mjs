/** The certificates of a cluster, as kubeadm makes them, for two days. */
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const newKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/**
 * An authority, the API server's certificate, and the key of service accounts.
 * @param {string} directory
 * @param {readonly string[]} addresses at which the API server is reached
 */
export async function makeAuthority(directory, addresses) {
  await mkdir(directory, { recursive: true });
  await openssl(directory, `req ${newKey} -x509 -subj /CN=cluster -days 2 -keyout ca.key -out ca.pem`);
  await openssl(directory, "ecparam -name prime256v1 -genkey -noout -out accounts.key");
  await openssl(directory, "ec -in accounts.key -pubout -out accounts.pem");
  const names = ["DNS:kubernetes.default.svc", ...addresses.map((address) => `IP:${address}`)];
  await makeCertificate(directory, "server", "/CN=kube-apiserver", [
    "extendedKeyUsage=serverAuth",
    `subjectAltName=${names.join(",")}`,
  ]);
}

/**
 * @param {string} directory of the authority
 * @param {string} name of the files
 * @param {string} subject
 * @param {readonly string[]} extensions
 */
export async function makeCertificate(
  directory,
  name,
  subject,
  extensions = ["extendedKeyUsage=clientAuth"],
) {
  await writeFile(join(directory, `${name}.ext`), extensions.join("\n"));
  await openssl(directory, `req ${newKey} -subj ${subject} -keyout ${name}.key -out ${name}.csr`);
  // A serial number from a file would be one for two certificates that are made at once.
  const authority = `-CA ca.pem -CAkey ca.key -set_serial ${String(randomInt(1, 2 ** 47))}`;
  await openssl(
    directory,
    `x509 -req ${authority} -days 2 -in ${name}.csr -out ${name}.pem -extfile ${name}.ext`,
  );
}

/**
 * A kubeconfig with everything inside.
 * @param {string} directory
 * @param {string} name of the client's certificate
 * @param {string} server
 */
export async function kubeconfig(directory, name, server) {
  const data = async (/** @type {string} */ file) =>
    (await readFile(join(directory, file))).toString("base64");
  return JSON.stringify({
    ...{ apiVersion: "v1", kind: "Config", "current-context": "it" },
    clusters: [{ name: "it", cluster: { server, "certificate-authority-data": await data("ca.pem") } }],
    users: [
      {
        name: "it",
        user: {
          "client-certificate-data": await data(`${name}.pem`),
          "client-key-data": await data(`${name}.key`),
        },
      },
    ],
    contexts: [{ name: "it", context: { cluster: "it", user: "it" } }],
  });
}

/**
 * @param {string} cwd
 * @param {string} words without spaces inside of a word
 */
async function openssl(cwd, words) {
  await run("openssl", words.split(" "), { cwd });
}
