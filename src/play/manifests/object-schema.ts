/** The objects that pods use: ConfigMap, Secret, PersistentVolumeClaim, Service and ServiceAccount. */
import { objectMetadata } from "./metadata-schema.js";
import { address, dataKey, dnsLabel, dnsSubdomain, portName } from "./names.js";
import {
  byQualifiedKey,
  keyed,
  localReference,
  needsApiServer,
  port,
  portReference,
  quantity,
  singleNode,
  unlessUnset,
} from "./readers.js";
import {
  type Reader,
  type TypeOf,
  anything,
  boolean,
  list,
  malformed,
  mandatory,
  notHonoured,
  object,
  oneOf,
  passedOver,
  string,
} from "./schema.js";

const kindOf = <const K extends string>(kind: K) => ({
  apiVersion: mandatory(oneOf(["v1"])),
  kind: mandatory(oneOf([kind])),
  metadata: mandatory(objectMetadata),
});

const text: Reader<Buffer> = (value, path, problems) => {
  const read = string()(value, path, problems);
  return read === undefined ? undefined : Buffer.from(read, "utf8");
};

const base64: Reader<Buffer> = (value, path, problems) => {
  // Line breaks are allowed. The value is a secret: no message shows it.
  const encoded = typeof value === "string" ? value.replace(/[\r\n]/g, "") : undefined;
  const isValid = encoded !== undefined && /^[A-Za-z0-9+/]*={0,2}$/.test(encoded) && encoded.length % 4 === 0;
  if (!isValid) problems.push(malformed(path, "must be base64"));
  return isValid ? Buffer.from(encoded, "base64") : undefined;
};

const immutable = anything();

export const configMap = object({
  ...kindOf("ConfigMap"),
  data: keyed(text, dataKey),
  binaryData: keyed(base64, dataKey),
  immutable,
});

export const secret = object({
  ...kindOf("Secret"),
  type: string(),
  data: keyed(base64, dataKey),
  stringData: keyed(text, dataKey),
  immutable,
});

const oneNodeStorage = passedOver("every claim is a local volume of its own");

export const claimSpec = object({
  accessModes: mandatory(list(oneOf(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]))),
  resources: mandatory(
    object({
      requests: mandatory(object({ storage: mandatory(quantity(1)) })),
      limits: object({ storage: quantity(1) }),
    }),
  ),
  volumeMode: oneOf(["Filesystem"], { Block: "not honoured: needs block devices of a storage system" }),
  storageClassName: oneNodeStorage,
  volumeName: oneNodeStorage,
  selector: oneNodeStorage,
  volumeAttributesClassName: oneNodeStorage,
  dataSource: notHonoured("not honoured: fill the volume in an init container"),
  dataSourceRef: notHonoured("not honoured: fill the volume in an init container"),
});

export const claim = object({
  ...kindOf("PersistentVolumeClaim"),
  spec: mandatory(claimSpec),
  status: anything(),
});

const noLoadBalancer = passedOver("there is no load balancer: the port is published on this host");
const oneFamily = passedOver("the names of services resolve to the addresses of their pods");

export const service = object({
  ...kindOf("Service"),
  spec: mandatory(
    object({
      type: oneOf(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
      clusterIP: string((text) => (text === "" || text === "None" ? undefined : address(text))),
      clusterIPs: oneFamily,
      selector: byQualifiedKey(string()),
      ports: list(
        object({
          name: string(dnsLabel),
          protocol: oneOf(["TCP", "UDP", "SCTP"]),
          port: mandatory(port),
          targetPort: unlessUnset(portReference(portName)),
          nodePort: unlessUnset(port),
          appProtocol: anything(),
        }),
      ),
      externalName: string(dnsSubdomain),
      publishNotReadyAddresses: boolean(),
      sessionAffinity: oneOf(["None", "ClientIP"]),
      sessionAffinityConfig: passedOver(
        "no session ends by time: connections go to the first address of a name",
      ),
      ipFamilies: oneFamily,
      ipFamilyPolicy: oneFamily,
      externalIPs: notHonoured("not honoured: use the type NodePort or LoadBalancer"),
      externalTrafficPolicy: passedOver(singleNode),
      internalTrafficPolicy: passedOver(singleNode),
      trafficDistribution: passedOver(singleNode),
      healthCheckNodePort: noLoadBalancer,
      allocateLoadBalancerNodePorts: noLoadBalancer,
      loadBalancerClass: noLoadBalancer,
      loadBalancerIP: noLoadBalancer,
      loadBalancerSourceRanges: notHonoured("not honoured: play does not filter by source address"),
    }),
  ),
  status: anything(),
});

export const serviceAccount = object({
  ...kindOf("ServiceAccount"),
  imagePullSecrets: list(localReference),
  secrets: passedOver(needsApiServer),
  automountServiceAccountToken: passedOver(needsApiServer),
});

export type ClaimSpec = TypeOf<typeof claimSpec>;
