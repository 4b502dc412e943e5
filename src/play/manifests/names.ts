/** Checks of the names in a manifest, by Kubernetes' rules. Several of them become parts of paths. */

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const uid = /^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$/;
const qualifiedName = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

type Check = (text: string) => string | undefined;

/** Container, volume and namespace names, host names. */
export const dnsLabel: Check = (text) =>
  text.length <= 63 && label.test(text)
    ? undefined
    : "must be at most 63 lower case letters, digits and '-', with a letter or digit first and last";

/** Pod names and runtime classes. */
export const dnsSubdomain: Check = (text) =>
  text.length <= 253 && text.split(".").every((part) => label.test(part))
    ? undefined
    : "must be at most 253 lower case letters, digits, '-' and '.', with a letter or digit first and last";

export const podUid: Check = (text) =>
  uid.test(text)
    ? undefined
    : "must be at most 63 letters, digits and '-', with a letter or digit first and last";

/** Keys of labels and annotations: `[prefix/]name`. */
export const qualifiedKey: Check = (text) => {
  const slash = text.indexOf("/");
  const prefix = slash === -1 ? undefined : text.slice(0, slash);
  const valid =
    qualifiedName.test(text.slice(slash + 1)) && (prefix === undefined || dnsSubdomain(prefix) === undefined);
  return valid ? undefined : "is not a valid key: write NAME or DOMAIN/NAME";
};

export const labelValue: Check = (text) =>
  text === "" || qualifiedName.test(text)
    ? undefined
    : "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit first and last";

export const environmentName: Check = (text) =>
  text !== "" && /^[\x20-\x7e]+$/.test(text) && !text.includes("=")
    ? undefined
    : "must be printable ASCII characters without '='";

/** The name of an HTTP header. */
export const headerName: Check = (text) =>
  /^[-!#$%&'*+.^_`|~0-9A-Za-z]+$/.test(text)
    ? undefined
    : "must be letters, digits and the characters !#$%&'*+-.^_`|~";

/** The value of an HTTP header: text without line ends and other control characters. */
export const headerValue: Check = (text) =>
  // eslint-disable-next-line no-control-regex -- They are what must not be there.
  /[\x00-\x08\x0a-\x1f\x7f]/.test(text) ? "must not contain control characters" : undefined;

export const notEmpty: Check = (text) => (text === "" ? "must not be empty" : undefined);

/** Path of a volume in the container. */
export const mountPath: Check = (text) => {
  if (text === "") return "must not be empty";
  return text.includes(":") ? "must not contain ':'" : undefined;
};

/** A path on the node. */
export const nodePath: Check = (text) => {
  if (!text.startsWith("/")) return "must be an absolute path";
  return text.split("/").includes("..") ? "must not contain '..'" : undefined;
};

/** A relative path that stays below its parent. */
export const relativePath: Check = (text) => {
  if (text.startsWith("/")) return "must be a relative path";
  return text.split("/").includes("..") ? "must not contain '..'" : undefined;
};

export const address: Check = (text) =>
  /^(\d{1,3}\.){3}\d{1,3}$/.test(text) || /^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$/.test(text)
    ? undefined
    : "must be an IP address";

/** Names of ports of containers (IANA_SVC_NAME). */
export const portName: Check = (text) =>
  text.length <= 15 && label.test(text) && /[a-z]/.test(text) && !text.includes("--")
    ? undefined
    : "must be at most 15 lower case letters, digits and '-', with a letter, and no '-' at either end";

/** Keys of the data of ConfigMaps and Secrets. They become names of files. */
export const dataKey: Check = (text) =>
  /^[-._a-zA-Z0-9]{1,253}$/.test(text) && text !== "." && !text.startsWith("..")
    ? undefined
    : "is not a valid key: write at most 253 letters, digits, '-', '_' and '.', without '..' at the beginning";
