/** How the connects of pods share the dialer's process. */
import assert from "node:assert/strict";
import { openSync } from "node:fs";
import { Socket } from "node:net";
import { test } from "node:test";
import { sandboxSnapshot } from "../../fakes/snapshots.js";
import { turns } from "../../fakes/turns.js";
import { NamespaceDialer } from "../../../src/shim/pod-dialer/namespace-dialer.js";

const never = new AbortController().signal;
const perPod = 48;
const podsThatFillAll = 5;

/** A process in which each connect hangs until it is answered; the port stands for the connect. */
class HangingProcess {
  /** Ports of the connects that have reached it. */
  readonly begun: number[] = [];
  readonly settled: Promise<unknown>[] = [];
  readonly #answers = new Map<number, () => void>();
  readonly #dialer = new NamespaceDialer(
    {
      connect: (_namespace, port) =>
        new Promise((resolve) => {
          this.begun.push(port);
          this.#answers.set(port, () => {
            resolve(new Socket());
          });
        }),
    },
    () => ({ openNetworkNamespace: () => openSync("/dev/null", "r") }),
  );
  #lastPort = 0;

  /** Begins `count` connects to a pod. */
  connect(pod: string, count: number, signal = never): readonly number[] {
    return Array.from({ length: count }, () => {
      const port = (this.#lastPort += 1);
      this.settled.push(this.#dialer.connect(sandboxSnapshot(pod), port, signal).catch(() => undefined));
      return port;
    });
  }

  async answer(port: number | undefined): Promise<void> {
    this.#answers.get(port ?? 0)?.();
    await turns(5);
  }

  /** Answers all, also those that begin because of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const port of this.begun) await this.answer(port);
    await Promise.all(this.settled);
  }
}

test("a pod that accepts no connection holds 48 connects, and those of another pod begin at once", async () => {
  await using process = new HangingProcess();
  const stuck = process.connect("stuck", 300);
  await turns(5);
  assert.deepEqual(process.begun, stuck.slice(0, perPod));
  const [other] = process.connect("other", 1);
  await turns(5);
  assert.equal(process.begun.at(-1), other);
  await process.answer(stuck[0]);
  assert.deepEqual(process.begun.slice(perPod + 1), [stuck[perPod]], "the next one of that pod");
});

test("with 240 connects under way those of one pod more begin as others end, and not after the pods' own ones", async () => {
  await using process = new HangingProcess();
  const stuck = Array.from({ length: podsThatFillAll }, (_, pod) => process.connect(`stuck${pod}`, 100));
  await turns(5);
  assert.equal(process.begun.length, podsThatFillAll * perPod);
  const left = new AbortController();
  process.connect("other", 1, left.signal);
  const [second, third] = process.connect("other", 2);
  await turns(5);
  assert.equal(process.begun.length, podsThatFillAll * perPod);
  left.abort(new Error("the caller left"));
  // The waiting ones of the pod itself are behind its limit, not in the queue for the process.
  await process.answer(stuck[0]?.[0]);
  await process.answer(stuck[1]?.[0]);
  assert.deepEqual(process.begun.slice(podsThatFillAll * perPod), [second, third]);
});
