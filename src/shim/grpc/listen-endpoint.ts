/** Where a server listens. */
export type Endpoint =
  /** A unix socket of this absolute path. */
  | { readonly kind: "unix"; readonly path: string }
  /** A socket that systemd hands over (socket activation): `activatedDescriptor` says which. */
  | { readonly kind: "fd"; readonly name?: "cadvisor" }
  /** The one that listens at this path. */
  | { readonly kind: "fd"; readonly descriptor: number; readonly path: string };

/** As the flags write it: `unix:///path` or `fd://`. */
export function formatEndpoint(endpoint: Endpoint): string {
  return "path" in endpoint ? `unix://${endpoint.path}` : "fd://";
}
