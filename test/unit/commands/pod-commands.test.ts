import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./command-line.js";

const endpoint = "/run/a.sock";
const pod = { namespace: "default", name: "web" };

for (const [line, asked] of [
  ["ps -n shop -o json", { verb: "ps", namespace: "shop", output: "json" }],
  [
    "exec -it shop/web -c main -- sh -c x",
    {
      verb: "exec",
      pod: { namespace: "shop", name: "web" },
      container: "main",
      command: ["sh", "-c", "x"],
      stdin: true,
      tty: true,
    },
  ],
  ["attach web -i", { verb: "attach", pod, container: undefined, stdin: true, tty: false }],
  [
    "port-forward web 8080:80 :81 --address localhost,::1",
    {
      verb: "port-forward",
      pod,
      pairs: [
        { local: 8080, remote: 80 },
        { local: 0, remote: 81 },
      ],
      addresses: ["127.0.0.1", "::1"],
    },
  ],
  [
    "cp web:/tmp/a ./b",
    { verb: "cp", pod, container: undefined, direction: "from", local: "./b", remote: "/tmp/a" },
  ],
  [
    "cp b shop/web:a -c main",
    {
      verb: "cp",
      pod: { namespace: "shop", name: "web" },
      container: "main",
      direction: "to",
      local: "b",
      remote: "a",
    },
  ],
  [
    "logs web side -fp --tail=5 --since 2m --timestamps --prefix",
    {
      verb: "logs",
      pod,
      container: "side",
      all: false,
      previous: true,
      follow: true,
      tail: 5,
      sinceMs: 120_000,
      timestamps: true,
      prefix: true,
    },
  ],
  ["events", { verb: "events", pod: undefined, namespace: undefined, follow: false }],
  ["top web --containers", { verb: "top", pod, namespace: undefined, containers: true }],
  ["down web shop/db", { verb: "down", pods: [pod, { namespace: "shop", name: "db" }] }],
] as const) {
  test(`"pod ${line}" is understood`, async () => {
    const { exitCode, acted, err } = await run(
      `pod ${line.replace(" -- ", ` --endpoint ${endpoint} -- `)}${line.includes(" -- ") ? "" : ` --endpoint ${endpoint}`}`,
    );
    assert.equal(err, "");
    assert.equal(exitCode, 9);
    assert.deepEqual(acted["pod"], { ...asked, endpoint });
  });
}

for (const [line, message] of [
  ["pod", /no subject given; use ps/],
  ["pod frob", /"frob"; use ps/],
  ["pod ls", /"ls": did you mean "dockershim pod ps"\?; use ps/],
  ["pod ps --watch", /did you mean "dockershim pod events --follow"/],
  ["pod rm web", /did you mean "dockershim pod down"/],
  ["pod log web", /did you mean "dockershim pod logs"/],
  ["pod exec web", /after "--", a command/],
  ["pod logs", /NAME or NAMESPACE\/NAME/],
  ["pod logs a/b/c", /NAME or NAMESPACE\/NAME/],
  ["pod logs shop/web -n other", /another namespace/],
  ["pod logs web --tail x", /"--tail"/],
  ["pod port-forward web 80:99999", /LOCAL:REMOTE/],
  ["pod cp a b", /POD:PATH/],
  ["pod ps -o tree", /tree/],
] as const) {
  test(`"${line}" is an error of one line`, async () => {
    const { exitCode, err, acted } = await run(line);
    assert.equal(exitCode, 1);
    assert.match(err, message);
    assert.equal(acted["pod"], undefined);
  });
}
