import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort } from "../../../../src/lib/abort.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { describeWaits } from "../../../../src/lib/waits.js";
import type { AuthConfig } from "../../../../src/domain/cri.js";
import type { PullProgress } from "../../../../src/shim/ports/engine.js";
import { rejectsWith } from "../../../support/refusals.js";
import { imageSpec } from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const noAuth = {
  username: "",
  password: "",
  auth: "",
  server_address: "",
  identity_token: "",
  registry_token: "",
};
const hang = (signal: AbortSignal): Promise<never> => orAbort(new Promise<never>(() => undefined), signal);
const layer = (status: string, current = 0): PullProgress => ({ layer: "abc", status, current, total: 100 });

async function pull(
  shim: TestShim,
  image: string,
  auth: Partial<AuthConfig> | null = null,
  call = shim.call(),
): Promise<string> {
  const given = auth === null ? null : { ...noAuth, ...auth };
  const { image_ref } = await shim.rpcs.PullImage(
    { image: imageSpec(image), auth: given, sandbox_config: null },
    call,
  );
  assert.ok(image_ref);
  return image_ref;
}

/** Has pulls hang until they are aborted. */
function hangingPull(shim: TestShim): { readonly signal: AbortSignal | undefined } {
  const pulling: { signal: AbortSignal | undefined } = { signal: undefined };
  shim.engine.onPull = (_reference, _credentials, _onProgress, signal) => {
    pulling.signal = signal;
    return hang(signal);
  };
  return pulling;
}

describe("pullImage()", () => {
  test("answers the id that lists and statuses show", async () => {
    const id = await pull(shim, "registry.example/app:1");
    assert.equal(id, shim.engine.images.find("registry.example/app:1")?.id);
  });

  test("takes the runtime handlers that pods may name, and refuses others before anything is pulled", async () => {
    const pullFor = (runtime_handler: string) =>
      shim.rpcs.PullImage(
        { image: { ...imageSpec("busybox"), runtime_handler }, auth: null, sandbox_config: null },
        shim.call(),
      );
    for (const handler of ["docker", "runc"]) assert.ok((await pullFor(handler)).image_ref);
    shim.world.journal.clear();
    await rejectsWith(pullFor("gvisor"), "invalid", /RuntimeHandler "gvisor" not supported/);
    assert.deepEqual(shim.world.journal.names("engine.pullImage"), []);
  });

  test("is shared by concurrent callers of an image, however they write its name, with equal credentials", async () => {
    shim.engine.onPull = async (reference) => {
      await turns(3);
      shim.engine.images.add({ tags: [reference] });
    };
    const names = ["busybox:1", "docker.io/library/busybox:1", "busybox:1"];
    const ids = await Promise.all(names.map((name) => pull(shim, name)));
    assert.equal(new Set(ids).size, 1);
    assert.equal(shim.world.journal.names("engine.pullImage").length, 1);
    const users = [
      { username: "a", password: "1" },
      { username: "b", password: "2" },
    ];
    await Promise.all(users.map((user) => pull(shim, "app:1", user)));
    assert.equal(shim.world.journal.names("engine.pullImage").length, 3);
  });

  test("is told by verbose Status, with its layers, until it ends", async () => {
    const pulls = async (): Promise<unknown> => {
      const { info } = await shim.rpcs.Status({ verbose: true }, shim.call());
      return JSON.parse(info?.["pulls"] ?? "");
    };
    shim.engine.onPull = async (_reference, _credentials, onProgress, signal) => {
      onProgress(layer("Downloading", 7));
      await hang(signal);
    };
    const call = shim.call();
    const pulling = pull(shim, "app:1", null, call);
    await until("it is pulled", () => shim.services.images.pullRecords.running[0]?.layers.length === 1);
    const layers = [{ id: "abc", status: "Downloading", current: 7, total: 100 }];
    assert.deepEqual(await pulls(), [{ image: "app:1", layers }]);
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(pulling, "cancelled");
    await turns(2);
    assert.deepEqual(await pulls(), []);
  });

  test("goes on for those who stay, and is cancelled when the last caller has left", async () => {
    const pulling = hangingPull(shim);
    const calls = [shim.call(), shim.call()] as const;
    const pulls = calls.map((call) => pull(shim, "app:1", null, call));
    const settled = Promise.allSettled(pulls);
    await until("it is pulled", () => pulling.signal !== undefined);
    calls[0].abort(new ShimError("cancelled", "the first left"));
    await turns(2);
    assert.equal(pulling.signal?.aborted, false);
    calls[1].abort(new ShimError("cancelled", "the second left"));
    const reasons = (await settled).map((one) => one.status === "rejected" && String(one.reason));
    assert.deepEqual(reasons, ["ShimError: the first left", "ShimError: the second left"]);
    assert.equal(pulling.signal.aborted, true);
  });

  test("says what its callers wait for: the image and its layers, and nothing made of the credentials", async () => {
    let isPulled = false;
    shim.engine.onPull = (_reference, _credentials, onProgress, signal) => {
      onProgress(layer("Downloading", 5));
      isPulled = true;
      return hang(signal);
    };
    const call = shim.call();
    const failed = rejectsWith(pull(shim, "app:1", { username: "u", password: "p" }, call), "cancelled");
    await until("it is pulled", () => isPulled);
    const waits = describeWaits(call.signal).map((text) => text.replace(/ \(\d+ m?s\)$/, ""));
    assert.deepEqual(waits, ['pull image "app:1", abc: Downloading 5/100']);
    call.abort(new ShimError("cancelled", "the caller left"));
    await failed;
  });

  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const up = { username: "u", password: "p" };
  const withAddress = { identity_token: "t", server_address: "https://r" };
  const credentials: readonly (readonly [string, Partial<AuthConfig> | null, unknown])[] = [
    ["none", null, undefined],
    ["empty ones", {}, undefined],
    ["user and password", up, up],
    ["auth", { auth: base64("u:p:q") }, { username: "u", password: "p:q" }],
    ["auth with the zero bytes of old config files", { auth: base64("u:p\0\0") }, up],
    ["user and password before auth", { ...up, auth: "eDp5" }, up],
    ["an identity token", withAddress, { identityToken: "t", serverAddress: "https://r" }],
    ["a registry token", { registry_token: "t" }, { registryToken: "t" }],
  ];
  for (const [what, auth, expected] of credentials) {
    test(`hands ${what} to the engine`, async () => {
      await pull(shim, "app:1", auth);
      assert.deepEqual(shim.world.journal.argsOf("engine.pullImage"), [["app:1", expected]]);
    });
  }

  test("refuses auth that is no user and password, without telling it", async () => {
    const auth = base64("s3cret");
    const message = new RegExp(`^(?!.*(s3cret|${auth})).*auth\\.auth`);
    await rejectsWith(pull(shim, "app:1", { auth }), "invalid", message);
  });

  test("never logs credentials", async () => {
    shim.engine.onPull = (_reference, _credentials, onProgress) => {
      onProgress(layer("Downloading", 1));
      throw new ShimError("denied", "pull access denied");
    };
    const message = /pull access denied/;
    await rejectsWith(pull(shim, "app:1", { username: "user", password: "s3cret" }), "denied", message);
    assert.ok(!JSON.stringify(shim.log.lines).includes("s3cret"));
  });

  const registry = { from: "registry" };
  const failures: readonly (readonly [ShimError["kind"], object, ShimError["kind"], RegExp])[] = [
    ["notFound", registry, "notFound", /planned/],
    ["denied", registry, "denied", /planned/],
    ["unknown", registry, "unknown", /^planned/],
    // In the words that kubelets look for, with the only code for which they look.
    ["unavailable", registry, "unknown", /^RegistryUnavailable: planned/],
    // The engine itself: no word about registries.
    ["unavailable", {}, "unavailable", /^planned/],
  ];
  for (const [kind, fields, expected, message] of failures) {
    test(`reports ${kind} ${JSON.stringify(fields)} as ${expected}`, async () => {
      shim.engine.failNext("pullImage", new ShimError(kind, "planned", { ...fields }));
      await rejectsWith(pull(shim, "app:1"), expected, message);
      await pull(shim, "app:1");
    });
  }

  test("is an error when the engine does not have the image afterwards", async () => {
    shim.engine.onPull = () => undefined;
    await rejectsWith(pull(shim, "app:1"), "unavailable", /lost it right after the pull/);
  });
});

describe("the progress deadline of pullImage()", () => {
  const settings = { pullProgressDeadlineMs: 60_000 };

  test("gives a pull up that sends nothing", async (t) => {
    await using shim = await TestShim.start({ settings });
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const pulling = hangingPull(shim);
    const message = /^pull image "app:1": no progress for 1m \(the registry or the engine sent nothing\)$/;
    const failed = rejectsWith(pull(shim, "app:1"), "timeout", message);
    await until("it is pulled", () => pulling.signal !== undefined);
    t.mock.timers.tick(59_999);
    assert.equal(pulling.signal?.aborted, false);
    t.mock.timers.tick(1);
    await failed;
    assert.equal(pulling.signal.aborted, true);
  });

  test("gives a pull up that says the same again and again", async (t) => {
    await using shim = await TestShim.start({ settings });
    t.mock.timers.enable({ apis: ["setTimeout"] });
    shim.engine.onPull = (_reference, _credentials, onProgress, signal) => {
      for (let second = 0; second < 61; second += 1) {
        onProgress(layer("Downloading", 50));
        t.mock.timers.tick(1_000);
      }
      return hang(signal);
    };
    await rejectsWith(pull(shim, "app:1"), "timeout", /no progress for 1m \(abc: Downloading 50\/100\)/);
  });

  test("lets a pull take as long as it likes while bytes or extraction go on", async (t) => {
    await using shim = await TestShim.start({ settings });
    t.mock.timers.enable({ apis: ["setTimeout"] });
    shim.engine.onPull = (reference, _credentials, onProgress, signal) => {
      for (let minute = 0; minute < 30; minute += 1) {
        onProgress(layer(minute < 10 ? "Downloading" : "Extracting", minute));
        t.mock.timers.tick(59_999);
        signal.throwIfAborted();
      }
      shim.engine.images.add({ tags: [reference] });
    };
    await pull(shim, "app:1");
  });
});
