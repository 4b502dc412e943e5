import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { loadSync } from "@grpc/proto-loader";
import { criRpcs } from "../../../../src/domain/cri-descriptors.js";
import { Redactor } from "../../../../src/compare/record/redact.js";

interface Field {
  readonly name: string;
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

interface Descriptor {
  readonly name: string;
  readonly field: readonly Field[];
  readonly options?: { readonly mapEntry?: boolean } | null;
  readonly nestedType?: readonly Descriptor[];
}

const definition = loadSync(join("proto", "runtime", "v1", "api.proto"), { keepCase: true });
const descriptors = new Map<string, Descriptor>();
function addDescriptor(descriptor: Descriptor): void {
  descriptors.set(descriptor.name, descriptor);
  for (const nested of descriptor.nestedType ?? [])
    descriptors.set(`${descriptor.name}.${nested.name}`, nested);
}
for (const entry of Object.values(definition)) {
  if ("type" in entry && "field" in entry.type) addDescriptor(entry.type as unknown as Descriptor);
}

/** A message with a marker of its own in each field of strings and bytes, and the path of each marker. */
class Planter {
  readonly markers = new Map<string, string>();

  /** `secret`: what follows each marker. */
  constructor(private readonly secret = "") {}

  message(type: string, path: string, depth = 0): Record<string, unknown> {
    const descriptor = descriptors.get(type);
    assert.ok(descriptor, type);
    const message: Record<string, unknown> = {};
    if (depth > 12) return message;
    for (const field of descriptor.field) {
      const value = this.#value(field, type, `${path}.${field.name}`, depth);
      if (value !== undefined) message[field.name] = value;
    }
    return message;
  }

  #value(field: Field, type: string, path: string, depth: number): unknown {
    const name = field.typeName.split(".").at(-1) ?? "";
    const nested = descriptors.get(`${type}.${name}`) ?? descriptors.get(name);
    if (field.type === "TYPE_MESSAGE" && nested?.options?.mapEntry === true) {
      const [, value] = nested.field;
      assert.ok(value);
      const planted = this.#value({ ...value, label: "LABEL_OPTIONAL" }, nested.name, path, depth);
      const other = this.#value({ ...value, label: "LABEL_OPTIONAL" }, nested.name, path, depth);
      // A key may be the name of a field.
      return planted === undefined ? undefined : { "example.com/plain": planted, name: other };
    }
    const one =
      field.type === "TYPE_MESSAGE"
        ? this.message(name, path, depth + 1)
        : field.type === "TYPE_STRING"
          ? this.#mark(path)
          : field.type === "TYPE_BYTES"
            ? Buffer.from(this.#mark(path))
            : undefined;
    return field.label === "LABEL_REPEATED" && one !== undefined ? [one] : one;
  }

  #mark(path: string): string {
    const marker = `planted-${String(this.markers.size).padStart(6, "0")}`;
    this.markers.set(marker, path);
    return `${marker}${this.secret}`;
  }
}

/** Types of all messages, `Request` and `Response` of each RPC. */
function messageTypes(): string[] {
  return Object.values(criRpcs).flatMap((text) => text.split(" ").slice(1, 3));
}

/** Fields, wherever they are in a message, whose content no recording has. Others are kept: see the next test. */
const secretEndings = [
  ".envs.value",
  ".auth.username",
  ".auth.password",
  ".auth.auth",
  ".auth.identity_token",
  ".auth.registry_token",
  ".info",
  ".stdout",
  ".stderr",
  ".credential_spec",
  ".url",
];

describe("secrets in each field of each message", () => {
  assert.ok(new Set(messageTypes()).size > 60, "the walk misses types");
  for (const type of new Set(messageTypes()))
    test(`${type}: fields that hold secrets are redacted, and no other field is`, () => {
      const planter = new Planter();
      const message = planter.message(type, type);
      const text = JSON.stringify(new Redactor().message(message));
      for (const [marker, path] of planter.markers) {
        const isSecret = secretEndings.some((ending) => path.endsWith(ending));
        assert.equal(text.includes(marker), !isSecret, path);
      }
    });
});

/** Fields that stay as they are, also where they have the value of a variable: no kubelet expands one there. */
const keptFields = [
  ...["id", "pod_sandbox_id", "container_id", "container_ids", "target_id", "name", "namespace", "uid"],
  ...["hostname", "runtime_handler", "servers", "searches", "ip", "image", "image_ref", "image_id"],
  ...["run_as_username", "user_specified_image", "repo_tags", "repo_digests", "container_path", "host_path"],
  ...["version", "runtime_name", "runtime_version", "runtime_api_version", "envs.key"],
].map((name) => `.${name}`);

describe("the value of a variable in each field of each message", () => {
  for (const type of new Set(messageTypes()))
    test(`${type}: is in no field but those that are kept`, () => {
      const secret = "-hunter2hunter2";
      const redactor = new Redactor({ withOutput: true });
      redactor.message({ envs: [{ key: "A", value: Buffer.from(secret.slice(1)) }] });
      const planter = new Planter(secret);
      const message = redactor.message(planter.message(type, type));
      const text = JSON.stringify(message, (key, value: unknown) =>
        key === "base64" ? Buffer.from(String(value), "base64").toString() : value,
      );
      for (const [marker, path] of planter.markers)
        assert.equal(
          text.includes(`${marker}${secret}`),
          keptFields.some((ending) => path.endsWith(ending)),
          path,
        );
    });
});

/** What a command has of the value of a variable in the same request. */
function redactArgument(argument: string, key: string, value: string, more: object = {}): string {
  const config = { envs: [{ key, value: Buffer.from(value) }], command: ["app", argument], ...more };
  const { config: redacted } = new Redactor().message({ config }) as { config: { command: string[] } };
  return redacted.command[1] ?? "";
}

describe("values of variables in other texts", () => {
  const value = "hunter2/hunter2?";
  for (const [argument, expected] of [
    [`x${value}y`, "xredacted:1y"],
    [`http://x/?q=${encodeURIComponent(value)}`, "http://x/?q=redacted:1"],
    [JSON.stringify({ text: `"${value}\n` }), String.raw`{"text":"\"redacted:1\n"}`],
    [Buffer.from(value).toString("base64"), /^redacted:1\w?=*$/],
    [Buffer.from(`a:${value}`).toString("base64url"), /^[\w-]{0,3}redacted:1\w?$/],
    [Buffer.from(`a${value}b`).toString("base64"), /^\w{0,3}redacted:1\w{0,4}=*$/],
  ] as const)
    test(`${value} is found in ${argument}`, () => {
      const text = redactArgument(argument, "A", value);
      if (typeof expected === "string") assert.equal(text, expected);
      else assert.match(text, expected);
    });

  test("a value is found without the white space at its ends, with its number", () => {
    for (const [variable, argument] of [
      ["hunter2hunter2\n", "login hunter2hunter2 now"],
      ["hunter2\n", "login hunter2 now"],
      ["two words of it\n", `login ${JSON.stringify("two words of it")} now`],
    ] as const)
      assert.match(redactArgument(argument, "A", variable), /^login "?redacted:1"? now$/);
  });

  test("a value is found as Go writes it into JSON", () => {
    const text = redactArgument(String.raw`{"a":"db?x=1\u0026pin=\u003c7\u003e"}`, "A", "db?x=1&pin=<7>");
    assert.equal(text, '{"a":"redacted:1"}');
  });

  for (const [argument, key, variable, expected] of [
    // Up to 7 characters as words, up to 3 not at all.
    ["a hunter2, xhunter2", "A", "hunter2", "a redacted:1, xhunter2"],
    ["abc", "PASSWORD", "abc", "abc"],
    // What says nothing stays, but in a variable that is named as a secret.
    ["80 true 5432", "PORT", "5432", "80 true 5432"],
    ["80 true 5432", "PASSWORD", "5432", "80 true redacted:1"],
    ["a true", "DEBUG", "true", "a true"],
    ["a --log-level=debug", "LOG_LEVEL", "debug", "a --log-level=debug"],
    ["/bin/sh /data", "SHELL", "/bin/sh", "/bin/sh /data"],
    ["a /Aa0/bb+c=", "A", "/Aa0/bb+c=", "a redacted:1"],
    ["a true", "AUTH_ENABLED", "true\n", "a true"],
    ["app /etc/tls/tls.key", "TLS_KEY", "/etc/tls/tls.key", "app /etc/tls/tls.key"],
    ["dial 10.96.0.1", "AUTH_HOST", "10.96.0.1", "dial redacted:1"],
    ["dial 10.96.0.1", "SERVICE_HOST", "10.96.0.1", "dial 10.96.0.1"],
    ["ls /var/lib/data", "DATA", "/var/lib/data", "ls /var/lib/data"],
    // What names of the pod show is no secret.
    ["run web-0-main", "POD_NAME", "web-0", "run web-0-main"],
    ["run web-0-main", "PASSWORD", "web-0", "run redacted:1-main"],
    ["cd /srv-1", "HOME", "/srv-1", "cd /srv-1"],
  ] as const)
    test(`${key}=${variable} in "${argument}" gives "${expected}"`, () => {
      const shown = { metadata: { name: "web-0" }, working_dir: "/srv-1" };
      assert.equal(redactArgument(argument, key, variable, shown), expected);
    });

  test("a message that is a number is searched as any other", () => {
    const envs = [{ key: "PIN", value: "48151623" }];
    assert.equal(new Redactor().message({ envs, message: "48151623" })["message"], "redacted:1");
  });

  test("numbers of 64 bits are kept", () => {
    const envs = [{ key: "LIMIT_SECRET", value: Buffer.from("1073741824") }];
    const linux = { memory_limit_in_bytes: "1073741824" };
    assert.deepEqual(new Redactor().message({ envs, linux })["linux"], linux);
  });

  test("commands of containers that no request has made keep their program alone", () => {
    const redactor = new Redactor();
    redactor.addContainer("made");
    for (const [container_id, argument] of [
      ["made", "ping"],
      ["before", "redacted:1"],
    ] as const)
      assert.deepEqual(redactor.message({ container_id, cmd: ["redis-cli", "ping"] })["cmd"], [
        "redis-cli",
        argument,
      ]);
  });
});

function redactAnnotation(key: string, value: string): string {
  const redacted = new Redactor().message({ annotations: { [key]: value } }) as {
    annotations: Record<string, string>;
  };
  return redacted.annotations[key] ?? "";
}

describe("annotations", () => {
  for (const [key, value] of [
    ["kubectl.kubernetes.io/last-applied-configuration", "{}"],
    ["example.com/api-token", "abc"],
    ["example.com/db-password", "abc"],
    ["example.com/encryption-key", "abc"],
    ["example.com/credentials", "abc"],
    ["objectset.rio.cattle.io/applied", "H4sIAAAA"],
    ["example.com/manifest", '{"kind":"Pod","spec":{"containers":[]}}'],
    ["example.com/large", "x".repeat(5000)],
    ["example.com/pem", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"],
    ["example.com/jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"],
  ] as const)
    test(`the value of ${key} is redacted`, () =>
      assert.match(redactAnnotation(key, value), /^redacted:\d+$/));

  test("values that hold no secret are kept", () => {
    for (const [key, value] of [
      ["kubernetes.io/config.hash", "0123456789abcdef0123456789abcdef"],
      ["kubernetes.io/config.seen", "2026-01-31T00:00:00.000000000Z"],
      ["io.kubernetes.container.terminationMessagePath", "/dev/termination-log"],
      ["k8s.v1.cni.cncf.io/networks", '[{"name":"macvlan"}]'],
      ["seccomp.security.alpha.kubernetes.io/pod", "runtime/default"],
    ] as const)
      assert.equal(redactAnnotation(key, value), value);
  });
});

function redactCommand(...cmd: string[]): string {
  return ((new Redactor().message({ cmd }) as { cmd?: string[] }).cmd ?? []).join(" ");
}

describe("commands", () => {
  // Words are parted by a blank, or by `|` where they have blanks.
  for (const line of [
    "app --password=S3CRET",
    "app --password S3CRET",
    "app -token S3CRET",
    "env DB_PASSWORD=S3CRET app",
    "sh|-c|PGPASSWORD='S3CRET' psql -h db",
    'sh|-c|curl -H "Authorization: Bearer S3CRETS3CRET" http://x',
    "sh|-c|mysql -u root -pS3CRET -e 'select 1'",
    "mysql -u root -pS3CRET",
    "redis-cli -a S3CRET ping",
    "curl -u me:S3CRET http://x",
    "sh|-c|curl -u me:S3CRET http://x",
    "app postgres://me:S3CRET@db:5432/x",
    'app|{"apiKey": "S3CRET"}',
    "sh|-c|export AWS_SECRET_ACCESS_KEY=S3CRET; app",
    "sh|-c|app --client-secret S3CRET --port 80",
    "redis-cli --pass S3CRET",
    "app --encryption-key=S3CRET",
    'sh|-c|su app -c "export TOKEN=S3CRET; app"',
    "env DB_PASS=S3CRET app",
    "app postgres://me:a@S3CRET@db:5432/x",
    "curl|-H|Authorization: Token S3CRET",
    'sh|-c|curl -d "{\\"password\\": \\"S3CRET\\"}" http://x',
    "curl https://account.example.com/container?sv=1&sig=S3CRET",
  ])
    test(`the secret of ${line} is redacted`, () => {
      const text = redactCommand(...line.split(line.includes("|") ? "|" : " "));
      assert.ok(!text.includes("S3CRET"), text);
      assert.match(text, /redacted:1/);
    });

  for (const [line, kept] of [
    ["sh|-c|while true; do echo a line; sleep 0.2; done"],
    ["mkdir|-p|/data/dir"],
    [
      "kube-apiserver|--tls-private-key-file=/etc/pki/apiserver.key|--authorization-mode=Node",
      "key-file=/etc/pki/apiserver.key",
    ],
    ["app|--port|8080|--user=1000:1000|--auth=true|--password=$(cat)", "--user=1000:1000 --auth=true"],
    ["nginx|-g|daemon off;"],
  ] as const)
    test(`${line} is kept where it must run again`, () => {
      const text = redactCommand(...line.split("|"));
      if (kept === undefined) assert.equal(text, line.replaceAll("|", " "));
      else assert.ok(text.includes(kept), text);
    });
});

test("equal secrets have equal numbers, and errors do not repeat a secret", () => {
  const redactor = new Redactor();
  const { envs } = redactor.message({
    envs: [
      { key: "A", value: "first-secret" },
      { key: "B", value: "second-secret" },
      { key: "C", value: "first-secret" },
      { key: "D", value: "" },
    ],
  }) as { envs: { key: string; value: string }[] };
  const texts = envs.map(({ key, value }) => `${key}=${value}`);
  assert.deepEqual(texts, ["A=redacted:1", "B=redacted:2", "C=redacted:1", "D="]);
  const found = redactor.text('create container: invalid environment variable "B=second-secret"');
  assert.equal(found, 'create container: invalid environment variable "B=redacted:2"');
});

test("a secret that is a part of another, or of what replaces it, is found once", () => {
  const redactor = new Redactor();
  const envs = ["redacted", "hunter2", "hunter2-longer"].map((value) => ({ key: "A", value }));
  redactor.message({ envs });
  const found = redactor.text("no hunter2-longer, no hunter2, redacted");
  assert.equal(found, "no redacted:3, no redacted:2, redacted:1");
});

test("the command and the arguments of a container are one command line", () => {
  const { command, args } = new Redactor().message({ command: ["mysql"], args: ["-u", "root", "-pS3CRET"] });
  assert.deepEqual([command, args], [["mysql"], ["-u", "root", "-predacted:1"]]);
  const flag = new Redactor().message({ command: ["app", "--password"], args: ["S3CRET"] });
  assert.deepEqual(flag, { command: ["app", "--password"], args: ["redacted:1"] });
});

test("a streaming URL keeps its server alone", () => {
  assert.deepEqual(new Redactor().message({ url: "http://127.0.0.1:4567/exec/TOKEN?x=1" }), {
    url: "http://127.0.0.1:4567/redacted:1",
  });
});

test("output of commands is kept as its size, or with withOutput", () => {
  const answer = { stdout: Buffer.from("hello"), stderr: Buffer.alloc(0), exit_code: 3 };
  assert.deepEqual(new Redactor().message(answer), {
    stdout: { omitted: 5 },
    stderr: { omitted: 0 },
    exit_code: 3,
  });
  assert.deepEqual(new Redactor({ withOutput: true }).message(answer)["stdout"], { base64: "aGVsbG8=" });
});

test("a redactor remembers a bounded number of values", () => {
  const redactor = new Redactor();
  for (let index = 0; index < 11_000; index += 1)
    redactor.message({ envs: [{ key: "A", value: `${String(index)}-value` }] });
  assert.equal(redactor.sizes["known"], 10_000);
  assert.deepEqual(redactor.message({ log_path: "999-value 10999-value" }), {
    log_path: "999-value redacted:11000",
  });
});

test("texts made to take long are read in a bounded number of steps", () => {
  const texts = [
    "docker ".repeat(50_000),
    "a.".repeat(150_000),
    "-eyJ".repeat(20_000),
    `x${" ".repeat(200_000)}`,
  ];
  for (const text of texts) assert.equal(redactCommand("sh", "-c", text), `sh -c ${text}`);
});
